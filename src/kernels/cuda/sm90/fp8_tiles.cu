// FP8 products with many rows. A team has tiles of 128 outputs and 128 rows, one after the other. Two warpgroups
// multiply 64 outputs each, and add a block's sums while the other one multiplies. A thread of a third fills their ring
// in shared memory. Two teams are a cluster: they have the same rows, of which each fetches half for both.
// Used by attend_cluster.cu, fp8_rows.cu, index_choice.cu and many_rows.cu.
#include <algorithm>

#include "kernels/cuda/sm90/cluster.h"
#include "kernels/cuda/sm90/fp8_group.h"
#include "kernels/cuda/sm90/fp8_products.h"
#include "kernels/cuda/sm90/pipeline.h"

namespace sluice::cuda_sm90 {
namespace {

using cuda_ops::Team;

// Copies to the same place in both blocks of a cluster, whose barriers count the bytes.
SLUICE_DEVICE void bulk_copy_to_both(std::uint32_t to, const void* from, int bytes, std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "h"(static_cast<std::uint16_t>(3))
      : "memory");
}
SLUICE_DEVICE void arrive_at_both(std::uint32_t barrier) {
#pragma unroll
  for (int rank = 0; rank < 2; ++rank) {
    asm volatile(
        "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier),
        "r"(rank)
        : "memory");
  }
}

struct Fp8TileProducts {
  static constexpr int kThreads = 384, kResident = 1;
  static constexpr bool kWaits = true, kStartsNext = true;
  static constexpr int kRows = kFp8TileRows, kCluster = 2, kTeamTiles = 2, kClusterTiles = kCluster * kTeamTiles;
  static constexpr int kStages = 6;
  static constexpr int kRowsAt = kTeamTiles * kFp8TileBytes, kHalfBytes = kRows * kFp8Inputs / 2;
  static constexpr int kStageBytes = kRowsAt + 2 * kHalfBytes;
  static constexpr int kScaleFloats = kTeamTiles * kFp8TileScales + kRows;
  static constexpr int kScalesAt = kStages * kStageBytes, kBarriersAt = kScalesAt + kStages * kScaleFloats * 4;
  static constexpr std::size_t kSharedBytes = 1024 + kBarriersAt + kStages * 16;
  static constexpr int kSums = kRows / 2, kWarps = 8;

  Fp8Product products[kMostFp8Products];
  std::int32_t first_tile[kMostFp8Products];
  std::int32_t count, rows, tiles;

  // The tile that a cluster multiplies.
  struct Tile {
    const Fp8Product* product;
    const std::byte* data;
    int tile, x_first, y_first, rows;  // tile: the first of kClusterTiles tiles of outputs
  };
  SLUICE_DEVICE Tile tile(int index) const {
    int i = 0;
    while (i + 1 < count && index >= first_tile[i + 1]) ++i;
    const Fp8Product& product = products[i];
    const int at = index - first_tile[i], of_rows = (product.weight.tiles + kClusterTiles - 1) / kClusterTiles;
    if (product.groups != nullptr) {
      const RowGroup group = product.groups[at / of_rows];
      return {&product, group.data, at % of_rows * kClusterTiles, at / of_rows * kRows, group.first, group.rows};
    }
    // Bands of rows that stay in the second cache while all weights pass.
    constexpr int kBand = 16;
    const int row_tiles = (rows + kRows - 1) / kRows;
    const int band = at / (kBand * of_rows), in_band = at % (kBand * of_rows);
    const int band_rows = min(kBand, row_tiles - band * kBand);
    const int first = (band * kBand + in_band % band_rows) * kRows;
    return {&product, product.data, in_band / band_rows * kClusterTiles, first, first, min(kRows, rows - first)};
  }

  struct Ring {
    std::uint32_t base;
    SLUICE_DEVICE std::uint32_t weights(int i) const { return base + i * kStageBytes; }
    SLUICE_DEVICE std::uint32_t rows(int i) const { return weights(i) + kRowsAt; }
    SLUICE_DEVICE std::uint32_t scales(int i) const { return base + kScalesAt + i * kScaleFloats * 4; }
    SLUICE_DEVICE std::uint32_t full(int i) const { return base + kBarriersAt + i * 16; }
    SLUICE_DEVICE std::uint32_t free(int i) const { return full(i) + 8; }
  };

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const std::uint32_t at = shared_address(team.shared), base = (at + 1023) / 1024 * 1024;
    const Ring ring{base};
    if (threadIdx.x == 0) {
      for (int i = 0; i < kStages; ++i) init_barrier(ring.full(i), 1), init_barrier(ring.free(i), kCluster * kWarps);
      fence_barriers();
    }
    __syncthreads();
    cluster_barrier();
    cuda_ops::wait_for_kernels();
    cuda_ops::let_next_kernel_start();
    const int rank = team.index % kCluster;
    if (threadIdx.x >= 256) {
      asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
      if (threadIdx.x == 256) fill(ring, team.index / kCluster, rank);
      __syncwarp();
    } else {
      asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
      const auto* scales = reinterpret_cast<const float*>(team.shared + (base - at) + kScalesAt);
      multiply(ring, scales, team.index / kCluster, rank);
    }
    cluster_barrier();  // no team may end while others write to its memory or arrive at its barriers
  }

  SLUICE_DEVICE void fill(const Ring& ring, int index, int rank) const {
    int stage = 0, parity = 1;
    for (; index < tiles; index += static_cast<int>(gridDim.x) / kCluster) {
      const Tile of = tile(index);
      if (of.rows <= 0) continue;
      const Fp8Linear& w = of.product->weight;
      const Fp8Rows& x = of.product->x;
      std::size_t first[kTeamTiles];
#pragma unroll
      for (int t = 0; t < kTeamTiles; ++t) {  // a tile past the last one is computed but not stored
        first[t] = static_cast<std::size_t>(min(of.tile + rank * kTeamTiles + t, w.tiles - 1)) * w.blocks;
      }
      for (int block = 0; block < w.blocks; ++block) {
        wait_phase(ring.free(stage), parity);
        const std::uint32_t full = ring.full(stage);
        arrive_and_expect(full, kStageBytes + kScaleFloats * 4);
#pragma unroll
        for (int t = 0; t < kTeamTiles; ++t) {
          const std::size_t at = first[t] + block;
          bulk_copy(ring.weights(stage) + t * kFp8TileBytes, of.data + at * kFp8TileBytes, kFp8TileBytes, full);
          bulk_copy(ring.scales(stage) + t * kFp8TileScales * 4, of.data + w.scales_at + at * kFp8TileScales * 4,
                    kFp8TileScales * 4, full);
        }
        const std::size_t row = static_cast<std::size_t>(block) * x.rows + of.x_first;
        bulk_copy_to_both(ring.rows(stage) + rank * kHalfBytes, x.codes + row * kFp8Inputs + rank * kHalfBytes,
                          kHalfBytes, full);
        bulk_copy(ring.scales(stage) + kTeamTiles * kFp8TileScales * 4, x.scales + row, kRows * 4, full);
        if (++stage == kStages) stage = 0, parity ^= 1;
      }
    }
  }

  SLUICE_DEVICE void multiply(const Ring& ring, const float* scales, int index, int rank) const {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32, group = warp / 4;
    int stage = 0, parity = 0;
    for (; index < tiles; index += static_cast<int>(gridDim.x) / kCluster) {
      const Tile of = tile(index);
      if (of.rows <= 0) continue;
      const int blocks = of.product->weight.blocks;
      float total[kSums] = {};
      for (int block = 0; block < blocks; ++block) {
        wait_phase(ring.full(stage), parity);
        float sums[kSums];
        multiply_fp8_block(sums, ring.weights(stage) + group * kFp8TileBytes, ring.rows(stage));
        const float* of_stage = scales + stage * kScaleFloats;
        add_fp8_block(sums, of_stage[warp], of_stage + kTeamTiles * kFp8TileScales, lane, total);
        __syncwarp();
        if (lane == 0) arrive_at_both(ring.free(stage));
        if (++stage == kStages) stage = 0, parity ^= 1;
      }
      put(tile(index), rank * kTeamTiles + group, warp % 4, lane, total);
    }
  }
  static SLUICE_DEVICE void put(const Tile& of, int tile, int warp, int lane, const float (&total)[kSums]) {
    const Fp8Product& product = *of.product;
    const int output = (of.tile + tile) * kFp8Outputs + warp * 16 + lane / 4;
    float* y = product.y + of.y_first * product.ldy + output;
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      const int row = i / 4 * 8 + lane % 4 * 2 + i % 2, further = i / 2 % 2 * 8;
      if (row < of.rows && output + further < product.weight.out) y[row * product.ldy + further] = total[i];
    }
  }
};

}  // namespace

void multiply_fp8_tiles(const Exec& exec, const Fp8Launch& of, std::span<const Fp8Product> products) {
  Fp8TileProducts kernel{};
  kernel.rows = of.rows;
  for (const Fp8Product& product : products) {
    kernel.products[kernel.count] = product;
    kernel.first_tile[kernel.count++] = kernel.tiles;
    kernel.tiles += (product.weight.tiles + kernel.kClusterTiles - 1) / kernel.kClusterTiles * of.row_tiles();
  }
  const int clusters = std::min(cuda_ops::processors(exec) / kernel.kCluster, kernel.tiles);
  cuda_ops::launch(exec, clusters * kernel.kCluster, kernel, kernel.kSharedBytes, kernel.kCluster);
}

}  // namespace sluice::cuda_sm90
