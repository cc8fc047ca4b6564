// FP8 products with up to 64 rows at once. A team, one warpgroup, has a tile of 64 outputs, whose blocks come through a
// ring in shared memory, begun before the kernels ahead have ended. If there are few tiles, the teams of a cluster have
// some blocks of one each, leave their sums in shared memory, and then add all of them for a part of the outputs.
// Used by attend_cluster.cu, fp8_tiles.cu, index_choice.cu and many_rows.cu.
#include <algorithm>

#include "kernels/cuda/sm90/cluster.h"
#include "kernels/cuda/sm90/fp8_group.h"
#include "kernels/cuda/sm90/fp8_products.h"
#include "kernels/cuda/sm90/pipeline.h"

namespace sluice::cuda_sm90 {
namespace {

using cuda_ops::Team;

constexpr std::size_t kMostShared = std::size_t{220} << 10;
constexpr int kSumsLd = kFp8Outputs + 4;  // + 4: lanes write to different banks

template <int kRows>
struct Fp8RowProducts {
  static constexpr int kThreads = 128, kResident = kRows <= 16 ? 4 : 2;
  static constexpr bool kWaits = true;
  static constexpr int kStages = kRows <= 16 ? 5 : 4;
  static constexpr int kRowsBytes = kRows * kFp8Inputs, kStageBytes = kFp8TileBytes + kRowsBytes;
  static constexpr int kScaleFloats = kFp8TileScales + kRows;  // floats of a stage
  static constexpr int kSums = kRows / 2, kSumsOfBlock = kRows * kSumsLd;

  Fp8Product products[kMostFp8Products];
  std::int32_t first_tile[kMostFp8Products];
  std::int32_t count, rows, cluster;

  // The memory after the first address that is a multiple of 1,024; `blocks`: the number whose sums a team keeps.
  static constexpr std::size_t shared_bytes(int blocks) {
    return 1024 + static_cast<std::size_t>(kStages) * (kStageBytes + kScaleFloats * 4 + 8) + 16 +
           static_cast<std::size_t>(blocks) * kSumsOfBlock * sizeof(float);
  }

  // The part of a product that a team multiplies.
  struct Part {
    const Fp8Product* product;
    const std::byte* data;
    int tile, x_first, y_first, rows;
  };
  SLUICE_DEVICE Part part(int index) const {
    int i = 0;
    while (i + 1 < count && index >= first_tile[i + 1]) ++i;
    const Fp8Product& product = products[i];
    const int at = index - first_tile[i], tiles = product.weight.tiles;
    if (product.groups != nullptr) {
      cuda_ops::wait_for_kernels();
      const RowGroup group = product.groups[at / tiles];
      return {&product, group.data, at % tiles, at / tiles * kRows, group.first, group.rows};
    }
    const int row_tiles = (rows + kRows - 1) / kRows, first = at % row_tiles * kRows;
    return {&product, product.data, at / row_tiles, first, first, min(kRows, rows - first)};
  }

  struct Ring {
    std::uint32_t stages, scales, barriers;
    SLUICE_DEVICE std::uint32_t weights(int i) const { return stages + i * kStageBytes; }
    SLUICE_DEVICE std::uint32_t rows(int i) const { return weights(i) + kFp8TileBytes; }
    SLUICE_DEVICE std::uint32_t weight_scales(int i) const { return scales + i * kScaleFloats * 4; }
    SLUICE_DEVICE std::uint32_t row_scales(int i) const { return weight_scales(i) + kFp8TileScales * 4; }
    SLUICE_DEVICE std::uint32_t full(int i) const { return barriers + i * 8; }
  };

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const Part of = part(team.index / cluster);
    if (of.rows <= 0) return;  // all teams of the cluster return
    const Fp8Linear& w = of.product->weight;
    const int rank = team.index % cluster, begin = rank * w.blocks / cluster, end = (rank + 1) * w.blocks / cluster;
    const std::uint32_t at = shared_address(team.shared), base = (at + 1023) / 1024 * 1024;
    constexpr std::uint32_t kScalesAt = kStages * kStageBytes, kBarriersAt = kScalesAt + kStages * kScaleFloats * 4;
    const Ring ring{base, base + kScalesAt, base + kBarriersAt};
    auto* const scales = reinterpret_cast<const float*>(team.shared + (base - at) + kScalesAt);
    auto* const sums_of_team =
        reinterpret_cast<float*>(team.shared + (base - at) + (kBarriersAt + kStages * 8 + 15) / 16 * 16);
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    if (threadIdx.x == 0) {
      for (int i = 0; i < kStages; ++i) init_barrier(ring.full(i), 1);
      fence_barriers();
      for (int i = 0; i < kStages && begin + i < end; ++i) start_weights(of, w, begin + i, ring, i);
    }
    cuda_ops::wait_for_kernels();
    if (threadIdx.x == 0) {
      for (int i = 0; i < kStages && begin + i < end; ++i) start_rows(of, begin + i, ring, i);
    }
    __syncthreads();
    float total[kSums] = {};
    int stage = 0, parity = 0;
    for (int block = begin; block < end; ++block) {
      wait_phase(ring.full(stage), parity);
      float sums[kSums];
      multiply_fp8_block(sums, ring.weights(stage), ring.rows(stage));
      if (cluster == 1) {
        const float* of_stage = scales + stage * kScaleFloats;
        add_fp8_block(sums, of_stage[warp], of_stage + kFp8TileScales, lane, total);
      } else {
        keep(sums, warp, lane, sums_of_team + (block - begin) * kSumsOfBlock);
      }
      __syncthreads();
      if (threadIdx.x == 0 && block + kStages < end) {
        start_weights(of, w, block + kStages, ring, stage);
        start_rows(of, block + kStages, ring, stage);
      }
      if (++stage == kStages) stage = 0, parity ^= 1;
    }
    if (cluster > 1) return add_blocks(of, w, rank, sums_of_team);
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      put(of, i / 4 * 8 + lane % 4 * 2 + i % 2, warp * 16 + lane / 4 + i / 2 % 2 * 8, total[i]);
    }
  }

  static SLUICE_DEVICE void start_weights(const Part& of, const Fp8Linear& w, int block, const Ring& ring, int stage) {
    const std::size_t index = static_cast<std::size_t>(of.tile) * w.blocks + block;
    constexpr int kBytes = kStageBytes + kScaleFloats * 4;
    arrive_and_expect(ring.full(stage), kBytes);
    bulk_copy(ring.weights(stage), of.data + index * kFp8TileBytes, kFp8TileBytes, ring.full(stage));
    bulk_copy(ring.weight_scales(stage), of.data + w.scales_at + index * kFp8TileScales * 4, kFp8TileScales * 4,
              ring.full(stage));
  }
  static SLUICE_DEVICE void start_rows(const Part& of, int block, const Ring& ring, int stage) {
    const Fp8Rows& x = of.product->x;
    const std::size_t row = static_cast<std::size_t>(block) * x.rows + of.x_first;
    bulk_copy(ring.rows(stage), x.codes + row * kFp8Inputs, kRowsBytes, ring.full(stage));
    bulk_copy(ring.row_scales(stage), x.scales + row, kRows * 4, ring.full(stage));
  }

  // Writes a block's sums to `to`, [row][output].
  static SLUICE_DEVICE void keep(const float (&sums)[kSums], int warp, int lane, float* to) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      to[(i / 4 * 8 + lane % 4 * 2 + i % 2) * kSumsLd + warp * 16 + lane / 4 + i / 2 % 2 * 8] = sums[i];
    }
  }
  SLUICE_DEVICE void add_blocks(const Part& of, const Fp8Linear& w, int rank, float* sums) const {
    const Fp8Rows& x = of.product->x;
    const auto* weight_scales = reinterpret_cast<const float*>(of.data + w.scales_at) +
                                static_cast<std::size_t>(of.tile) * w.blocks * kFp8TileScales;
    cluster_barrier();
    const int values = kRows * kFp8Outputs / cluster;
    for (int i = static_cast<int>(threadIdx.x); i < values; i += kThreads) {
      const int row = (rank * values + i) / kFp8Outputs, output = (rank * values + i) % kFp8Outputs;
      float y = 0.0F;
      for (int r = 0; r < cluster; ++r) {
        const int begin = r * w.blocks / cluster, end = (r + 1) * w.blocks / cluster;
        const float* of_rank = of_team(sums, r) + row * kSumsLd + output;
#pragma unroll 4
        for (int block = begin; block < end; ++block) {
          const float scale = weight_scales[block * kFp8TileScales + output / kFp8ScaleOutputs] *
                              x.scales[static_cast<std::size_t>(block) * x.rows + of.x_first + row];
          y = std::fma(of_rank[(block - begin) * kSumsOfBlock], scale, y);
        }
      }
      put(of, row, output, y);
    }
    cluster_barrier();  // no team may end while others read its memory
  }
  static SLUICE_DEVICE void put(const Part& of, int row, int output, float value) {
    const int o = of.tile * kFp8Outputs + output;
    if (row < of.rows && o < of.product->weight.out) {
      of.product->y[(of.y_first + row) * of.product->ldy + o] = value;
    }
  }
};

struct Work {
  std::int64_t teams = 0;  // teams without clusters
  int most = 1, fewest = INT32_MAX;  // the most and the fewest blocks of a product
  Work(const Fp8Launch& of, std::span<const Fp8Product> products) {
    for (const Fp8Product& product : products) {
      teams += std::int64_t{product.weight.tiles} * of.row_tiles();
      most = std::max(most, product.weight.blocks), fewest = std::min(fewest, product.weight.blocks);
    }
  }
};

template <int kRows>
std::size_t shared_bytes(const Work& work, int cluster) {
  return Fp8RowProducts<kRows>::shared_bytes(cluster == 1 ? 0 : (work.most + cluster - 1) / cluster);
}
template <int kRows>
bool can(const Work& work, int cluster) {
  return cluster <= work.fewest && shared_bytes<kRows>(work, cluster) <= kMostShared;
}
// Returns the largest cluster with which all teams run at once; 0: they do not with any.
template <int kRows>
int largest_cluster(const Exec& exec, const Work& work) {
  int largest = 0;
  for (const int cluster : {1, 2, 4, 8}) {
    if (!can<kRows>(work, cluster)) continue;
    const auto resident = std::min<std::int64_t>(Fp8RowProducts<kRows>::kResident,
                                                 kMostShared / (shared_bytes<kRows>(work, cluster) + 1024));
    if (work.teams * cluster <= resident * cuda_ops::processors(exec)) largest = cluster;
  }
  return largest;
}

template <int kRows>
void launch(const Exec& exec, const Fp8Launch& of, std::span<const Fp8Product> products) {
  Fp8RowProducts<kRows> kernel{};
  const Work work(of, products);
  kernel.rows = of.rows;
  std::int64_t teams = 0;
  for (const Fp8Product& product : products) {
    kernel.products[kernel.count] = product;
    kernel.first_tile[kernel.count++] = static_cast<std::int32_t>(teams);
    teams += std::int64_t{product.weight.tiles} * of.row_tiles();
  }
  kernel.cluster = of.cluster > 0 ? (can<kRows>(work, of.cluster) ? of.cluster : 1)
                                  : std::max(1, largest_cluster<kRows>(exec, work));
  cuda_ops::launch(exec, teams * kernel.cluster, kernel, shared_bytes<kRows>(work, kernel.cluster), kernel.cluster);
}

}  // namespace

bool runs_at_once(const Exec& exec, const Fp8Launch& of, std::span<const Fp8Product> products) {
  const Work work(of, products);
  return of.kernel_rows == 32 ? largest_cluster<32>(exec, work) > 0 : largest_cluster<64>(exec, work) > 0;
}

void multiply_fp8_rows(const Exec& exec, const Fp8Launch& of, std::span<const Fp8Product> products) {
  switch (of.kernel_rows) {
    case 8:
      return launch<8>(exec, of, products);
    case 16:
      return launch<16>(exec, of, products);
    case 32:
      return launch<32>(exec, of, products);
    default:
      SLUICE_CHECK(of.kernel_rows == 64, "a number of rows that has a kernel");
      return launch<64>(exec, of, products);
  }
}

}  // namespace sluice::cuda_sm90
