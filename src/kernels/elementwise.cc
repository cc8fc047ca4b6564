#include "kernels/elementwise.h"

#include <bit>

#include "base/check.h"
#include "kernels/kernel_table.h"
#include "kernels/tiles.h"

namespace sluice {

void rms_norm(const Exec& exec, const RmsNormArgs& args) {
  run_row_tiles(exec, args.rows, static_cast<std::size_t>(2 * args.dim),
                [&](int begin, int end) { exec.kernels->rms_norm(args, begin, end); });
}

void rope_heads(const Exec& exec, const RopeHeadsArgs& args) {
  SLUICE_CHECK(args.rope_dims % 2 == 0 && args.offset >= 0 && args.offset + args.rope_dims <= args.head_dim,
               "the rotary dims are pairs inside the head");
  const int touched = args.norm_eps >= 0.0F ? args.head_dim : args.rope_dims;
  run_row_tiles(exec, args.rows, static_cast<std::size_t>(2 * args.heads * touched),
                [&](int begin, int end) { exec.kernels->rope_heads(args, begin, end); });
}

void hadamard(const Exec& exec, int rows, int dim, float* x) {
  SLUICE_CHECK(dim > 0 && std::has_single_bit(static_cast<unsigned>(dim)), "Hadamard needs a power of two");
  const HadamardArgs args{dim, x};
  run_row_tiles(exec, rows, static_cast<std::size_t>(8 * dim),
                [&](int begin, int end) { exec.kernels->hadamard(args, begin, end); });
}

}  // namespace sluice
