#include "base/check.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/tiles.h"

namespace sluice::cpu_ops {

void choose_experts(const Exec& exec, const RouteArgs& args) {
  SLUICE_CHECK(args.hash_ids != nullptr || args.slots <= args.experts,
               "a row cannot choose more experts than there are");
  SLUICE_CHECK(args.groups > 0 && args.experts % args.groups == 0 && args.kept_groups <= args.groups,
               "groups of experts have equal length, and no more are kept than there are");
  SLUICE_CHECK(args.groups == 1 || (args.slots <= args.experts / args.groups * args.kept_groups &&
                                    (args.group_score == GroupScore::kLargest || args.groups < args.experts)),
               "the groups that are kept have enough experts");
  run_row_tiles(exec, args.rows, static_cast<std::size_t>((8 + args.slots) * args.experts),
                [&](int begin, int end) { exec.kernels->route(args, begin, end); });
}

}  // namespace sluice::cpu_ops
