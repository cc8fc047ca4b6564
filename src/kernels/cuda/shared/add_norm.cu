#include <algorithm>

#include "base/formats/number_formats.h"
#include "kernels/composed/composed_rows.h"
#include "kernels/cuda/shared/add_norm.h"
#include "kernels/cuda/shared/row_sums.h"
#include "kernels/ops/ops.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

// A team has a row, and sixteen threads a block of it, which they add, sum and lay in shared memory. Few rows take
// little but latency, much of it that of instructions and weights that are in no cache. So with few rows a team
// rehearses: it runs once without a result, on the weights, while the kernels ahead still work. That loads instructions
// and weights into the caches.
template <int kRowThreads>
struct AddNorm {
  static constexpr int kThreads = kRowThreads, kAtOnce = kThreads / 16;
  static constexpr bool kWaits = true;
  float* x;
  const float *y, *norm;  // y null: nothing is added
  const std::int32_t* only;
  float* normed;
  std::ptrdiff_t ld;
  std::uint16_t* rounded;  // where the normed row goes as bf16; null: not wanted
  int dim;
  float eps;
  bool rehearses;

  struct Pair {
    float a, b;
  };

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    float* row = reinterpret_cast<float*>(team.shared);
    float* sums = row + dim;
    SLUICE_ROLLED
    for (int run = rehearses ? 0 : 1; run < 2; ++run) {
      const bool real = run == 1;
      if (real) wait_for_kernels();
      add_blocks(team, row, sums, real);
      team.sync();
      float all = 0.0F;  // every thread computes the same sum
      SLUICE_UNROLL_8
      for (int block = 0; block < dim / kNormBlock; ++block) all += sums[block];
      const float r = reciprocal_rms(all, dim, eps);
      team.each([&](int t) {
        SLUICE_UNROLL_4
        for (int pair = t; pair < dim / 2; pair += kThreads) store(team.index, pair, r, row, real);
      });
      team.sync();
    }
  }

 private:
  SLUICE_DEVICE void add_blocks(const Team<kThreads>& team, float* row, float* sums, bool real) const {
    constexpr int kSteps = kNormBlock / 16;
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(only != nullptr ? only[team.index] : team.index) * dim;
    const float *of_x = real ? x + at : norm, *of_y = real && y != nullptr ? y + at : nullptr;
    for (int first = 0; first < dim / kNormBlock; first += kAtOnce) {
      PerThread<float, kThreads> squares;
      team.each([&](int t) {
        squares[t] = 0.0F;
        if (first + t / 16 >= dim / kNormBlock) return;
        const int begin = (first + t / 16) * kNormBlock + t % 16;
        float values[kSteps];
        SLUICE_UNROLL
        for (int k = 0; k < kSteps; ++k) values[k] = of_x[begin + 16 * k];
        if (of_y != nullptr) {
          SLUICE_UNROLL
          for (int k = 0; k < kSteps; ++k) values[k] += of_y[begin + 16 * k];
          SLUICE_UNROLL
          for (int k = 0; k < kSteps; ++k) x[at + begin + 16 * k] = values[k];
        }
        float lane = 0.0F;
        SLUICE_UNROLL
        for (int k = 0; k < kSteps; ++k) lane = std::fma(values[k], values[k], lane), row[begin + 16 * k] = values[k];
        squares[t] = lane;
      });
      tree_sum16(team, squares);
      team.each([&](int t) {
        if (t % 16 == 0 && first + t / 16 < dim / kNormBlock) sums[first + t / 16] = squares[t];
      });
    }
  }

  SLUICE_DEVICE void store(std::ptrdiff_t to, int pair, float r, const float* row, bool real) const {
    const Pair value = reinterpret_cast<const Pair*>(row)[pair];
    const Pair out{(value.a * r) * norm[2 * pair], (value.b * r) * norm[2 * pair + 1]};
    if (!real) return;
    reinterpret_cast<Pair*>(normed + to * ld)[pair] = out;
    if (rounded == nullptr) return;
    const std::uint32_t low = to_bf16(out.a).bits, high = to_bf16(out.b).bits;
    reinterpret_cast<std::uint32_t*>(rounded + to * dim)[pair] = low | high << 16;
  }
};

template <int kThreads>
void start(const Exec& exec, const AddNormArgs& args, int rows) {
  constexpr int kRehearsed = 32;  // at most this many rows are rehearsed: each of them waits for the kernels ahead
  const AddNorm<kThreads> kernel{.x = args.x,
                                 .y = args.y,
                                 .norm = args.norm,
                                 .only = args.only.data(),
                                 .normed = args.normed.values,
                                 .ld = args.normed.ld,
                                 .rounded = reinterpret_cast<std::uint16_t*>(args.normed.form(InputForm::kBf16)),
                                 .dim = args.dim,
                                 .eps = args.eps,
                                 .rehearses = rows <= kRehearsed};
  launch(exec, rows, kernel, static_cast<std::size_t>(args.dim + args.dim / kNormBlock) * sizeof(float));
}

bool has_blocks(const AddNormArgs& args) {
  return args.norm != nullptr && args.dim % kNormBlock == 0 && args.dim <= kMostNormDims;
}

}  // namespace

void add_norm_in_blocks(const Exec& exec, const AddNormArgs& given) {
  if (!has_blocks(given)) return composed::add_norm(exec, given);
  SLUICE_CHECK(given.normed.parts == 1 && given.normed.columns == given.dim && given.normed.ld % 2 == 0 &&
                   reinterpret_cast<std::uintptr_t>(given.normed.values) % sizeof(std::uint64_t) == 0,
               "whole rows of the scratch");
  AddNormArgs args = given;
  const bool all = args.only.data() == nullptr;
  const int rows = all ? args.rows : static_cast<int>(args.only.size());
  if (!all && args.y != nullptr) {  // y is added to all rows, but only some are normed
    add(exec, AddArgs{args.rows, args.dim, args.y, args.x});
    args.y = nullptr;
  }
  constexpr int kSmallDims = 2048;
  args.dim <= kSmallDims ? start<256>(exec, args, rows) : start<512>(exec, args, rows);
  args.normed.forms[static_cast<std::size_t>(InputForm::kBf16)] = nullptr;
  composed::make_forms(exec, rows, args.normed);
}

}  // namespace sluice::SLUICE_CUDA_OPS
