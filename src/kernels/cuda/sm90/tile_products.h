// Products with hundreds of rows: tiles of 128 or 256 outputs and up to 192 or 112 rows. Two warpgroups multiply them
// from rings in shared memory that a third fills, from one tile to the next. A warp decodes its strips in registers, so
// each weight once for all rows of a tile.
// Used by expert_tile_launch.h and tiles.cu.
#pragma once

#include <bit>

#include "kernels/cuda/shared/expert_pairs.h"
#include "kernels/cuda/sm90/bf16_codes.h"
#include "kernels/cuda/sm90/group_products.h"
#include "kernels/cuda/sm90/pipeline.h"
#include "kernels/cuda/sm90/strip_products.h"

namespace sluice::cuda_sm90 {

// The results of tiles: y; or m = SwiGLU of two products. For m, a warp with two strips has one of each. With one
// strip, the first group of warps has gate's and the second up's, and at the end they exchange sums of half of the
// rows.
enum class TileOutput { kY, kInner };

struct TileLaunch {
  StripProduct products[kMostStripProducts];  // kInner: gate, up
  std::int32_t first_tile[kMostStripProducts];
  std::int32_t count, rows, tiles;
  const std::int32_t* groups;  // the launch's first group, and the end of its groups; null: products without groups
  // The launch before reads memory that this one also reads, and has waited for it. So this one waits only at its end,
  // and its first tiles run together with the last ones of that launch. It reads past the first cache, which may be
  // older.
  bool follows;
  // kInner:
  std::uint16_t* m;      // [rows, out] bf16
  const float* weights;  // the factor of each row of m; null: 1
  Activation activation;
};

// kStrips: strips of a warp. With two the product has one segment; with one there are registers for a segment and their
// sum.
template <StripKind kKind, int kStrips, int kRows, TileOutput kOutput>
struct TileProducts {
  static constexpr int kThreads = 384, kResident = 1;
  static constexpr bool kWaits = true, kStartsNext = true;
  static constexpr bool kInner = kOutput == TileOutput::kInner, kExchanges = kInner && kStrips == 1;
  static constexpr int kWarps = 8, kCopiedStrips = kWarps * kStrips, kTileStrips = kCopiedStrips / (kInner ? 2 : 1);
  static constexpr int kChunkCells = 4 / Cell<kKind>::kWords;  // a chunk is 2,048 bytes of a strip, then their scales
  static constexpr int kScaleBytes = kKind == StripKind::kMxfp4 ? 128 : kKind == StripKind::kFp8 ? 32 : 0;
  static constexpr int kStripBytes = 2048 + kScaleBytes, kChunkBytes = kCopiedStrips * kStripBytes;
  static constexpr int kRowStageBytes = kRows * 128;
  static constexpr int kChunks = kStrips == 2 ? 3 : kRows > 64 ? 4 : 6;
  static constexpr int kExchangeBytes = kExchanges ? kWarps * 32 * kRows : 0;
  static constexpr int kMostStages = (220 * 1024 - kChunks * kChunkBytes - kExchangeBytes) / kRowStageBytes;
  static constexpr int kStages = kMostStages < 10 ? kMostStages : 10;
  // Threads that copy rows; 16-byte copies of a thread for each stage.
  static constexpr int kRowsThreads = 128, kCopies = (kRows + 15) / 16;
  static constexpr int kSums = kRows / 2;
  // Registers of a thread, which the groups hand to each other: a block starts with 168 for each, and waits forever for
  // more than they have together.
  static constexpr int kFillRegisters = kRows > 128 ? 56 : 64, kMultiplyRegisters = kRows > 128 ? 224 : 216;
  static_assert(kFillRegisters + 2 * kMultiplyRegisters <= 3 * 168);
  static_assert(kStages >= (kRows > 128 ? 3 : 4) && kRows % (kExchanges ? 16 : 8) == 0);
  TileLaunch launch;

  static constexpr std::size_t shared_bytes() {
    return 1024 + kStages * kRowStageBytes + kChunks * kChunkBytes + kExchangeBytes + 2 * (kStages + kChunks) * 8;
  }

  struct Tile {
    const StripProduct* product;
    const std::byte* data[2];  // the packed weight; for kInner those of gate and up
    int first, rows, strip;    // the first row and strip
  };
  // Returns the number of tiles before a group's.
  SLUICE_DEVICE int tiles_before(int group) const {
    return __ldcg(launch.groups + group) * ((launch.products[0].weight.strips + kTileStrips - 1) / kTileStrips);
  }
  SLUICE_DEVICE Tile tile(int index) const {
    int i = 0;
    while (i + 1 < launch.count && !kInner && index >= launch.first_tile[i + 1]) ++i;
    const StripProduct& product = launch.products[i];
    const int strip_tiles = (product.weight.strips + kTileStrips - 1) / kTileStrips;
    Tile of{&product, {product.data, launch.products[1].data}, 0, 0, 0};
    if (product.groups != nullptr) {
      const RowGroup group = load(product.groups + index / strip_tiles);
      of.data[0] = group.data, of.first = group.first, of.rows = group.rows;
      if constexpr (kInner) {
        of.data[1] = load(launch.products[1].groups + index / strip_tiles).data;
      }
      of.strip = index % strip_tiles * kTileStrips;
      return of;
    }
    // Bands of rows that stay in the second cache while all weights pass.
    constexpr int kBand = 16;
    const int at = index - launch.first_tile[i], row_tiles = (launch.rows + kRows - 1) / kRows;
    const int band = at / (kBand * strip_tiles), in_band = at % (kBand * strip_tiles);
    const int band_rows = min(kBand, row_tiles - band * kBand);
    of.first = (band * kBand + in_band % band_rows) * kRows;
    of.rows = min(kRows, launch.rows - of.first);
    of.strip = in_band / band_rows * kTileStrips;
    return of;
  }

  static SLUICE_DEVICE RowGroup load(const RowGroup* at) {
    const uint4 words = __ldcg(reinterpret_cast<const uint4*>(at));
    static_assert(sizeof(RowGroup) == sizeof words);
    return std::bit_cast<RowGroup>(words);
  }

  // The rings, after the first address that is a multiple of 1,024.
  struct Rings {
    static constexpr std::uint32_t kChunksAt = kStages * kRowStageBytes,
                                   kExchangeAt = kChunksAt + kChunks * kChunkBytes,
                                   kBarriersAt = kExchangeAt + kExchangeBytes;
    std::uint32_t base;
    SLUICE_DEVICE std::uint32_t rows(int i) const { return base + i * kRowStageBytes; }
    SLUICE_DEVICE std::uint32_t chunk(int i) const { return base + kChunksAt + i * kChunkBytes; }
    SLUICE_DEVICE std::uint32_t rows_full(int i) const { return base + kBarriersAt + i * 8; }
    SLUICE_DEVICE std::uint32_t rows_free(int i) const { return rows_full(kStages + i); }
    SLUICE_DEVICE std::uint32_t chunk_full(int i) const { return rows_full(2 * kStages + i); }
    SLUICE_DEVICE std::uint32_t chunk_free(int i) const { return rows_full(2 * kStages + kChunks + i); }
  };

  SLUICE_DEVICE void operator()(const cuda_ops::Team<kThreads>& team) const {
    const Rings at{(shared_address(team.shared) + 1023) / 1024 * 1024};
    if (threadIdx.x == 0) {
      for (int i = 0; i < kStages; ++i) {
        init_barrier(at.rows_full(i), kRowsThreads), init_barrier(at.rows_free(i), kWarps);
      }
      for (int i = 0; i < kChunks; ++i) {
        init_barrier(at.chunk_full(i), 1), init_barrier(at.chunk_free(i), kWarps);
      }
      fence_barriers();
    }
    __syncthreads();
    // A launch without groups knows its products: its first weights are on their way before it waits.
    if (threadIdx.x >= 256 && launch.groups == nullptr) start_chunks(at, team.index);
    if (!launch.follows) cuda_ops::wait_for_kernels();
    cuda_ops::let_next_kernel_start();
    const int first = team.index + (launch.groups != nullptr ? tiles_before(0) : 0);
    const int end = launch.groups != nullptr ? tiles_before(1) : launch.tiles;
    if (threadIdx.x >= 256) {
      asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kFillRegisters));
      fill(at, first, end);
    } else {
      asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kMultiplyRegisters));
      multiply(at, first, end);
    }
    if (launch.follows) cuda_ops::wait_for_kernels();
  }

  // Each warp of the third group copies a quarter of a tile's strips, a lane one strip; other lanes copy none.
  static SLUICE_DEVICE int copied_by(int thread) {
    constexpr int kLanes = kCopiedStrips / 4;
    return thread % 32 < kLanes ? thread / 32 * kLanes + thread % 32 : kCopiedStrips;
  }
  // Starts all stages of the first tile's weights.
  SLUICE_DEVICE void start_chunks(const Rings& at, int index) const {
    if (index >= launch.tiles) return;
    const Tile of = tile(index);
    const StripLinear& w = of.product->weight;
    const int copied = copied_by(static_cast<int>(threadIdx.x) - 256);
    const StripAt strip = copied_strip(of, w, copied);
    for (int i = 0; i < kChunks && i * kChunkCells < w.cells; ++i) {
      fill_chunk(at.chunk(i), at.chunk_full(i), strip, w, i * kChunkCells, copied);
    }
  }

  // Fills the rings, by the third warpgroup: thread t copies piece t % 8 of rows t / 8, and 16 further; some threads
  // copy the weights, too.
  SLUICE_DEVICE void fill(const Rings& at, int index, int count) const {
    const int thread = static_cast<int>(threadIdx.x) - 256;
    const int copied = copied_by(thread);
    bool started = launch.groups == nullptr;  // true if the copies of all stages of weights were started
    int stage = 0, stage_parity = 1, chunk = 0, chunk_parity = 1;
    const std::uint32_t to = at.rows(0) + thread / 8 * 128 + (thread % 8 ^ thread / 8 % 8) * 16;
    for (; index < count; index += gridDim.x) {
      const Tile of = tile(index);
      const StripProduct& product = *of.product;
      const StripLinear& w = product.weight;
      const int rows = of.rows;
      std::uint32_t from[kCopies];  // offsets of the rows' pieces in x, in units of 16 bytes
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
        const int r = thread / 8 + 16 * i, row = of.first + (r < of.rows ? r : 0);
        const std::ptrdiff_t x_row = product.x_rows != nullptr ? __ldcg(product.x_rows + row) : row;
        from[i] = static_cast<std::uint32_t>(x_row * product.ldx / 8) + thread % 8;
      }
      const auto* x = reinterpret_cast<const uint4*>(product.x);
      const StripAt strip = copied_strip(of, w, copied);
      for (int cell = 0; cell < w.cells; ++cell) {
        if (cell % kChunkCells == 0) {
          if (!started || cell >= kChunks * kChunkCells) {
            wait_phase(at.chunk_free(chunk), chunk_parity);
            fill_chunk(at.chunk(chunk), at.chunk_full(chunk), strip, w, cell, copied);
          }
          if (++chunk == kChunks) chunk = 0, chunk_parity ^= 1;
        }
        wait_phase(at.rows_free(stage), stage_parity);
#pragma unroll
        for (int i = 0; i < kCopies; ++i) {  // columns without a row keep old values: their results are not stored
          if (thread / 8 + 16 * i < rows) {
            copy_piece(to + stage * kRowStageBytes + i * 2048, x + from[i] + cell * 8);
          }
        }
        asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(at.rows_full(stage)) : "memory");
        if (++stage == kStages) stage = 0, stage_parity ^= 1;
      }
      started = false;
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
  }
  static SLUICE_DEVICE void copy_piece(std::uint32_t to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  }
  // Returns strip `copied` of the tile.
  static SLUICE_DEVICE StripAt copied_strip(const Tile& of, const StripLinear& w, int copied) {
    const int own = kExchanges ? copied % kTileStrips : kInner ? copied / 2 : copied;
    const bool second = kExchanges ? copied >= kTileStrips : kInner && copied % 2 == 1;
    // Strips past the last are not stored.
    return StripAt(w, second ? of.data[1] : of.data[0], min(of.strip + own, w.strips - 1));
  }
  static SLUICE_DEVICE void fill_chunk(std::uint32_t to, std::uint32_t barrier, const StripAt& from,
                                       const StripLinear& w, int cell, int copied) {
    const int cells = min(kChunkCells, w.cells - cell);
    int bytes = cells * Cell<kKind>::kWords * 512, scales_at = 0, scale_bytes = 0;
    if constexpr (kKind == StripKind::kFp8) {
      scales_at = cell / w.scale_cells * 16;
      scale_bytes = (cell + cells - 1) / w.scale_cells * 16 + 16 - scales_at;
    }
    // A chunk is one piece, which includes its scales.
    if constexpr (kKind == StripKind::kMxfp4) bytes = kFp4PieceBytes;
    // Other lanes may start their copies earlier or later.
    if (copied == 0) arrive_and_expect(barrier, kCopiedStrips * (bytes + scale_bytes));
    if (copied == kCopiedStrips) return;
    const std::uint32_t at = to + copied * kStripBytes;
    const auto cell_at = kKind == StripKind::kMxfp4 ? fp4_cell_at(cell) : static_cast<std::size_t>(cell) * w.cell_bytes;
    bulk_copy(at, from.cells + cell_at, bytes, barrier);
    if (kKind == StripKind::kFp8) bulk_copy(at + 2048, from.scales + scales_at, scale_bytes, barrier);
  }

  static SLUICE_DEVICE void load_words(std::uint32_t at, std::uint32_t (&to)[4]) {
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
  }
  static SLUICE_DEVICE void take(Cell<kKind>& cell, std::uint32_t strip, int i, int block, int lane) {
    const std::uint32_t at = strip + i * Cell<kKind>::kWords * 512 + lane * 16;
#pragma unroll
    for (int k = 0; k < Cell<kKind>::kWords; ++k) {
      uint4& to = cell.words[k];
      asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                   : "=r"(to.x), "=r"(to.y), "=r"(to.z), "=r"(to.w)
                   : "r"(at + k * 512)
                   : "memory");
    }
    if constexpr (kKind == StripKind::kMxfp4) {
      asm volatile("ld.shared.u32 %0, [%1];" : "=r"(cell.scale) : "r"(strip + 2048 + i * 32 + lane / 4 * 4) : "memory");
    } else if constexpr (kKind == StripKind::kFp8) {
      std::uint16_t scale;
      asm volatile("ld.shared.u16 %0, [%1];" : "=h"(scale) : "r"(strip + 2048 + block * 16 + lane / 4 * 2) : "memory");
      cell.scale = scale;
    }
  }

  // Multiplies tiles; warp w of the two groups has strips kStrips w and on of a tile.
  SLUICE_DEVICE void multiply(const Rings& at, int index, int count) const {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    int stage = 0, stage_parity = 0, chunk = 0, chunk_parity = 0;
    for (; index < count; index += gridDim.x) {
      const Tile of = tile(index);
      const StripLinear& w = of.product->weight;
      float sums[kStrips][kSums];
      [[maybe_unused]] float total[kStrips == 1 ? kSums : 1];
      if constexpr (kStrips == 1) {
#pragma unroll
        for (float& value : total) value = 0.0F;
      }
      int segment = 0, left = w.segment_cells, in_chunk = 0;
      bool add = false;
      [[maybe_unused]] float scales[2] = {1.0F, 1.0F};  // the scales of the segment
      std::uint32_t a[4][2][4];                         // fragments: two buffers of two steps for each strip
      for (int cell = 0; cell < w.cells; ++cell) {
        if constexpr (kKind == StripKind::kFp8Scaled) {
          if (!add) take_scales(of, w, warp, lane, segment, scales);
        }
        if (in_chunk == 0) wait_phase(at.chunk_full(chunk), chunk_parity);
        [[maybe_unused]] Cell<kKind> cells[kStrips];
        const std::uint32_t strips_at = at.chunk(chunk) + warp * kStrips * kStripBytes;
        const int block = w.scale_cells == 1 ? in_chunk : 0;  // otherwise scale_cells is even, so a chunk has one scale
        // Cells of bf16 need no decoding: they are loaded when they are multiplied.
#pragma unroll
        for (int s = 0; s < kStrips && kKind != StripKind::kBf16; ++s) {
          take(cells[s], strips_at + s * kStripBytes, in_chunk, block, lane);
        }
        wait_phase(at.rows_full(stage), stage_parity);
        fence_shared();
        const std::uint64_t rows = rows_operand(at.rows(stage));
        const auto half = [&]<int kHalf>() {
#pragma unroll
          for (int s = 0; s < kStrips; ++s) {
            std::uint32_t(&own)[2][4] = a[kHalf * kStrips + s];
            wait_group<2 * kStrips - 1>();  // waits until the products that read these registers have ended
            if (kHalf == 1 && s == kStrips - 1 && cell > 0)
              release(at.rows_free(stage == 0 ? kStages - 1 : stage - 1), lane);
            if constexpr (kKind == StripKind::kBf16) {
              const std::uint32_t at_step = strips_at + s * kStripBytes + kHalf * 1024 + lane * 16;
              load_words(at_step, own[0]), load_words(at_step + 512, own[1]);
            } else {
              cells[s].template fragment<2 * kHalf>(own[0]);
              cells[s].template fragment<2 * kHalf + 1>(own[1]);
            }
            fence_registers();
            multiply_group(sums[s], own[0], rows + 4 * kHalf, add || kHalf > 0);
            multiply_group(sums[s], own[1], rows + 4 * kHalf + 2, true);
            commit_group();
          }
        };
        half.template operator()<0>();
        half.template operator()<1>();
        add = true;
        if (++in_chunk == kChunkCells || cell + 1 == w.cells) {
          __syncwarp();
          release(at.chunk_free(chunk), lane);
          in_chunk = 0;
          if (++chunk == kChunks) chunk = 0, chunk_parity ^= 1;
        }
        if constexpr (kStrips == 1) {
          if (--left == 0 || cell + 1 == w.cells) {
            wait_group<0>();
#pragma unroll
            for (int i = 0; i < kSums; ++i) total[i] = std::fma(sums[0][i], scales[i / 2 % 2], total[i]);
            ++segment, left = w.segment_cells, add = false;
          }
        }
        if (++stage == kStages) stage = 0, stage_parity ^= 1;
      }
      wait_group<0>();
      release(at.rows_free(stage == 0 ? kStages - 1 : stage - 1), lane);
      const Tile done = tile(index);  // computed again, rather than held in registers all the time
      if constexpr (kExchanges) {
        exchange(at, done, warp, lane, total);
      } else if constexpr (kStrips == 1) {
        put(done, done.strip + warp, lane, total);
      } else if constexpr (kOutput == TileOutput::kY) {
#pragma unroll
        for (int s = 0; s < kStrips; ++s) put(done, done.strip + warp * kStrips + s, lane, sums[s]);
      } else {
        put_inner(done, done.strip + warp, lane, 0, sums[0], sums[1]);
      }
    }
  }
  static SLUICE_DEVICE void release(std::uint32_t barrier, int lane) {
    if (lane == 0) arrive(barrier);
  }

  static SLUICE_DEVICE void take_scales(const Tile& of, const StripLinear& w, int warp, int lane, int segment,
                                        float (&scales)[2]) {
    const StripAt strip = copied_strip(of, w, warp);
    scales[0] = strip.template segment_scale<kKind>(segment, lane / 4);
    scales[1] = strip.template segment_scale<kKind>(segment, lane / 4 + 8);
  }

  SLUICE_DEVICE void put(const Tile& of, int strip, int lane, const float (&sums)[kSums]) const {
    const StripProduct& product = *of.product;
    const int output = strip * kStripOutputs + lane / 4, first = lane % 4 * 2;
    const bool has[2] = {output < product.weight.out, output + 8 < product.weight.out};
    float* y = product.y + (of.first + first) * product.ldy + output;
#pragma unroll
    for (int i = 0; i < kRows / 8; ++i, y += 8 * product.ldy) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (8 * i + first + e >= of.rows) continue;
        float* to = y + e * product.ldy;
        if (has[0]) to[0] = sums[4 * i + e] + 0.0F;  // y = segment + 0, since y begins at 0
        if (has[1]) to[8] = sums[4 * i + 2 + e] + 0.0F;
      }
    }
  }
  // Exchanges one strip of each warp: gate's warps receive up's sums of the first half of the rows, and give their sums
  // of the second half.
  SLUICE_DEVICE void exchange(const Rings& at, const Tile& of, int warp, int lane, const float (&total)[kSums]) const {
    constexpr int kHalf = kSums / 2, kPieces = kHalf / 4;
    const int pair = warp % kTileStrips;
    const bool second = warp >= kTileStrips;
    float gate[kHalf], up[kHalf];
    const auto place = [&](int of_warp, int piece) {
      return at.base + Rings::kExchangeAt + static_cast<std::uint32_t>(((of_warp * kPieces + piece) * 32 + lane) * 16);
    };
    // The sums that the other warp gets.
#pragma unroll
    for (int i = 0; i < kHalf; ++i) gate[i] = second ? total[i] : total[kHalf + i];
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      asm volatile("st.shared.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(place(warp, i)), "f"(gate[4 * i]),
                   "f"(gate[4 * i + 1]), "f"(gate[4 * i + 2]), "f"(gate[4 * i + 3])
                   : "memory");
    }
    meet(pair);
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
                   : "=f"(up[4 * i]), "=f"(up[4 * i + 1]), "=f"(up[4 * i + 2]), "=f"(up[4 * i + 3])
                   : "r"(place(second ? pair : warp + kTileStrips, i))
                   : "memory");
    }
    meet(pair);  // waits before the next tile's sums are written
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      gate[i] = second ? up[i] : total[i];
      up[i] = second ? total[kHalf + i] : up[i];
    }
    put_inner(of, of.strip + pair, lane, second ? kRows / 2 : 0, gate, up);
  }
  static SLUICE_DEVICE void meet(int pair) { asm volatile("bar.sync %0, 64;" ::"r"(1 + pair) : "memory"); }
  // Transposes, so that a lane has two adjacent outputs of a row. first: the first row in the tile.
  template <int kOf>
  SLUICE_DEVICE void put_inner(const Tile& of, int strip, int lane, int first, const float (&gate)[kOf],
                               const float (&up)[kOf]) const {
    const int out = launch.products[0].weight.out;
#pragma unroll
    for (int i = 0; i < kOf / 4; ++i) {
      float weights[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int row = first + i * 8 + lane % 4 * 2 + e;
        weights[e] = launch.weights == nullptr ? 1.0F : row < of.rows ? __ldcg(launch.weights + of.first + row) : 0.0F;
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const auto value = [&](int e) {
          return activated<true>(launch.activation, gate[4 * i + 2 * h + e] + 0.0F, up[4 * i + 2 * h + e] + 0.0F,
                                 weights[e]);
        };
        const std::uint32_t pair = bf16_pair(value(0), value(1));
        std::uint32_t outputs;
        asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(outputs) : "r"(pair));
        const int row = first + i * 8 + lane / 4, output = strip * kStripOutputs + h * 8 + lane % 4 * 2;
        if (row < of.rows && output < out) {
          *reinterpret_cast<std::uint32_t*>(launch.m + static_cast<std::ptrdiff_t>(of.first + row) * out + output) =
              outputs;
        }
      }
    }
  }
};

// Launches at most `tiles` tiles, on all processors.
template <StripKind kKind, int kStrips, int kRows, TileOutput kOutput>
void launch_tiles(const Exec& exec, const TileLaunch& launch) {
  using Kernel = TileProducts<kKind, kStrips, kRows, kOutput>;
  const int teams = std::min(cuda_ops::processors(exec), launch.tiles);
  cuda_ops::launch(exec, teams, Kernel{launch}, Kernel::shared_bytes());
}

}  // namespace sluice::cuda_sm90
