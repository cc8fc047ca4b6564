// MXFP4 weights times int8 inputs (kernels/ops/linear.h) on AMX, for many rows: the integers of a block of 32 inputs
// are exact in any order, so these are the bits of kernels/cpu/linear/linear_int8.h.
//
// A tile product multiplies 16 rows x 32 inputs by 32 inputs x 16 outputs. Its sums go through L1 to the vector
// registers, where they meet their scales, which takes longer than the product.
#include "kernels/cpu/linear/linear_int8.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/avx512/int8_values.h"
#include "kernels/cpu/avx512/linear_formats.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/linear/linear_tile.h"
#include "kernels/cpu/linear/tiles.h"
#include "kernels/weights/linear_inputs.h"

namespace sluice::cpu::avx512_vnni {

void linear_mxfp4_int8(const LinearJob& job, int rows, int begin, int end);

}  // namespace sluice::cpu::avx512_vnni

namespace sluice::cpu::SLUICE_ISA {
namespace {

constexpr int kRows = 16, kGroups = LinearIsa::kTileGroups, kOutputs = kGroups * kGroupOutputs;
constexpr int kChunkRows = 96, kChunkBlocks = 64;  // the inputs of one chunk, which fit in L2
constexpr int kBlockLines = 4;                     // lines of a group in a block

// The operand of ldtilecfg: tile 0 holds sums, tile 1 the codes of rows, tile 2 weights.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14]{};
  std::uint16_t row_bytes[16]{64, kQuantizedInputs, 64};
  std::uint8_t rows[16]{kRows, kRows, kQuantizedInputs / 4};
};

// The codes and scales of up to kChunkRows rows and kChunkBlocks blocks, by block; rows that do not exist are zero.
struct Inputs {
  std::int8_t codes[kChunkBlocks][kChunkRows][kQuantizedInputs];
  float scales[kChunkBlocks][kChunkRows];

  void copy(const LinearJob& job, int row, int rows, int first_block, int blocks) {
    const int padded = (rows + kRows - 1) / kRows * kRows;
    for (int r = 0; r < padded; ++r) {
      const auto* from = r < rows ? reinterpret_cast<const QuantizedBlock*>(job.x_row(row + r)) + first_block : nullptr;
      for (int b = 0; b < blocks; ++b) {
        if (from == nullptr) {
          std::memset(codes[b][r], 0, kQuantizedInputs);
          scales[b][r] = 0.0F;
        } else {
          std::memcpy(codes[b][r], from[b].codes, kQuantizedInputs);
          scales[b][r] = from[b].scale;
        }
      }
    }
  }
};

using Scales = Mxfp4Int8Scales<F32x16>;

// A tile of weights, decoded: [group][line][low, high] is the operand of a tile product, 4 inputs of 16 outputs a line,
// as signed bytes.
struct Weights {
  alignas(64) std::byte codes[kChunkBlocks][kGroups][2 * kBlockLines][64];
  alignas(64) F32x16 factors[kChunkBlocks][kGroups][Scales::kFactors];

  void decode(const LinearTile& tile, int first_block, int blocks) {
    const E2m1Bytes values;
    const __m512i offset = _mm512_set1_epi8(12);
    for (int b = 0; b < blocks; ++b) {
      const int block = first_block + b;
      const int lines = (std::min(tile.block, tile.in - block * tile.block) + 7) / 8;
      const std::byte* line = tile.lines(block);
      for (int l = 0; l < lines; ++l) {  // inputs past the last have codes of 0, so their weights may be anything
        for (int g = 0; g < kGroups; ++g, line += Scales::kLineBytes) {
          const auto packed = values.load(line);
          _mm512_store_si512(codes[b][g][2 * l], _mm512_sub_epi8(values.low(packed), offset));
          _mm512_store_si512(codes[b][g][2 * l + 1], _mm512_sub_epi8(values.high(packed), offset));
        }
      }
      const std::byte* scales = tile.scales(block);
      for (int g = 0; g < kGroups; ++g, scales += kGroupOutputs * Scales::kScaleBytes) {
        Scales::load_factors(scales, factors[b][g]);
      }
    }
  }
};

using Sums = std::int32_t[kRows][kGroupOutputs];

[[gnu::always_inline]] inline void multiply_block(const std::int8_t* x, const std::byte (&weights)[2 * kBlockLines][64],
                                                  Sums& sums) {
  asm volatile("" ::: "memory");  // GCC 12 does not know that a tile is loaded from memory
  _tile_loadd(1, x, kQuantizedInputs);
  _tile_loadd(2, weights, 64);
  _tile_zero(0);
  _tile_dpbssd(0, 1, 2);
  _tile_stored(0, sums, 64);
}

// Writes y [kRows][kOutputs] of rows [row, row + kRows), after `blocks` blocks. The sums of a block meet their scales
// while the next block's products run; a group's y stays in registers.
[[gnu::noinline]] void multiply(const Inputs& x, const Weights& weights, int row, int blocks, float* y) {
  const I32x16 magic = I32x16::broadcast(kQuantizedMagicBits);
  alignas(64) Sums sums[2];
  for (int g = 0; g < kGroups; ++g, y += kGroupOutputs) {
    F32x16 acc[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) acc[r] = F32x16::load(y + r * kOutputs);
    multiply_block(x.codes[0][row], weights.codes[0][g], sums[0]);
    for (int b = 0; b < blocks; ++b) {
      if (b + 1 < blocks) multiply_block(x.codes[b + 1][row], weights.codes[b + 1][g], sums[(b + 1) % 2]);
      const auto& factors = weights.factors[b][g];
      const float* scales = x.scales[b] + row;
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const I32x16 sum = I32x16::load(sums[b % 2][r]) + magic;
        acc[r] = fma(Scales::scaled(sum, factors), F32x16::broadcast(scales[r]), acc[r]);
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) acc[r].store(y + r * kOutputs);
  }
}

struct Scratch {
  Inputs inputs;
  Weights weights;
  alignas(64) float y[kChunkRows * kOutputs];
};

// Adds a chunk to rows [row, row + rows) of a tile; the sums of the chunks of blocks before it are in the job's y.
void add_chunk(const LinearTile& tile, const LinearJob& job, int row, int rows, bool first, int blocks, Scratch& s) {
  const auto outputs = static_cast<std::size_t>(kOutputs) * sizeof(float);
  for (int r = 0; r < rows; ++r) {
    float* y = s.y + r * kOutputs;
    first ? static_cast<void>(std::memset(y, 0, outputs))
          : static_cast<void>(std::memcpy(y, job.y + (row + r) * job.ldy + tile.first_output, outputs));
  }
  for (int r = 0; r < rows; r += kRows) multiply(s.inputs, s.weights, r, blocks, s.y + r * kOutputs);
  for (int r = 0; r < rows; ++r) {
    std::memcpy(job.y + (row + r) * job.ldy + tile.first_output, s.y + r * kOutputs, outputs);
  }
}

// Computes outputs of whole tiles.
void run_whole(const LinearJob& job, int rows, int begin, int end) {
  const TileShapes shapes;
  _tile_loadconfig(&shapes);
  auto& scratch = *reinterpret_cast<Scratch*>(thread_scratch(sizeof(Scratch) / sizeof(float)));
  const LinearLayout layout(job.weight->view(), kGroups);
  const int parts = (rows + kChunkRows - 1) / kChunkRows;
  for (int part = 0, row = 0; part < parts; ++part) {
    const int count = (rows - row + parts - part - 1) / (parts - part);
    for (int block = 0; block < layout.blocks; block += kChunkBlocks) {
      const int blocks = std::min(kChunkBlocks, layout.blocks - block);
      scratch.inputs.copy(job, row, count, block, blocks);
      for (int index = begin / kOutputs; index * kOutputs < end; ++index) {
        const LinearTile tile(layout, job.weight->packed(), index);
        scratch.weights.decode(tile, block, blocks);
        add_chunk(tile, job, row, count, block == 0, blocks, scratch);
      }
    }
    row += count;
  }
  _tile_release();
}

}  // namespace

void linear_mxfp4_int8(const LinearJob& job, int rows, int begin, int end) {
  const int whole = std::min(end, job.weight->out() / kOutputs * kOutputs);
  if (begin < whole) run_whole(job, rows, begin, whole);
  begin = std::max(begin, whole);
  if (begin < end) avx512_vnni::linear_mxfp4_int8(job, rows, begin, end);
}

namespace {

constexpr LinearKernel kLinears[] = {
    SLUICE_LINEAR(linear_mxfp4_int8, weights_of(WeightFormat::kMxfp4), kInt8Inputs, .rows_from = 12),
};

}  // namespace

SLUICE_KERNELS(linear_int8, {}, kLinears);

}  // namespace sluice::cpu::SLUICE_ISA
