// The instruction sets that the CPU's kernels exist for. One is chosen at start, and a run never mixes it with others.
// All give the same bits (kernels/device/exec.h), so the choice changes speed only. Thread safety: constant values.
// Used by bench, cli, engine, kernels and src/bench.
#pragma once

#include <compare>
#include <string>
#include <vector>

#include "sluice/status.h"

namespace sluice {

struct KernelTable;  // the kernels of one choice, for the drivers of the CPU's ops (kernels/cpu)

// "auto" picks the best level that the machine has. `changes` (--kernels, "-amx,-vnni": kernels/device/cpu_features.h)
// removes features or corrects judgements. A name that is unknown or that the machine lacks is an error, which says
// what the machine has.
Result<const KernelTable*> select_kernels(const std::string& isa, const std::string& changes = "");
// Plain C++, for any machine.
const KernelTable& scalar_kernels();
// The kernels of every level that this machine has, best first; the scalar ones are last.
std::vector<const KernelTable*> present_kernels();

// Choices that tests run: every row of the flat table below that is possible on this machine occurs in one of them. The
// scalar one is first, that of "auto" last.
const std::vector<const KernelTable*>& every_path();

// Returns the level, which decides how weights are packed.
const char* isa_name(const KernelTable& table);
// Returns the level and how the features differ from the machine's: "avx512vbmi -amx".
const char* kernels_name(const KernelTable& table);

// The kernels that this machine cannot run, so that no test runs them here, by the target that they are compiled for:
// "avx512_amx", 9. Sorted by name.
struct AbsentKernels {
  std::string target;
  int kernels = 0;
};
std::vector<AbsentKernels> absent_kernels();

// The flat table that `sluice kernels` prints: the function that runs for each op, and, for linears, for each format of
// weights, form of inputs and number of rows.
struct KernelRow {
  std::string entry{}, format{}, inputs{}, rows{};
  std::string kernel{};  // the function, in namespace sluice::cpu
  std::string note{};    // when the function runs, if it does not always run
  friend auto operator<=>(const KernelRow&, const KernelRow&) = default;
};
std::vector<KernelRow> describe_kernels(const KernelTable& table);

}  // namespace sluice
