// MXFP4 weights times int8 inputs (kernels/linear.h) on AMX, for many rows: the integers of a block of 32 inputs are
// exact in any order, so these are the bits of cpu/linear_int8.inc.h.
//
// A tile product takes 16 rows x 32 inputs and 32 inputs x 16 outputs; four of them side by side make 16 x 64 sums,
// which meet their scales in vector registers while the next block's products run.
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "kernels/cpu/avx512/int8_values.h"
#include "kernels/cpu/avx512vbmi/linear_formats.h"
#include "kernels/cpu/avx512vbmi/linear_kernels.h"
#include "kernels/cpu/linear_int8.inc.h"
#include "kernels/cpu/linear_tile.inc.h"
#include "kernels/linear_inputs.h"
#include "kernels/tiles.h"

#pragma GCC push_options
#pragma GCC target("amx-tile,amx-int8")

namespace sluice::avx512vbmi {
namespace {

constexpr int kRows = 16, kGroups = LinearIsa::kTileGroups, kOutputs = kGroups * kGroupOutputs;
constexpr int kChunkRows = 96, kChunkBlocks = 64;  // what lies in L2 at a time
constexpr int kBlockLines = 4;                     // of a group
constexpr std::size_t kLineBytes = 64;

// ldtilecfg: tiles 0 to 3 are sums, 4 rows' codes, 5 weights.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14]{};
  std::uint16_t row_bytes[16]{64, 64, 64, 64, kQuantizedInputs, 64};
  std::uint8_t rows[16]{kRows, kRows, kRows, kRows, kRows, kQuantizedInputs / 4};
};

// The codes and factors of up to kChunkRows rows and kChunkBlocks blocks, by block; rows that do not exist are zero.
struct Inputs {
  std::int8_t codes[kChunkBlocks][kChunkRows][kQuantizedInputs];
  std::int32_t starts[kChunkBlocks][kChunkRows];
  float scales[kChunkBlocks][kChunkRows];

  void copy(const LinearJob& job, int row, int rows, int first_block, int blocks) {
    const int padded = (rows + kRows - 1) / kRows * kRows;
    for (int r = 0; r < padded; ++r) {
      const auto* from = r < rows ? reinterpret_cast<const QuantizedBlock*>(job.x_row(row + r)) + first_block : nullptr;
      for (int b = 0; b < blocks; ++b) {
        if (from == nullptr) {
          std::memset(codes[b][r], 0, kQuantizedInputs);
          starts[b][r] = 0, scales[b][r] = 0.0F;
        } else {
          std::memcpy(codes[b][r], from[b].codes, kQuantizedInputs);
          starts[b][r] = from[b].start, scales[b][r] = from[b].scale;
        }
      }
    }
  }
};

using Scales = cpu::Mxfp4Int8Scales<F32x16>;

// A tile of weights, decoded: [line][low, high][group] is what a tile product wants, 4 inputs of 16 outputs a line.
struct Weights {
  alignas(64) std::byte codes[kChunkBlocks][2 * kBlockLines][kGroups][kLineBytes];
  alignas(64) F32x16 factors[kChunkBlocks][kGroups][Scales::kFactors];

  void decode(const cpu::LinearTile& tile, int first_block, int blocks) {
    const avx512::E2m1Bytes values;
    for (int b = 0; b < blocks; ++b) {
      const int block = first_block + b;
      const int lines = (std::min(tile.block, tile.in - block * tile.block) + 7) / 8;
      const std::byte* line = tile.lines(block);
      for (int l = 0; l < kBlockLines; ++l) {
        for (int g = 0; g < kGroups; ++g, line += kLineBytes) {
          // Inputs past the end have codes of 0: any weights do.
          const __m512i packed = l < lines ? _mm512_loadu_si512(line) : _mm512_setzero_si512();
          _mm512_store_si512(codes[b][2 * l][g], values.low(packed));
          _mm512_store_si512(codes[b][2 * l + 1][g], values.high(packed));
        }
      }
      const std::byte* scales = tile.scales(block);
      for (int g = 0; g < kGroups; ++g) {
        Scales::load_factors(scales + g * kGroupOutputs, factors[b][g]);
      }
    }
  }
};

using Sums = std::int32_t[kGroups][kRows][kGroupOutputs];

[[gnu::always_inline]] inline void multiply_block(const std::int8_t* x,
                                                  const std::byte (&weights)[2 * kBlockLines][kGroups][kLineBytes],
                                                  Sums& sums) {
  constexpr int kStride = kGroups * kLineBytes;
  asm volatile("" ::: "memory");  // GCC 12 does not know that a tile is loaded from memory
  _tile_loadd(4, x, kQuantizedInputs);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(5, weights[0][0], kStride);
  _tile_dpbsud(0, 4, 5);
  _tile_loadd(5, weights[0][1], kStride);
  _tile_dpbsud(1, 4, 5);
  _tile_loadd(5, weights[0][2], kStride);
  _tile_dpbsud(2, 4, 5);
  _tile_loadd(5, weights[0][3], kStride);
  _tile_dpbsud(3, 4, 5);
  _tile_stored(0, sums[0], 64);
  _tile_stored(1, sums[1], 64);
  _tile_stored(2, sums[2], 64);
  _tile_stored(3, sums[3], 64);
}

// y [kRows][kOutputs] of rows [row, row + kRows) after block b's sums.
[[gnu::always_inline]] inline void add_block(const Inputs& x, const Weights& weights, int b, int row, const Sums& sums,
                                             float* y) {
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    const I32x16 start = I32x16::broadcast(x.starts[b][row + r]);
    const F32x16 scale = F32x16::broadcast(x.scales[b][row + r]);
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) {
      float* to = y + r * kOutputs + g * kGroupOutputs;
      const I32x16 sum = I32x16::load(sums[g][r]) + start;
      fma(Scales::scaled(sum, weights.factors[b][g]), scale, F32x16::load(to)).store(to);
    }
  }
}

// The same after `blocks` blocks. A block's products run while the sums of the one before meet their scales.
[[gnu::noinline]] void multiply(const Inputs& x, const Weights& weights, int row, int blocks, float* y) {
  alignas(64) Sums sums[2];
  multiply_block(x.codes[0][row], weights.codes[0], sums[0]);
  for (int b = 0; b < blocks; ++b) {
    if (b + 1 < blocks) multiply_block(x.codes[b + 1][row], weights.codes[b + 1], sums[(b + 1) % 2]);
    add_block(x, weights, b, row, sums[b % 2], y);
  }
}

struct Scratch {
  Inputs inputs;
  Weights weights;
  alignas(64) float y[kChunkRows * kOutputs];
};

// Rows [row, row + rows) of a tile; the sums of the chunks of blocks before are in the job's y.
void add_chunk(const cpu::LinearTile& tile, const LinearJob& job, int row, int rows, bool first, int blocks,
               Scratch& s) {
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

}  // namespace

void linear_amx(const LinearJob& job, int rows, int begin, int end) {
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
        const cpu::LinearTile tile(layout, job.weight->packed(), index);
        scratch.weights.decode(tile, block, blocks);
        add_chunk(tile, job, row, count, block == 0, blocks, scratch);
      }
    }
    row += count;
  }
  _tile_release();
}

}  // namespace sluice::avx512vbmi
#pragma GCC pop_options

namespace sluice::avx512vbmi {

// The operating system gives a process the tiles' registers when it asks for them.
bool has_amx() {
  static const bool available = [] {
    constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
    constexpr unsigned kTile = 1U << 24, kInt8 = 1U << 25;
    if ((edx & kTile) == 0 || (edx & kInt8) == 0) return false;
    return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return available;
}

}  // namespace sluice::avx512vbmi
