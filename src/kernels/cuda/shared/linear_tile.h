// A tile of a product: some outputs of some rows, by one team, in the order of kernels/ops/linear.h.
//
// The inputs of a row come in pieces of whole blocks, which the team brings into shared memory in the form that the
// weight multiplies. With a piece it goes through its outputs, some at a time. A thread computes blocks of
// kLinearOutputs neighbouring outputs for all rows: each is a chain, or a sum of integers, of its own. Then a thread
// for each output and row adds the blocks of the piece in ascending order.
// Used by shared_linear.cu.
#pragma once

#include "kernels/cuda/shared/linear_formats.h"
#include "kernels/cuda/shared/linear_staging.h"

namespace sluice::SLUICE_CUDA_OPS {

inline constexpr int kLinearThreads = 128;

// The cuts of a tile, fixed by the host, which knows how much shared memory a tile takes.
struct LinearCut {
  int rows = 1;     // most rows, a template argument of the kernel
  int piece = 0;    // blocks whose inputs lie in shared memory at once
  int outputs = 0;  // outputs whose blocks' sums lie there at once, a multiple of kLinearOutputs
  int parts = 1;    // parts of a tile, of `outputs` each
  bool int8 = false;

  SLUICE_HD int partial_stride() const { return piece | 1; }
  SLUICE_HD int input_floats(int block) const { return rows * piece * input_stride(block); }
  SLUICE_HD int quantized(int block) const { return int8 ? rows * ((piece * block + 31) / 32) : 0; }
  std::size_t shared_bytes(int block) const {
    const int partials = (rows + 1) * outputs * partial_stride() + rows * parts * outputs;
    return static_cast<std::size_t>(quantized(block)) * sizeof(QuantizedInputs) +
           static_cast<std::size_t>(input_floats(block) + partials) * sizeof(float);
  }
};
inline constexpr int kLinearOutputs = 2;

template <class Weights, int kRows, class XRow, class YRow>
class LinearTile {
 public:
  static constexpr int kThreads = kLinearThreads;
  static constexpr int kAhead = 2;  // pieces of a block that a thread reads before it multiplies them

  // `data`: the packed weight, of the layout of `w`.
  SLUICE_DEVICE LinearTile(const Team<kThreads>& team, const CudaLinear& w, const std::byte* data, const LinearCut& cut,
                           InputForm form, bool prepared, const XRow& x_row, const YRow& y_row)
      : team_(team),
        w_(w),
        data_(data),
        cut_(cut),
        y_row_(y_row),
        quantized_at_(reinterpret_cast<QuantizedInputs*>(team.shared)),
        inputs_at_(reinterpret_cast<float*>(quantized_at_ + cut.quantized(w.block))),
        inputs_(team, w, form, prepared, x_row, cut.piece, quantized_at_, inputs_at_) {
    partials_ = inputs_at_ + cut.input_floats(w.block);
    scales_ = partials_ + kRows * cut.outputs * cut.partial_stride();
    sums_ = scales_ + cut.outputs * cut.partial_stride();
  }

  // Computes the tile's outputs from `begin` on, as far as they exist, of rows [0, rows), kRows at most.
  SLUICE_DEVICE void run(int begin, int rows) {
    const int of_tile = cut_.parts * cut_.outputs, all = w_.out - begin < of_tile ? w_.out - begin : of_tile;
    team_.each([&](int t) {
      for (int i = t; i < kRows * of_tile; i += kThreads) sums_[i] = 0.0F;
    });
    for (int first = 0; first < w_.blocks; first += cut_.piece) {
      const int blocks = w_.blocks - first < cut_.piece ? w_.blocks - first : cut_.piece;
      team_.sync();
      inputs_.read(first, blocks, rows);
      for (int from = 0; from < all; from += cut_.outputs) {
        const int outputs = all - from < cut_.outputs ? all - from : cut_.outputs;
        team_.sync();
        team_.each([&](int t) {
          const int items = (outputs + kLinearOutputs - 1) / kLinearOutputs * blocks;
          for (int item = t; item < items; item += kThreads) {
            const int b = item % blocks, n = item / blocks * kLinearOutputs;
            add_block(first, b, begin + from, n);
          }
        });
        team_.sync();
        add_partials(blocks, rows, outputs, sums_ + from);
      }
    }
    team_.sync();
    team_.each([&](int t) {
      for (int i = t; i < rows * all; i += kThreads) {
        const int r = i / all, n = i % all;
        y_row_(r)[begin + n] = sums_[r * of_tile + n];
      }
    });
  }

 private:
  SLUICE_DEVICE const Chunk* chunk(int n, int block, int c) const {
    const std::byte* row = data_ + static_cast<std::size_t>(n) * w_.row_bytes;
    return reinterpret_cast<const Chunk*>(row) + c * w_.blocks + block;
  }

  SLUICE_DEVICE const std::byte* scale_row(int n) const {
    return data_ + w_.scales_at + static_cast<std::size_t>(n) * w_.scale_row_bytes;
  }

  // Adds block `b` of the piece that begins at block `first`, for outputs n, n + 1, ... of those from `begin`.
  SLUICE_DEVICE void add_block(int first, int b, int begin, int n) {
    int rows[kLinearOutputs];
    BlockScale scales[kLinearOutputs];
    SLUICE_UNROLL
    for (int u = 0; u < kLinearOutputs; ++u) {
      rows[u] = begin + n + u < w_.out ? begin + n + u : w_.out - 1;
      scales[u] = block_scale(w_, scale_row(rows[u]), first + b);
    }
    float sums[kLinearOutputs][kRows];
    if constexpr (Weights::kWords == 0) {
      multiply_integers(first, b, rows, scales, sums);
    } else {
      const int count = w_.in - (first + b) * w_.block;
      if (count >= w_.chunks * (4 / Weights::kWords * Weights::kInputs)) {
        multiply<true>(first, b, 0, rows, scales, sums);
      } else {
        multiply<false>(first, b, count < w_.block ? count : w_.block, rows, scales, sums);
      }
    }
    SLUICE_UNROLL
    for (int u = 0; u < kLinearOutputs; ++u) {
      const int at = (n + u) * cut_.partial_stride() + b;
      scales_[at] = Weights::kLater ? scales[u].scale : 1.0F;
      SLUICE_UNROLL
      for (int r = 0; r < kRows; ++r) partials_[r * cut_.outputs * cut_.partial_stride() + at] = sums[u][r];
    }
  }

  // Computes the chains of a block, which is whole chunks (kWhole) or has `count` inputs.
  template <bool kWhole>
  SLUICE_DEVICE void multiply(int first, int b, int count, const int* rows, const BlockScale* scales,
                              float (*sums)[kRows]) const {
    for (int u = 0; u < kLinearOutputs; ++u) {
      for (int r = 0; r < kRows; ++r) sums[u][r] = 0.0F;
    }
    for (int c = 0; c < w_.chunks; c += kAhead) {
      Chunk chunks[kAhead][kLinearOutputs];
      SLUICE_UNROLL
      for (int a = 0; a < kAhead; ++a) {
        const int of_block = c + a < w_.chunks ? c + a : c;
        SLUICE_UNROLL
        for (int u = 0; u < kLinearOutputs; ++u) chunks[a][u] = *chunk(rows[u], first + b, of_block);
      }
      SLUICE_UNROLL
      for (int a = 0; a < kAhead; ++a) {
        if (c + a < w_.chunks) multiply_chunk<kWhole>(b, c + a, count, chunks[a], scales, sums);
      }
    }
  }

  template <bool kWhole>
  SLUICE_DEVICE void multiply_chunk(int b, int c, int count, const Chunk* chunks, const BlockScale* scales,
                                    float (*sums)[kRows]) const {
    SLUICE_UNROLL
    for (int word = 0; word < 4; word += Weights::kWords) {
      const int k = (c * 4 + word) / Weights::kWords * Weights::kInputs;
      if (!kWhole && k >= count) break;
      float weights[kLinearOutputs][Weights::kInputs];
      SLUICE_UNROLL
      for (int u = 0; u < kLinearOutputs; ++u) Weights::expand(w_, scales[u], chunks[u].words + word, weights[u]);
      SLUICE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        constexpr std::size_t kAlignment = Weights::kInputs % 4 == 0 ? 16 : 8;
        const auto* of_row = static_cast<const float*>(__builtin_assume_aligned(inputs_.block(r, b) + k, kAlignment));
        SLUICE_UNROLL
        for (int i = 0; i < Weights::kInputs; i += 2) {
          SLUICE_UNROLL
          for (int u = 0; u < kLinearOutputs; ++u) {
            if (kWhole || k + i + 1 < count) sums[u][r] = std::fma(of_row[i + 1], weights[u][i + 1], sums[u][r]);
            if (kWhole || k + i < count) sums[u][r] = std::fma(of_row[i], weights[u][i], sums[u][r]);
          }
        }
      }
    }
  }

  // Computes the factor of the inputs' scales: the sum of a block's products times the scale of its weights.
  SLUICE_DEVICE void multiply_integers(int first, int b, const int* rows, const BlockScale* scales,
                                       float (*sums)[kRows]) const {
    // With blocks of 16, this one may be the second half of 32 quantised inputs.
    const int offset = b * w_.block % 32 / 4;
    SLUICE_UNROLL
    for (int u = 0; u < kLinearOutputs; ++u) {
      std::int32_t products[kRows] = {}, codes[kRows] = {};
      for (int c = 0; c < w_.chunks; ++c) {
        const Chunk weights = *chunk(rows[u], first + b, c);
        SLUICE_UNROLL
        for (int word = 0; word < 4; ++word) {
          std::uint32_t bytes[2];
          const int count = Weights::expand(weights.words[word], bytes);
          SLUICE_UNROLL
          for (int r = 0; r < kRows; ++r) {
            const QuantizedInputs& x = inputs_.quantized(r)[b * w_.block / 32];
            for (int i = 0; i < count; ++i) {
              const std::uint32_t x_codes = x.codes[offset + (c * 4 + word) * count + i];
              products[r] = dot4(x_codes, bytes[i], products[r]);
              if (Weights::kSums) codes[r] = dot4(x_codes, 0x01010101U, codes[r]);
            }
          }
        }
      }
      SLUICE_UNROLL
      for (int r = 0; r < kRows; ++r) sums[u][r] = Weights::product(w_, scales[u], products[r], codes[r]);
    }
  }

  SLUICE_DEVICE void add_partials(int blocks, int rows, int outputs, float* sums) {
    team_.each([&](int t) {
      for (int i = t; i < rows * outputs; i += kThreads) {
        const int r = i / outputs, n = i % outputs;
        const float* partials = partials_ + (r * cut_.outputs + n) * cut_.partial_stride();
        float& sum = sums[r * cut_.parts * cut_.outputs + n];
        float y = sum;
        for (int b = 0; b < blocks; ++b) {
          const float scale =
              cut_.int8 ? inputs_.quantized(r)[b * w_.block / 32].scale : scales_[n * cut_.partial_stride() + b];
          y = std::fma(partials[b], scale, y);
        }
        sum = y;
      }
    });
  }

  const Team<kThreads>& team_;
  const CudaLinear& w_;
  const std::byte* const data_;
  const LinearCut& cut_;
  const YRow& y_row_;
  QuantizedInputs* const quantized_at_;
  float* const inputs_at_;
  const StagedInputs<kThreads, kRows, XRow> inputs_;
  float* partials_;  // [kRows][outputs][partial_stride]
  float* scales_;    // [outputs][partial_stride]
  float* sums_;      // [kRows][parts * outputs]: y so far
};

}  // namespace sluice::SLUICE_CUDA_OPS
