#include "kernels/hyper_connection.h"

#include "base/check.h"
#include "kernels/kernel_table.h"
#include "kernels/tiles.h"

namespace sluice {

void hc_mix(const Exec& exec, const HcMixArgs& args) {
  const LinearWeight& fn = args.weights->fn;
  const bool head = args.post == nullptr;
  SLUICE_CHECK(fn.in() == kHcStreams * args.dim && fn.out() == (head ? kHcStreams : 24),
               "fn maps the streams to the mixes");
  const LinearJob job{&fn, args.x, fn.in(), args.mixes, fn.out()};
  linear(exec, args.rows, {&job, 1});
  run_row_tiles(exec, args.rows, static_cast<std::size_t>(2 * fn.in() + 8192),
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
