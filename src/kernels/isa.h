// The instruction sets that the CPU's kernels exist for. One is chosen at start and never mixed with others in a run;
// all give the same bits (kernels/exec.h), so it changes speed only. Thread safety: constant values.
#pragma once

#include <string>
#include <vector>

#include "sluice/status.h"

namespace sluice {

struct KernelTable;  // the kernels of one, for the drivers of the CPU's ops (kernels/cpu)

// "auto" picks the best that the machine has; a name that is unknown or that it lacks is an error that says what it
// has.
Result<const KernelTable*> select_kernels(const std::string& isa);
// Plain C++, of any machine.
const KernelTable& scalar_kernels();
// Those that this machine has, best first; the scalar ones are the last.
std::vector<const KernelTable*> present_kernels();

const char* isa_name(const KernelTable& table);

struct KernelRow {  // for `sluice kernels`
  std::string op, isa, why;
};
// A table may leave a kernel to the next lower instruction set; this says which is which.
std::vector<KernelRow> describe_kernels(const KernelTable& table);

}  // namespace sluice
