// A tile of a product with one row, some outputs, by one team, in the order of kernels/linear.h: weights are read once
// and do little work, so what matters is that many of their bytes are on their way at any time.
//
// A thread computes blocks of kRowOutputs neighbouring outputs, as in linear_tile.h. It brings the weights into shared
// memory itself, kRing - 1 steps ahead, a step being 16 bytes of each of the outputs, in slots that no other thread
// reads: so there are no barriers but one for each `outputs` of the tile, and copies go on across it. Behind it one
// thread an output adds the blocks in ascending order while the others go on.
#pragma once

#include "kernels/cuda/shared/linear_formats.h"
#include "kernels/cuda/shared/linear_staging.h"

namespace sluice::SLUICE_CUDA_OPS {

inline constexpr int kRowThreadsOfTile = 256;
inline constexpr int kRowOutputs = 2;
inline constexpr int kRing = 4;
// Teams that a multiprocessor runs at once, and the shared memory of one: what every GPU of compute capability 8 has.
inline constexpr int kRowResident = 2;
inline constexpr std::size_t kMostRowShared = std::size_t{98} << 10;

// How tiles are cut: fixed by the host for the products of a launch.
struct RowCut {
  int piece = 0;        // blocks whose inputs lie in shared memory at once, the most of a product
  int outputs = 0;      // whose blocks' sums lie there at once, a multiple of kRowOutputs
  int parts = 1;        // of a tile: so often `outputs`
  int scale_words = 0;  // of an output, the most of a product
  bool int8 = false, floats = false;  // whether inputs lie there as integers, as floats

  static constexpr int kRingBytes = kRing * kRowOutputs * 16 * kRowThreadsOfTile;
  SLUICE_HD int partial_stride() const { return piece | 1; }
  SLUICE_HD int scale_stride() const { return scale_words | 1; }
  SLUICE_HD int input_floats(int block) const { return floats ? piece * input_stride(block) : 0; }
  SLUICE_HD int quantized(int block) const { return int8 ? (piece * block + 31) / 32 : 0; }
  SLUICE_HD int scales() const { return scale_words > 0 ? parts * outputs * scale_stride() : 0; }
  std::size_t shared_bytes(int block) const {
    const int words = input_floats(block) + 2 * outputs * partial_stride() + scales();
    return kRingBytes + static_cast<std::size_t>(quantized(block)) * sizeof(QuantizedInputs) +
           static_cast<std::size_t>(words) * sizeof(float);
  }
};

template <class Weights, class XRow>
class RowTile {
 public:
  static constexpr int kThreads = kRowThreadsOfTile;

  // `data`: the packed weight, of the layout of `w`.
  SLUICE_DEVICE RowTile(const Team<kThreads>& team, const CudaLinear& w, const std::byte* data, const RowCut& cut,
                        InputForm form, bool prepared, const XRow& x_row, float* y)
      : team_(team),
        w_(w),
        data_(data),
        cut_(cut),
        y_(y),
        ring_(reinterpret_cast<Chunk*>(team.shared)),
        quantized_at_(reinterpret_cast<QuantizedInputs*>(team.shared + RowCut::kRingBytes)),
        floats_at_(reinterpret_cast<float*>(quantized_at_ + cut.quantized(w.block))),
        partials_(floats_at_ + cut.input_floats(w.block)),
        scales_(reinterpret_cast<std::uint32_t*>(partials_ + 2 * cut.outputs * cut.partial_stride())),
        inputs_(team, w, form, prepared, x_row, cut.piece, quantized_at_, floats_at_) {}

  // The tile's outputs from `begin` on as far as there are such.
  SLUICE_DEVICE void run(int begin) {
    const int of_tile = cut_.parts * cut_.outputs;
    begin_ = begin;
    all_ = w_.out - begin < of_tile ? w_.out - begin : of_tile;
    for (int first = 0; first < w_.blocks; first += cut_.piece) {
      if (first > 0) team_.sync();
      run_piece(first, w_.blocks - first < cut_.piece ? w_.blocks - first : cut_.piece);
    }
  }

 private:
  // What a thread copies next: a chunk of a block of some outputs of a part.
  struct Copies {
    const std::byte* from;  // null: nothing in this pass
    int second;             // whether there is a second output
    int part, item, chunk, slot;
  };

  SLUICE_DEVICE void run_piece(int first, int blocks) {
    const Divisor by_blocks(blocks);
    const int passes = (cut_.outputs / kRowOutputs * blocks + kThreads - 1) / kThreads;
    PerThread<Copies, kThreads> copies;
    team_.each([&](int t) {
      copies[t].part = 0;
      copies[t].item = t;
      copies[t].slot = 0;
      begin_block(copies[t], first, blocks, by_blocks);
      for (int i = 0; i + 1 < kRing; ++i) copy_step(t, copies[t], passes, first, blocks, by_blocks);
    });
    if (first == 0) read_scales();
    inputs_.read(first, blocks, 1);
    team_.sync();
    PerThread<int, kThreads> slot;
    team_.each([&](int t) { slot[t] = 0; });
    for (int part = 0; part * cut_.outputs < all_; ++part) {
      float* partials = partials_ + part % 2 * cut_.outputs * cut_.partial_stride();
      const int outputs = outputs_of(part), items = (outputs + kRowOutputs - 1) / kRowOutputs * blocks;
      team_.each([&](int t) {
        for (int pass = 0; pass < passes; ++pass) {
          const int item = t + pass * kThreads, n = by_blocks.of(item) * kRowOutputs,
                    b = item - n / kRowOutputs * blocks;
          const int of_tile = part * cut_.outputs + n;
          Sums sums{};
          if (kScaleFirst && item < items) {
            SLUICE_UNROLL
            for (int u = 0; u < kRowOutputs; ++u) sums.scales[u] = scale_of(of_tile + u, first + b);
          }
          for (int chunk = 0; chunk < w_.chunks; ++chunk) {
            wait_copies<kRing - 2>();
            copy_step(t, copies[t], passes, first, blocks, by_blocks);
            if (item < items) multiply(b, chunk, ring_ + slot[t] * kRowOutputs * kThreads + t, sums);
            slot[t] = slot[t] + 1 == kRing ? 0 : slot[t] + 1;
          }
          if (item < items) put_sums(sums, partials + n * cut_.partial_stride() + b);
        }
      });
      team_.sync();
      add_partials(part, outputs, first, blocks, partials);
    }
  }

  SLUICE_DEVICE int outputs_of(int part) const {
    const int left = all_ - part * cut_.outputs;
    return left < cut_.outputs ? left : cut_.outputs;
  }

  // The first chunk of the block that c.item is.
  SLUICE_DEVICE void begin_block(Copies& c, int first, int blocks, const Divisor& by_blocks) const {
    const int n = by_blocks.of(c.item) * kRowOutputs, b = c.item - n / kRowOutputs * blocks;
    const int left = outputs_of(c.part) - n;
    c.chunk = 0;
    c.second = left > 1 ? 1 : 0;
    c.from = left > 0 ? data_ + static_cast<std::size_t>(begin_ + c.part * cut_.outputs + n) * w_.row_bytes +
                            static_cast<std::size_t>(first + b) * sizeof(Chunk)
                      : nullptr;
  }

  SLUICE_DEVICE void copy_step(int t, Copies& c, int passes, int first, int blocks, const Divisor& by_blocks) const {
    if (c.part * cut_.outputs < all_) {
      if (c.from != nullptr) {
        Chunk* to = ring_ + c.slot * kRowOutputs * kThreads + t;
        copy_16(to, c.from);
        if (c.second != 0) copy_16(to + kThreads, c.from + w_.row_bytes);
        c.from += static_cast<std::size_t>(w_.blocks) * sizeof(Chunk);
      }
      if (++c.chunk == w_.chunks) {
        c.item += kThreads;
        if (c.item >= passes * kThreads) {
          c.item = t;
          ++c.part;
        }
        begin_block(c, first, blocks, by_blocks);
      }
      c.slot = c.slot + 1 == kRing ? 0 : c.slot + 1;
    }
    commit_copies();
  }

  // The scales of all outputs, for all pieces.
  SLUICE_DEVICE void read_scales() const {
    if (w_.scale_row_bytes == 0) return;
    const int words = static_cast<int>(w_.scale_row_bytes / 4);
    const Divisor by_words(words);
    const auto* from = reinterpret_cast<const std::uint32_t*>(data_ + w_.scales_at +
                                                              static_cast<std::size_t>(begin_) * w_.scale_row_bytes);
    team_.each([&](int t) {
      SLUICE_UNROLL_8
      for (int i = t; i < all_ * words; i += kThreads) {
        const int n = by_words.of(i);
        scales_[n * cut_.scale_stride() + i - n * words] = from[i];
      }
    });
  }
  SLUICE_DEVICE BlockScale scale_of(int n, int b) const {
    return block_scale(w_, reinterpret_cast<const std::byte*>(scales_ + n * cut_.scale_stride()), b);
  }

  // The chains of a block of some outputs, or sums of integers.
  struct Sums {
    float values[kRowOutputs];
    std::int32_t products[kRowOutputs], codes;
    BlockScale scales[kRowOutputs];  // where they meet each weight, or a product of integers
  };
  static constexpr bool kIntegers = Weights::kWords == 0, kScaleFirst = !Weights::kLater;

  // Chunk `c` of block `b` of the piece, as it lies in the ring.
  SLUICE_DEVICE void multiply(int b, int c, const Chunk* ring, Sums& sums) const {
    Chunk chunks[kRowOutputs];
    SLUICE_UNROLL
    for (int u = 0; u < kRowOutputs; ++u) chunks[u] = ring[u * kThreads];
    if constexpr (kIntegers) {
      multiply_integers(b, c, chunks, sums);
    } else {
      multiply_floats(inputs_.block(0, b) + c * (4 / Weights::kWords * Weights::kInputs), chunks, sums);
    }
  }

  SLUICE_DEVICE void multiply_floats(const float* x, const Chunk* chunks, Sums& sums) const {
    SLUICE_UNROLL
    for (int word = 0; word < 4; word += Weights::kWords) {
      float weights[kRowOutputs][Weights::kInputs];
      SLUICE_UNROLL
      for (int u = 0; u < kRowOutputs; ++u) {
        Weights::expand(w_, sums.scales[u], chunks[u].words + word, weights[u]);
      }
      constexpr std::size_t kAlignment = Weights::kInputs % 4 == 0 ? 16 : 8;
      const auto* of_word =
          static_cast<const float*>(__builtin_assume_aligned(x + word / Weights::kWords * Weights::kInputs, kAlignment));
      SLUICE_UNROLL
      for (int i = 0; i < Weights::kInputs; i += 2) {
        SLUICE_UNROLL
        for (int u = 0; u < kRowOutputs; ++u) {
          sums.values[u] = std::fma(of_word[i + 1], weights[u][i + 1], sums.values[u]);
          sums.values[u] = std::fma(of_word[i], weights[u][i], sums.values[u]);
        }
      }
    }
  }

  SLUICE_DEVICE void multiply_integers(int b, int c, const Chunk* chunks, Sums& sums) const {
    const int offset = b * w_.block % 32 / 4;  // a block of 16 inputs may be the second half of the 32
    const std::uint32_t* x = inputs_.quantized(0)[b * w_.block / 32].codes + offset;
    SLUICE_UNROLL
    for (int word = 0; word < 4; ++word) {
      SLUICE_UNROLL
      for (int u = 0; u < kRowOutputs; ++u) {
        std::uint32_t bytes[2];
        const int count = Weights::expand(chunks[u].words[word], bytes);
        SLUICE_UNROLL
        for (int i = 0; i < count; ++i) {
          const std::uint32_t codes = x[(c * 4 + word) * count + i];
          sums.products[u] = dot4(codes, bytes[i], sums.products[u]);
          if (Weights::kSums && u == 0) sums.codes = dot4(codes, 0x01010101U, sums.codes);
        }
      }
    }
  }

  SLUICE_DEVICE void put_sums(const Sums& sums, float* partials) const {
    SLUICE_UNROLL
    for (int u = 0; u < kRowOutputs; ++u) {
      float value = sums.values[u];
      if constexpr (kIntegers) value = Weights::product(w_, sums.scales[u], sums.products[u], sums.codes);
      partials[u * cut_.partial_stride()] = value;
    }
  }

  // To y what the pieces before have come to. Each part has warps of its own, and an output the same thread each time.
  SLUICE_DEVICE void add_partials(int part, int outputs, int first, int blocks, const float* partials) const {
    const int from = part * 32 % kThreads;
    team_.each([&](int t) {
      for (int i = t < from ? t - from + kThreads : t - from; i < outputs; i += kThreads) {
        const int n = part * cut_.outputs + i;
        float y = first == 0 ? 0.0F : y_[begin_ + n];
        SLUICE_UNROLL_8
        for (int b = 0; b < blocks; ++b) {
          float scale = 1.0F;
          if constexpr (kIntegers) {
            scale = inputs_.quantized(0)[b * w_.block / 32].scale;
          } else if constexpr (Weights::kLater) {
            scale = scale_of(n, first + b).scale;
          }
          y = std::fma(partials[i * cut_.partial_stride() + b], scale, y);
        }
        y_[begin_ + n] = y;
      }
    });
  }

  const Team<kThreads>& team_;
  const CudaLinear& w_;
  const std::byte* const data_;
  const RowCut& cut_;
  float* const y_;
  int begin_ = 0, all_ = 0;  // outputs of the tile
  Chunk* const ring_;        // [kRing][kRowOutputs][kThreads]
  QuantizedInputs* const quantized_at_;
  float* const floats_at_;
  float* const partials_;        // [2][outputs][partial_stride]
  std::uint32_t* const scales_;  // [parts * outputs][scale_stride]
  const StagedInputs<kThreads, 1, XRow> inputs_;
};

}  // namespace sluice::SLUICE_CUDA_OPS
