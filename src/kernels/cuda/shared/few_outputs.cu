// Products with few outputs of bf16 and rows of floats, as for a router, in the order of kernels/ops/linear.h.
//
// The lanes of a warp have neighbouring blocks of some outputs and rows, a chain each; all of the rows lie in shared
// memory. The first weights are loaded before the kernels ahead have ended. After a barrier one thread for each output
// and row adds the blocks in ascending order.
// Used by kernels/cuda/shared and kernels/cuda/sm90.
#include "kernels/cuda/shared/linear_products.h"
#include "kernels/cuda/shared/linear_staging.h"
#include "kernels/cuda/shared/words.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

constexpr int kMostOutputs = 1024, kOfBlock = 128, kInputsStride = input_stride(kOfBlock);
constexpr int kChunkInputs = 8, kChunksOfBlock = kOfBlock / kChunkInputs;
// The shared memory of a team, which every GPU of compute capability 8 has.
constexpr std::size_t kFewOutputsShared = std::size_t{98} << 10;

struct alignas(16) FourFloats {
  float values[4];
};

template <int kRows, int kOutputs>
struct FewOutputs {
  static constexpr int kThreads = kRows == 1 ? 128 : 256, kTileOutputs = kThreads / 32 * kOutputs;
  static constexpr int kAhead = kRows == 1 ? kChunksOfBlock : 2;  // chunks of an output that are being loaded
  static constexpr bool kWaits = true;
  LinearProduct product;
  int rows, out_tiles;

  static std::size_t shared_bytes(int blocks) {
    return static_cast<std::size_t>(kRows * blocks * kInputsStride + kRows * kTileOutputs * (blocks | 1)) *
           sizeof(float);
  }

  struct Weights {
    Chunk chunks[kAhead][kOutputs];
  };
  // A thread's outputs, and its blocks: every 32nd one.
  struct Place {
    const std::byte* weights[kOutputs];
    int lane, steps;  // the thread's lane in its warp; chunks of an output
  };

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const CudaLinear& w = product.weight;
    const int first_row = team.index / out_tiles * kRows, first_out = team.index % out_tiles * kTileOutputs;
    float* const inputs = reinterpret_cast<float*>(team.shared);
    float* const sums = inputs + kRows * w.blocks * kInputsStride;
    PerThread<Weights, kThreads> ahead;
    team.each([&](int t) {
      const Place place = place_of(t, first_out);
      SLUICE_UNROLL
      for (int j = 0; j < kAhead; ++j) load(place, j, ahead[t].chunks[j]);
    });
    wait_for_kernels();
    team.each([&](int t) { copy_inputs(t, first_row, inputs); });
    team.sync();
    team.each([&](int t) { multiply(place_of(t, first_out), t / 32 * kOutputs, inputs, ahead[t], sums); });
    team.sync();
    team.each([&](int t) {
      for (int i = t; i < kRows * kTileOutputs; i += kThreads) {
        const int row = first_row + i / kTileOutputs, out = first_out + i % kTileOutputs;
        if (row >= rows || out >= w.out) continue;
        float y = 0.0F;
        SLUICE_UNROLL_8
        for (int b = 0; b < w.blocks; ++b) y = std::fma(sums[i * (w.blocks | 1) + b], 1.0F, y);
        product.y[row * product.ldy + out] = y;
      }
    });
  }

  SLUICE_DEVICE Place place_of(int t, int first_out) const {
    const CudaLinear& w = product.weight;
    Place place;
    place.lane = t % 32;
    place.steps = (w.blocks - place.lane + 31) / 32 * kChunksOfBlock;
    SLUICE_UNROLL
    for (int u = 0; u < kOutputs; ++u) {
      const int out = first_out + t / 32 * kOutputs + u;
      place.weights[u] = w.data + static_cast<std::size_t>(out < w.out ? out : w.out - 1) * w.row_bytes;
    }
    return place;
  }

  SLUICE_DEVICE void load(const Place& place, int step, Chunk* to) const {
    if (step >= place.steps) return;
    const int chunk = step % kChunksOfBlock, block = place.lane + step / kChunksOfBlock * 32;
    SLUICE_UNROLL
    for (int u = 0; u < kOutputs; ++u) {
      to[u] = reinterpret_cast<const Chunk*>(place.weights[u])[chunk * product.weight.blocks + block];
    }
  }

  SLUICE_DEVICE void copy_inputs(int t, int first_row, float* inputs) const {
    const int in = product.weight.in;
    SLUICE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const int row = first_row + r < rows ? first_row + r : rows - 1;
      const float* x = product.x + (product.x_rows != nullptr ? product.x_rows[row] : row) * product.ldx;
      float* to = inputs + r * product.weight.blocks * kInputsStride;
      for (int k = 4 * t; k < in; k += 4 * kThreads) copy_16(to + k / kOfBlock * kInputsStride + k % kOfBlock, x + k);
    }
    commit_copies();
    wait_copies<0>();
  }

  SLUICE_DEVICE void multiply(const Place& place, int tile_out, const float* inputs, Weights& weights,
                              float* sums) const {
    const int blocks = product.weight.blocks;
    SLUICE_ROLLED
    for (int from = 0; from < place.steps; from += kChunksOfBlock) {
      const int block = place.lane + from / kChunksOfBlock * 32;
      float chains[kRows][kOutputs] = {};
      SLUICE_ROLLED
      for (int chunk = 0; chunk < kChunksOfBlock; chunk += kAhead) {
        SLUICE_UNROLL
        for (int j = 0; j < kAhead; ++j) {
          multiply_chunk(inputs + block * kInputsStride + (chunk + j) * kChunkInputs, weights.chunks[j], chains);
          load(place, from + chunk + j + kAhead, weights.chunks[j]);
        }
      }
      SLUICE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        SLUICE_UNROLL
        for (int u = 0; u < kOutputs; ++u)
          sums[(r * kTileOutputs + tile_out + u) * (blocks | 1) + block] = chains[r][u];
      }
    }
  }

  SLUICE_DEVICE void multiply_chunk(const float* x, const Chunk* chunks, float (&chains)[kRows][kOutputs]) const {
    SLUICE_UNROLL
    for (int half = 0; half < 2; ++half) {
      FourFloats of_rows[kRows];
      SLUICE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        of_rows[r] = *reinterpret_cast<const FourFloats*>(x + r * product.weight.blocks * kInputsStride + 4 * half);
      }
      SLUICE_UNROLL
      for (int u = 0; u < kOutputs; ++u) {
        float w[4];
        expand_bf16(chunks[u].words[2 * half], w);
        expand_bf16(chunks[u].words[2 * half + 1], w + 2);
        SLUICE_UNROLL
        for (int r = 0; r < kRows; ++r) {
          SLUICE_UNROLL
          for (int i = 0; i < 4; i += 2) {
            chains[r][u] = std::fma(of_rows[r].values[i + 1], w[i + 1], chains[r][u]);
            chains[r][u] = std::fma(of_rows[r].values[i], w[i], chains[r][u]);
          }
        }
      }
    }
  }
};

template <class Kernel>
bool launch_few_outputs(const Exec& exec, int rows, const LinearProduct& product, int tile_rows) {
  const std::size_t shared = Kernel::shared_bytes(product.weight.blocks);
  if (shared > kFewOutputsShared) return false;
  const int out_tiles = (product.weight.out + Kernel::kTileOutputs - 1) / Kernel::kTileOutputs;
  launch(exec, std::int64_t{(rows + tile_rows - 1) / tile_rows} * out_tiles, Kernel{product, rows, out_tiles}, shared);
  return true;
}

}  // namespace

bool multiply_few_outputs(const Exec& exec, int rows, const LinearProduct& product) {
  const CudaLinear& w = product.weight;
  if (w.coding != Coding::kBf16 || w.scales != ScaleFormat::kNone || product.form != InputForm::kF32 ||
      w.block != kOfBlock || w.in % kOfBlock != 0 || w.out > kMostOutputs || product.groups != nullptr ||
      product.ldx % 4 != 0 || reinterpret_cast<std::uintptr_t>(product.x) % 16 != 0) {
    return false;
  }
  constexpr int kAlone = 8;  // with at most this many rows there are more teams, which load weights before they wait
  if (rows <= kAlone) return launch_few_outputs<FewOutputs<1, 1>>(exec, rows, product, 1);
  return launch_few_outputs<FewOutputs<4, 4>>(exec, rows, product, 4) ||
         launch_few_outputs<FewOutputs<2, 4>>(exec, rows, product, 2);
}

}  // namespace sluice::SLUICE_CUDA_OPS
