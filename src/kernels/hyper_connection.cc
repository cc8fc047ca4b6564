#include "kernels/hyper_connection.h"

#include "base/check.h"
#include "kernels/kernel_table.h"
#include "kernels/tiles.h"

namespace sluice {

void hc_mix(const Exec& exec, const HcMixArgs& args) {
  const LinearWeight &first = args.weights->fn[0], &second = args.weights->fn[1];
  const bool head = args.post == nullptr;
  const int mixes = head ? kHcStreams : 24, in = kHcStreams * args.dim;
  SLUICE_CHECK(first.in() == in && first.out() + second.out() == mixes, "fn maps the streams to the mixes");
  const LinearJob jobs[] = {{&first, args.x, in, args.mixes, mixes},
                            {&second, args.x, in, args.mixes + first.out(), mixes}};
  linear(exec, args.rows, {jobs, second.out() > 0 ? 2U : 1U});
  run_row_tiles(exec, args.rows, static_cast<std::size_t>(2 * in + 8192),
                [&](int begin, int end) { exec.kernels->hc_finish(args, begin, end); });
}

void hc_collapse(const Exec& exec, int rows, int dim, const float* x, const float* pre, float* y) {
  const HcCollapseArgs args{dim, x, pre, y};
  run_row_tiles(exec, rows, static_cast<std::size_t>(8 * dim),
                [&](int begin, int end) { exec.kernels->hc_collapse(args, begin, end); });
}

void hc_expand(const Exec& exec, int rows, int dim, const float* y, const float* post, const float* comb, float* x) {
  const HcExpandArgs args{dim, y, post, comb, x};
  run_row_tiles(exec, rows, static_cast<std::size_t>(32 * dim),
                [&](int begin, int end) { exec.kernels->hc_expand(args, begin, end); });
}

}  // namespace sluice
