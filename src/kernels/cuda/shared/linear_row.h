// A tile of a product with one row: some outputs, by one team, in the order of kernels/ops/linear.h. Weights are read
// once and there is little work on them. To be fast, a team needs a large number of their bytes under way at any time.
//
// A thread computes blocks of some neighbouring outputs (Weights::kRowOutputs), as in linear_tile.h. It brings the
// weights into shared memory itself, some steps ahead, in slots that no other thread reads; a step is 16 bytes of each
// of the outputs. So there is only one barrier for each `outputs` of the tile, and copies go on across it. After it one
// thread for each output adds the blocks in ascending order while the others go on.
#pragma once

#include "kernels/cuda/shared/linear_formats.h"
#include "kernels/cuda/shared/linear_staging.h"

namespace sluice::SLUICE_CUDA_OPS {

inline constexpr int kRowThreadsOfTile = 256;
// Teams that a multiprocessor runs at once, and the shared memory of one: every GPU of compute capability 8 has this
// much.
inline constexpr int kRowResident = 2;
inline constexpr std::size_t kMostRowShared = std::size_t{98} << 10;
// Steps in shared memory: the one that is multiplied, and those under way.
constexpr int row_ring(int outputs) {
  return outputs > 2 ? 3 : 4;
}

// The cuts of tiles, which the host fixes for the products of a launch.
struct RowCut {
  int piece = 0;                      // blocks whose inputs lie in shared memory at once, for the largest product
  int together = 0;                   // outputs whose blocks a thread computes at once: Weights::kRowOutputs
  int outputs = 0;                    // outputs whose blocks' sums lie there at once, a multiple of `together`
  int parts = 1;                      // parts of a tile, of `outputs` each
  int scale_words = 0;                // words of an output's scales, for the largest product
  bool int8 = false, floats = false;  // inputs lie in shared memory as integers, as floats

  SLUICE_HD int partial_stride() const { return piece | 1; }
  SLUICE_HD int scale_stride() const { return scale_words | 1; }
  SLUICE_HD int input_floats(int block) const { return floats ? piece * input_stride(block) : 0; }
  SLUICE_HD int quantized(int block) const { return int8 ? (piece * block + 31) / 32 : 0; }
  SLUICE_HD int scales() const { return scale_words > 0 ? parts * outputs * scale_stride() : 0; }
  std::size_t shared_bytes(int block) const {
    const int words = input_floats(block) + 2 * outputs * partial_stride() + scales();
    return static_cast<std::size_t>(row_ring(together) * together * kRowThreadsOfTile) * sizeof(Chunk) +
           static_cast<std::size_t>(quantized(block)) * sizeof(QuantizedInputs) +
           static_cast<std::size_t>(words) * sizeof(float);
  }
};

// For an fma that flushes denormals: the least code, 2^-127, is as good as 0 there, and nothing branches.
SLUICE_DEVICE float e8m0_factor(std::uint8_t code) {
  return std::bit_cast<float>(code == 0xFF ? 0x7FC00000U : std::uint32_t{code} << 23);
}

template <class Weights, class XRow>
class RowTile {
 public:
  static constexpr int kThreads = kRowThreadsOfTile, kOutputs = Weights::kRowOutputs, kRing = row_ring(kOutputs),
                       kStep = kOutputs * kThreads;  // chunks of a step

  // `data`: the packed weight, of the layout of `w`.
  SLUICE_DEVICE RowTile(const Team<kThreads>& team, const CudaLinear& w, const std::byte* data, const RowCut& cut,
                        InputForm form, bool prepared, const XRow& x_row, float* y)
      : team_(team),
        w_(w),
        data_(data),
        cut_(cut),
        y_(y),
        ring_(reinterpret_cast<Chunk*>(team.shared)),
        quantized_at_(reinterpret_cast<QuantizedInputs*>(ring_ + kRing * kStep)),
        floats_at_(reinterpret_cast<float*>(quantized_at_ + cut.quantized(w.block))),
        partials_(floats_at_ + cut.input_floats(w.block)),
        scales_(reinterpret_cast<std::uint32_t*>(partials_ + 2 * cut.outputs * cut.partial_stride())),
        inputs_(team, w, form, prepared, x_row, cut.piece, quantized_at_, floats_at_) {}

  // Computes the tile's outputs from `begin` on, as far as they exist.
  SLUICE_DEVICE void run(int begin) {
    const int of_tile = cut_.parts * cut_.outputs;
    begin_ = begin;
    tile_ = data_ + static_cast<std::size_t>(begin) * w_.row_bytes;
    all_ = w_.out - begin < of_tile ? w_.out - begin : of_tile;
    for (int first = 0; first < w_.blocks; first += cut_.piece) {
      if (first > 0) team_.sync();
      run_piece(first, w_.blocks - first < cut_.piece ? w_.blocks - first : cut_.piece);
    }
  }

 private:
  // Blocks [first, first + blocks) of the inputs. A thread has every kThreads-th block of a part, of kOutputs outputs
  // each. Its next block is `rows` outputs and `columns` blocks further, or an output more and `blocks` blocks less.
  struct Piece {
    int first, blocks, rows, columns;
    std::uint32_t row_bytes, chunk_bytes;  // from an output, from a chunk to the next one
    int chunks;
  };
  // A block: its first output in the tile, and its place in the piece.
  struct Place {
    int n, b;
  };
  SLUICE_DEVICE Place first_place(int t, int part, const Piece& piece) const {
    return {part * cut_.outputs + t / piece.blocks * kOutputs, t % piece.blocks};
  }
  SLUICE_DEVICE void next_place(Place& at, const Piece& piece) const {
    at.n += piece.rows;
    at.b += piece.columns;
    if (at.b < piece.blocks) return;
    at.n += kOutputs;
    at.b -= piece.blocks;
  }
  SLUICE_DEVICE int end_of(int part) const {
    const int end = (part + 1) * cut_.outputs;
    return end < all_ ? end : all_;
  }

  // The next chunk that a thread copies.
  struct Copies {
    const std::byte* from;  // a chunk of its block
    Chunk* to;              // the slot in the ring that the chunk goes to: the one multiplied last
    Place at, first;        // the block; the part's first block
    int end, chunk;         // the end of the part's outputs; the chunk of the block
  };

  SLUICE_DEVICE void run_piece(int first, int blocks) {
    const Piece piece{first,
                      blocks,
                      kThreads / blocks * kOutputs,
                      kThreads % blocks,
                      static_cast<std::uint32_t>(w_.row_bytes),
                      static_cast<std::uint32_t>(w_.blocks) * static_cast<std::uint32_t>(sizeof(Chunk)),
                      w_.chunks};
    PerThread<Copies, kThreads> copies;
    team_.each([&](int t) {
      Copies& c = copies[t];
      c.first = c.at = first_place(t, 0, piece);
      c.end = end_of(0);
      if (first == 0) copy_scales(t);
      begin_block(c, piece);
      for (int slot = 0; slot + 1 < kRing; ++slot) {
        c.to = ring_ + slot * kStep + t;
        copy_step(c, piece);
      }
      c.to += kStep;
    });
    if (first == 0) wait_for_kernels();
    inputs_.read(first, blocks, 1);
    team_.each([&](int) { wait_copies<kRing - 2>(); });
    team_.sync();
    for (int part = 0; part * cut_.outputs < all_; ++part) {
      float* partials = partials_ + part % 2 * cut_.outputs * cut_.partial_stride();
      team_.each([&](int t) {
        for (Place at = first_place(t, part, piece); at.n < end_of(part); next_place(at, piece)) {
          const Sums sums = multiply_block(at, copies[t], piece);
          put_sums(sums, partials + (at.n - part * cut_.outputs) * cut_.partial_stride() + at.b);
        }
      });
      team_.sync();
      add_partials(part, first, blocks, partials);
    }
  }

  SLUICE_DEVICE void begin_block(Copies& c, const Piece& piece) const {
    c.chunk = 0;
    c.from = tile_ + (static_cast<std::uint32_t>(c.at.n) * piece.row_bytes +
                      static_cast<std::uint32_t>(piece.first + c.at.b) * static_cast<std::uint32_t>(sizeof(Chunk)));
  }

  SLUICE_DEVICE void copy_step(Copies& c, const Piece& piece) const {
    if (c.at.n < c.end) {
      SLUICE_UNROLL
      for (int u = 0; u < kOutputs; ++u) {
        if (c.at.n + u < c.end) copy_16(c.to + u * kThreads, c.from + static_cast<std::uint32_t>(u) * piece.row_bytes);
      }
      c.from += piece.chunk_bytes;
      if (++c.chunk == piece.chunks) {
        next_place(c.at, piece);
        if (c.at.n >= c.end) {
          c.first.n += cut_.outputs;
          c.at = c.first;
          c.end = c.end + cut_.outputs < all_ ? c.end + cut_.outputs : all_;
        }
        begin_block(c, piece);
      }
    }
    commit_copies();
  }

  // Copies the scales of all outputs, for all pieces: they come with the first step.
  SLUICE_DEVICE void copy_scales(int t) const {
    if (w_.scale_row_bytes == 0) return;
    const int words = static_cast<int>(w_.scale_row_bytes / 4);
    const Divisor by_words(words);
    const auto* from = reinterpret_cast<const std::uint32_t*>(data_ + w_.scales_at +
                                                              static_cast<std::size_t>(begin_) * w_.scale_row_bytes);
    for (int i = t; i < all_ * words; i += kThreads) {
      const int n = by_words.of(i);
      copy_4(scales_ + n * cut_.scale_stride() + i - n * words, from + i);
    }
  }
  SLUICE_DEVICE const std::byte* scale_row(int n) const {
    return reinterpret_cast<const std::byte*>(scales_ + n * cut_.scale_stride());
  }

  // The chains of a block of some outputs, or sums of integers.
  struct Sums {
    float values[kOutputs];
    std::int32_t products[kOutputs], codes;
    BlockScale scales[kOutputs];  // used if each weight, or each sum of integers, is multiplied by its scale
  };
  static constexpr bool kIntegers = Weights::kWords == 0, kScaleFirst = !Weights::kLater;

  // Multiplies a block of outputs at.n, at.n + 1, ... of the tile. Outputs that do not exist get unspecified values.
  SLUICE_DEVICE Sums multiply_block(const Place& at, Copies& copies, const Piece& piece) const {
    Sums sums{};
    if constexpr (kScaleFirst) {
      SLUICE_UNROLL
      for (int u = 0; u < kOutputs; ++u) sums.scales[u] = Weights::scale(w_, scale_row(at.n + u), piece.first + at.b);
    }
    SLUICE_ROLLED
    for (int chunk = 0; chunk < piece.chunks; ++chunk) {
      wait_copies<kRing - 2>();
      copy_step(copies, piece);
      Chunk* slot = copies.to + kStep;
      slot = slot >= ring_ + kRing * kStep ? slot - kRing * kStep : slot;
      copies.to = slot;
      Chunk chunks[kOutputs];
      SLUICE_UNROLL
      for (int u = 0; u < kOutputs; ++u) chunks[u] = slot[u * kThreads];
      if constexpr (kIntegers) {
        multiply_integers(at.b, chunk, chunks, sums);
      } else {
        multiply_floats(inputs_.block(0, at.b) + chunk * (4 / Weights::kWords * Weights::kInputs), chunks, sums);
      }
    }
    return sums;
  }

  SLUICE_DEVICE void multiply_floats(const float* x, const Chunk* chunks, Sums& sums) const {
    SLUICE_UNROLL
    for (int word = 0; word < 4; word += Weights::kWords) {
      float weights[kOutputs][Weights::kInputs];
      SLUICE_UNROLL
      for (int u = 0; u < kOutputs; ++u) {
        Weights::expand(w_, sums.scales[u], chunks[u].words + word, weights[u]);
      }
      constexpr std::size_t kAlignment = Weights::kInputs % 4 == 0 ? 16 : 8;
      const auto* of_word = static_cast<const float*>(
          __builtin_assume_aligned(x + word / Weights::kWords * Weights::kInputs, kAlignment));
      SLUICE_UNROLL
      for (int i = 0; i < Weights::kInputs; i += 2) {
        SLUICE_UNROLL
        for (int u = 0; u < kOutputs; ++u) {
          sums.values[u] = std::fma(of_word[i + 1], weights[u][i + 1], sums.values[u]);
          sums.values[u] = std::fma(of_word[i], weights[u][i], sums.values[u]);
        }
      }
    }
  }

  SLUICE_DEVICE void multiply_integers(int b, int c, const Chunk* chunks, Sums& sums) const {
    // With blocks of 16, this one may be the second half of 32 quantised inputs.
    const int offset = b * w_.block % 32 / 4;
    const auto* x = static_cast<const std::uint32_t*>(
        __builtin_assume_aligned(inputs_.quantized(0)[b * w_.block / 32].codes + offset, 16));
    SLUICE_UNROLL
    for (int word = 0; word < 4; ++word) {
      SLUICE_UNROLL
      for (int u = 0; u < kOutputs; ++u) {
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
    for (int u = 0; u < kOutputs; ++u) {
      float value = sums.values[u];
      if constexpr (kIntegers) value = Weights::product(w_, sums.scales[u], sums.products[u], sums.codes);
      partials[u * cut_.partial_stride()] = value;
    }
  }

  // Adds the sums of this piece's blocks to y, which holds the sum of the pieces before it. Each part has warps of its
  // own, and an output has the same thread each time.
  SLUICE_DEVICE void add_partials(int part, int first, int blocks, const float* partials) const {
    const int from = part * 32 % kThreads, outputs = end_of(part) - part * cut_.outputs;
    team_.each([&](int t) {
      for (int i = t < from ? t - from + kThreads : t - from; i < outputs; i += kThreads) {
        const int n = part * cut_.outputs + i;
        float y = first == 0 ? 0.0F : y_[begin_ + n];
        const auto add = [&](const auto& scale) {
          SLUICE_UNROLL_8
          for (int b = 0; b < blocks; ++b) y = std::fma(partials[i * cut_.partial_stride() + b], scale(b), y);
        };
        if constexpr (kIntegers) {
          const QuantizedInputs* x = inputs_.quantized(0);
          w_.block == 32 ? add([&](int b) { return x[b].scale; })
                         : add([&](int b) { return x[b * w_.block / 32].scale; });
        } else if (kScaleFirst || w_.scales == ScaleFormat::kNone) {
          add([](int) { return 1.0F; });
        } else if (w_.scales == ScaleFormat::kE8m0) {
          const auto* scales = reinterpret_cast<const std::uint8_t*>(scale_row(n)) + first;
          add([&](int b) { return e8m0_factor(scales[b]); });
        } else {
          const float* scales = reinterpret_cast<const float*>(scale_row(n)) + first;
          add([&](int b) { return scales[b]; });
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
  int begin_ = 0, all_ = 0;  // the first output, and the number of the tile's outputs
  const std::byte* tile_ = nullptr;
  Chunk* const ring_;  // [kRing][kOutputs][kThreads]
  QuantizedInputs* const quantized_at_;
  float* const floats_at_;
  float* const partials_;        // [2][outputs][partial_stride]
  std::uint32_t* const scales_;  // [parts * outputs][scale_stride]
  const StagedInputs<kThreads, 1, XRow> inputs_;
};

}  // namespace sluice::SLUICE_CUDA_OPS
