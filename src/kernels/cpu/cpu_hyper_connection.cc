// Hyper-connections (kernels/ops/hyper_connection.h): everything from one sub-layer to the next in one fork, and in two
// calls for one row.
// Called through the table of ops (kernels/ops/ops.h).
#include <algorithm>
#include <functional>
#include <vector>

#include "base/aligned.h"
#include "base/check.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/linear/linear_layout.h"
#include "kernels/cpu/linear/linear_split.h"
#include "kernels/cpu/linear/tiles.h"

namespace sluice::cpu_ops {
namespace {

constexpr int kMostMixes = 24;

// The product fn z has 24 outputs, too few to share among threads, and thousands of inputs. So it is cut into the
// blocks of its order (kernels/ops/linear.h), and the blocks' sums are added up afterwards, ascending as the order has
// it. It is for weights without scales, which are one tile of lines: there blocks lie one after the other.
class BlockSums {
 public:
  // With more rows there are enough pieces for all threads without cutting the inputs.
  static constexpr int kMostRows = 128;

  // True if the weights have no scales and are whole blocks, as this class needs.
  static bool are_lines(const HyperConnectionWeights& weights) {
    const auto fits = [&](const LinearWeight& weight) {
      return weight.out() == 0 || (weight.view().format == WeightFormat::kF32 && weight.packed_bytes() > 0 &&
                                   weight.input_form() == InputForm::kF32 && weight.out() <= kGroupOutputs &&
                                   weight.in() % weight.view().block_inputs() == 0 &&
                                   weight.view().block_inputs() == weights.fn[0].view().block_inputs());
    };
    return fits(weights.fn[0]) && fits(weights.fn[1]);
  }

  void compute(const Exec& exec, const HcMixArgs& args) {
    const LinearWeight& first = args.weights->fn[0];
    const int block = first.view().block_inputs();
    rows_ = args.rows, mixes_ = args.post == nullptr ? kHcStreams : kMostMixes, blocks_ = first.in() / block;
    float* sums = sums_.get(static_cast<std::size_t>(rows_) * static_cast<std::size_t>(blocks_ * mixes_));
    // About four pieces a thread, so that threads of unequal speed finish together. A piece takes some microseconds for
    // one row.
    const int per_piece = std::max(1, blocks_ / (4 * exec.pool->threads()));
    const auto piece = [&](int index, int) {
      for (int b = index * per_piece; b < std::min(blocks_, (index + 1) * per_piece); ++b) {
        int from = 0;
        for (const LinearWeight& weight : args.weights->fn) {
          if (weight.out() == 0) continue;
          const LinearWeight of_block = cut(weight, b);
          const LinearJob job{&of_block, args.x + std::ptrdiff_t{b} * block, first.in(),
                              sums + std::ptrdiff_t{b} * mixes_ + from, std::ptrdiff_t{blocks_} * mixes_};
          exec.kernels->linear.run(job, rows_, 0, weight.out());
          from += weight.out();
        }
      }
    };
    exec.pool->run((blocks_ + per_piece - 1) / per_piece, std::ref(piece));
  }

  // Adds up rows [begin, end) of the product.
  void add_up(int begin, int end, float* y) {
    for (std::ptrdiff_t row = begin; row < end; ++row) {
      const float* sums = sums_.get(0) + row * blocks_ * mixes_;
      float total[kMostMixes] = {};
      for (int b = 0; b < blocks_; ++b, sums += mixes_) {
        for (int m = 0; m < mixes_; ++m) total[m] = sums[m] + total[m];
      }
      std::copy_n(total, mixes_, y + row * mixes_);
    }
  }

 private:
  // Returns the weight's inputs of block b alone.
  static LinearWeight cut(const LinearWeight& weight, int b) {
    WeightView view = weight.view();
    view.in = view.block_inputs();
    const std::size_t bytes = weight.packed_bytes() / static_cast<std::size_t>(weight.in() / view.in);
    return LinearWeight::make(view, InputForm::kF32,
                              {.packed = weight.packed() + static_cast<std::size_t>(b) * bytes, .packed_bytes = bytes});
  }

  int rows_ = 0, mixes_ = 0, blocks_ = 0;
  FloatBuffer sums_;  // [rows][block][mix]
};

// Computes fn z of all rows, and then, a few rows at a time, calls after(begin, end) for the rest.
template <class After>
void mix_then(const Exec& exec, const HcMixArgs& args, std::size_t operations_after, const After& after) {
  const LinearWeight &first = args.weights->fn[0], &second = args.weights->fn[1];
  const bool head = args.post == nullptr;
  const int mixes = head ? kHcStreams : kMostMixes, in = kHcStreams * args.dim;
  SLUICE_CHECK(first.in() == in && first.out() + second.out() == mixes, "fn maps the streams to the mixes");
  thread_local BlockSums of_thread;
  BlockSums& sums = of_thread;  // a reference, since a pool's thread would name its own thread_local
  // Uncut, the chains of several blocks hide each other's latency. Sharing among threads must gain more than that
  // loses.
  const std::int64_t macs = std::int64_t{1} * args.rows * mixes * in, threads = exec.pool->threads();
  const bool lines = args.rows <= BlockSums::kMostRows && BlockSums::are_lines(*args.weights);
  const bool shared = threads > 1 && macs >= threads * kForkMacs, cut = shared && lines;
  constexpr int kFewRows = 8;
  const bool together =
      !shared && lines && args.rows <= kFewRows && first.out() == kGroupOutputs && second.out() == kHalfGroupOutputs;
  if (cut) {
    sums.compute(exec, args);
  } else if (together) {
    const auto product = [&](int, int) { exec.kernels->hc_product(args, 0, args.rows); };
    exec.pool->run(1, std::ref(product));
  } else {
    const LinearJob jobs[] = {{&first, args.x, in, args.mixes, mixes},
                              {&second, args.x, in, args.mixes + first.out(), mixes}};
    cpu_ops::linear(exec, {args.rows, {jobs, second.out() > 0 ? 2U : 1U}});
  }
  constexpr std::size_t kSideBySide = 4;  // rows whose Sinkhorn steps run together: those of one row mostly wait
  const auto finish = [&](int begin, int end) {
    if (cut) sums.add_up(begin, end, args.mixes);
    exec.kernels->hc_finish(args, begin, end);
    after(begin, end);
  };
  run_row_tiles(exec, args.rows, static_cast<std::size_t>(2 * in + 8192) + operations_after, finish, kSideBySide);
}

}  // namespace

void hc_mix(const Exec& exec, const HcMixArgs& args) {
  mix_then(exec, args, 0, [](int, int) {});
}

void hc_collapse(const Exec& exec, const HcCollapseArgs& args) {
  run_row_tiles(exec, args.rows, static_cast<std::size_t>(8 * args.dim),
                [&](int begin, int end) { exec.kernels->hc_collapse(args, begin, end); });
}

void hc_expand(const Exec& exec, const HcExpandArgs& args) {
  run_row_tiles(exec, args.rows, static_cast<std::size_t>(32 * args.dim),
                [&](int begin, int end) { exec.kernels->hc_expand(args, begin, end); });
}

void hc_leave_enter(const Exec& exec, const HcLeaveEnterArgs& args) {
  const int dim = args.dim;
  if (args.y != nullptr) cpu_ops::hc_expand(exec, {args.rows, dim, args.y, args.post, args.comb, args.x});
  if (args.weights == nullptr) return;
  const float* x = args.x;
  int rows = args.rows;
  if (args.only.data() != nullptr) {
    rows = static_cast<int>(args.only.size());
    cpu_ops::gather_rows(exec, {args.only, kHcStreams * dim, x, args.gathered});
    x = args.gathered;
  }
  const bool head = args.weights->fn[1].out() == 0;
  const HcMixArgs mix{rows,
                      dim,
                      x,
                      args.weights,
                      args.norm_eps,
                      args.hc_eps,
                      args.sinkhorn_iterations,
                      args.mixes,
                      args.pre,
                      head ? nullptr : args.post,
                      head ? nullptr : args.comb};
  const HcCollapseArgs collapse{rows, dim, x, args.pre, args.collapsed};
  const NormInputsArgs norm{
      {rows, dim, args.collapsed, dim, args.norm, args.norm_eps, args.normed.values, args.normed.ld}, args.normed};
  check_norm(norm);
  mix_then(exec, mix, static_cast<std::size_t>(12 * dim), [&](int begin, int end) {
    exec.kernels->hc_collapse(collapse, begin, end);
    norm_rows(*exec.kernels, norm, begin, end);
  });
}

}  // namespace sluice::cpu_ops
