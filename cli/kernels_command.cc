#include "cli/kernels_command.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/exit_code.h"
#include "kernels/cpu_features.h"
#include "kernels/isa.h"

namespace sluice {
namespace {

Status print_kernels(const KernelsOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const KernelTable* table, select_kernels(options.isa));
  fmt::print("machine  {}\n", cpu_isas());
  fmt::print("chosen   {} ({})\n\n", isa_name(*table),
             options.isa == "auto" ? "auto: the best that this machine has" : "forced by --isa");
  fmt::print("{:<14} {:<11} {}\n", "op", "isa", "why");
  for (const KernelRow& row : describe_kernels(*table)) fmt::print("{:<14} {:<11} {}\n", row.op, row.isa, row.why);
  return {};
}

}  // namespace

int run_kernels(const KernelsOptions& options) {
  return report(print_kernels(options));
}

}  // namespace sluice
