#include "base/check.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/tiles.h"

namespace sluice::cpu_ops {

void hc_mix(const Exec& exec, const HcMixArgs& args) {
  const LinearWeight &first = args.weights->fn[0], &second = args.weights->fn[1];
  const bool head = args.post == nullptr;
  const int mixes = head ? kHcStreams : 24, in = kHcStreams * args.dim;
  SLUICE_CHECK(first.in() == in && first.out() + second.out() == mixes, "fn maps the streams to the mixes");
  const LinearJob jobs[] = {{&first, args.x, in, args.mixes, mixes},
                            {&second, args.x, in, args.mixes + first.out(), mixes}};
  cpu_ops::linear(exec, {args.rows, {jobs, second.out() > 0 ? 2U : 1U}});
  run_row_tiles(exec, args.rows, static_cast<std::size_t>(2 * in + 8192),
                [&](int begin, int end) { exec.kernels->hc_finish(args, begin, end); });
}

void hc_collapse(const Exec& exec, const HcCollapseArgs& args) {
  run_row_tiles(exec, args.rows, static_cast<std::size_t>(8 * args.dim),
                [&](int begin, int end) { exec.kernels->hc_collapse(args, begin, end); });
}

void hc_expand(const Exec& exec, const HcExpandArgs& args) {
  run_row_tiles(exec, args.rows, static_cast<std::size_t>(32 * args.dim),
                [&](int begin, int end) { exec.kernels->hc_expand(args, begin, end); });
}

}  // namespace sluice::cpu_ops
