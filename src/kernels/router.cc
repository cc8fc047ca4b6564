#include "kernels/router.h"

#include "base/check.h"
#include "kernels/kernel_table.h"
#include "kernels/tiles.h"

namespace sluice {

void route(const Exec& exec, const RouteArgs& args) {
  SLUICE_CHECK(args.given_ids != nullptr || args.slots <= args.experts,
               "a row cannot choose more experts than there are");
  run_row_tiles(exec, args.rows, static_cast<std::size_t>((8 + args.slots) * args.experts),
                [&](int begin, int end) { exec.kernels->route(args, begin, end); });
}

}  // namespace sluice
