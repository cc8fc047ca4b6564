#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "cli/commands/model_commands.h"
#include "cli/exit_code.h"
#include "kernels/device/cpu_features.h"
#include "kernels/device/isa.h"

namespace sluice {
namespace {

Status print_kernels(const KernelsOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const KernelTable* table, select_kernels(options.isa, options.kernels));
  fmt::print("machine  {}: {}\n", cpu_isas(), cpu_features().text());
  std::string absent;
  for (const AbsentKernels& of : absent_kernels()) {
    absent += fmt::format("{}{} ({} {})", absent.empty() ? "" : ", ", of.target, of.kernels,
                          of.kernels == 1 ? "kernel" : "kernels");
  }
  fmt::print("absent   {}\n", absent.empty() ? "none: this machine can run every kernel" : absent);
  fmt::print("chosen   {}{}\n\n", kernels_name(*table),
             options.isa == "auto" && options.kernels.empty() ? " (auto: the best that this machine has)"
                                                              : " (forced by --isa or --kernels)");
  constexpr const char* kLine = "{:<16} {:<17} {:<18} {:<6} {}{}\n";
  fmt::print(kLine, "op", "weights", "inputs", "rows", "kernel", "");
  for (const KernelRow& row : describe_kernels(*table)) {
    fmt::print(kLine, row.entry, row.format, row.inputs, row.rows, row.kernel,
               row.note.empty() ? "" : fmt::format(" ({})", row.note));
  }
  return {};
}

}  // namespace

int run_kernels(const KernelsOptions& options) {
  return report(print_kernels(options));
}

}  // namespace sluice
