// Products with many rows: a team multiplies 8 or 16 strips with 64 rows. The rows come through shared memory, some
// cells ahead; each warp loads the weights of its strips into registers. If that leaves too few teams, those of a
// cluster have the same tile and a segment each, and add the sums in order.
// Used by attend_cluster.cu, fp8_rows.cu, fp8_tiles.cu and index_choice.cu.
#include <algorithm>

#include "kernels/cuda/sm90/cluster.h"
#include "kernels/cuda/sm90/fragments.h"
#include "kernels/cuda/sm90/strip_products.h"

namespace sluice::cuda_sm90 {
namespace {

using cuda_ops::Team;

constexpr int kWarps = 8, kTiles = kManyRows / 8;
constexpr int kStages = 4, kRowBytes = kCellInputs * 2, kRowsBytes = kManyRows * kRowBytes;
constexpr int kSumsLd = kWarps * kStripOutputs + 4;  // + 4: lanes write to different banks

// Loads four values of team `rank` of the cluster, from the address that corresponds to `at` of this team.
SLUICE_DEVICE float4 load_of_team(const float* at, int rank) {
  std::uint32_t there;
  float4 values;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(at)), "r"(rank));
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(values.x), "=f"(values.y), "=f"(values.z), "=f"(values.w)
               : "r"(there)
               : "memory");
  return values;
}

// kStrips: strips of a warp.
template <StripKind kKind, int kStrips>
struct ManyRows {
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kResident = kStrips == 1 ? 2 : 1;
  static constexpr bool kWaits = true;
  static constexpr bool kAhead = kStrips == 2;  // loads weights ahead if there are registers for them
  static constexpr int kCellBytes = kCellSharedBytes<kKind>;
  // Bytes of a stage: rows, then a cell of each strip.
  static constexpr int kStageBytes = kRowsBytes + kWarps * kStrips * kCellBytes;
  StripLaunch launch;
  int cluster;  // teams that share a tile; 1: a team has all segments

  using Sums = float[kStrips][kTiles][4];

  static constexpr std::size_t shared_bytes(int cluster) {
    constexpr std::size_t kRows = std::size_t{kStages} * kStageBytes;
    return cluster > 1 ? std::max(kRows, std::size_t{kManyRows} * kSumsLd * sizeof(float)) : kRows;
  }

  // A thread copies two pieces of 16 bytes of a cell's rows. Pieces of a row are swapped by its number, so that the
  // eight rows of a matrix lie in different banks.
  struct RowCopies {
    const uint4* x;
    std::uint32_t from[2];  // offsets of its pieces in x, in units of 16 bytes
    std::byte* to;
    SLUICE_DEVICE RowCopies(const StripProduct& product, const RowGroup& group, std::byte* shared) {
      const int row = static_cast<int>(threadIdx.x) / 8, piece = static_cast<int>(threadIdx.x) % 8;
#pragma unroll
      for (int i = 0; i < 2; ++i) {  // a column without a row gets some row: its results are not stored
        const int r = row + 32 * i < group.rows ? row + 32 * i : 0;
        const std::ptrdiff_t x_row = product.x_rows != nullptr ? product.x_rows[group.first + r] : group.first + r;
        from[i] = static_cast<std::uint32_t>(x_row * product.ldx / 8 + piece);
      }
      x = reinterpret_cast<const uint4*>(product.x);
      to = shared + row * kRowBytes + (piece ^ row % 8) * 16;
    }
    SLUICE_DEVICE void start(int cell, int offset) const {
      cuda_ops::copy_16(to + offset, x + from[0] + cell * 8);
      cuda_ops::copy_16(to + offset + 32 * kRowBytes, x + from[1] + cell * 8);
    }
  };

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const StripTile tile = strip_tile(launch, team.index / cluster, kWarps * kStrips);
    const StripProduct& product = *tile.product;
    const StripLinear& w = product.weight;
    if (tile.group.rows <= 0) return;
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int strip = (tile.index * kWarps + warp) * kStrips, rank = team.index % cluster;
    const int begin = cluster > 1 ? rank * w.segment_cells : 0;
    const int cells = cluster > 1 && begin + w.segment_cells < w.cells ? begin + w.segment_cells : w.cells;
    Sums total;
    clear(total);
    run(product, tile.group, team.shared, strip, lane, begin, cells, total);
    if (cluster > 1) return add_segments(product, tile, team.shared, rank, warp, lane, total);
#pragma unroll
    for (int s = 0; s < kStrips; ++s) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          store(product, tile.group, 8 * n + lane % 4 * 2 + i % 2, (strip + s) * kStripOutputs + lane / 4 + i / 2 * 8,
                total[s][n][i]);
        }
      }
    }
  }

  static SLUICE_DEVICE void clear(Sums& sums) {
#pragma unroll
    for (int s = 0; s < kStrips; ++s) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[s][n][i] = 0.0F;
      }
    }
  }
  static SLUICE_DEVICE void store(const StripProduct& product, const RowGroup& group, int row, int output,
                                  float value) {
    if (row < group.rows && output < product.weight.out) product.y[(group.first + row) * product.ldy + output] = value;
  }

  // Multiplies cells [begin, end), and adds their segments to `total`.
  SLUICE_DEVICE void run(const StripProduct& product, const RowGroup& group, std::byte* shared, int strip, int lane,
                         int begin, int end, Sums& total) const {
    const StripLinear& w = product.weight;
    const int last = w.strips - 1;  // strips past the last are computed from it, but not stored
    StripAt at[kStrips];
#pragma unroll
    for (int s = 0; s < kStrips; ++s) at[s] = StripAt(w, group.data, strip + s < last ? strip + s : last);
    std::byte* own = shared + kRowsBytes + static_cast<int>(threadIdx.x) / 32 * kStrips * kCellBytes;
    const auto start_weights = [&](int cell, int stage) {
#pragma unroll
      for (int s = 0; s < kStrips; ++s) {
        at[s].template start<kKind>(w, cell, lane, own + stage * kStageBytes + s * kCellBytes);
      }
    };
#pragma unroll
    for (int i = 0; i < kStages - 1; ++i) {
      if (begin + i < end) start_weights(begin + i, i);
    }
    cuda_ops::wait_for_kernels();
    const RowCopies copies(product, group, shared);
#pragma unroll
    for (int i = 0; i < kStages - 1; ++i) {  // the first group also completes the weights started above
      if (begin + i < end) copies.start(begin + i, i * kStageBytes);
      cuda_ops::commit_copies();
    }
    Sums chain;
    clear(chain);
    int segment = 0, left = w.segment_cells, stage = 0;
    for (int c = begin; c < end; ++c) {
      cuda_ops::wait_copies<kStages - 2>();
      __syncthreads();
      const int ahead = c + kStages - 1, ahead_stage = (stage + kStages - 1) % kStages;
      if (ahead < end) {
        start_weights(ahead, ahead_stage);
        copies.start(ahead, ahead_stage * kStageBytes);
      }
      cuda_ops::commit_copies();
      Cell<kKind> cells[kStrips];
#pragma unroll
      for (int s = 0; s < kStrips; ++s) {
        StripAt::take<kKind>(own + stage * kStageBytes + s * kCellBytes, lane, cells[s]);
      }
      multiply(cells, shared_address(shared) + stage * kStageBytes, lane, chain);
      stage = (stage + 1) % kStages;
      if (--left == 0 || c + 1 == end) {
        finish(at, lane, segment, chain, total);
        clear(chain);
        ++segment, left = w.segment_cells;
      }
    }
  }

  // The lanes of each quarter have the addresses of a matrix: two tiles of rows, the lower and the upper inputs of a
  // step.
  static SLUICE_DEVICE void multiply(const Cell<kKind> (&cells)[kStrips], std::uint32_t rows_at, int lane,
                                     Sums& chain) {
    const int row = lane / 16 * 8 + lane % 8, half = lane / 8 % 2;
    const auto load = [&](int step, std::uint32_t(&to)[2 * kTiles]) {
      const std::uint32_t at = rows_at + row * kRowBytes + ((2 * step + half) ^ row % 8) * 16;
#pragma unroll
      for (int n = 0; n < kTiles; n += 2) load_matrices(at + n * 8 * kRowBytes, &to[2 * n]);
    };
    std::uint32_t rows[2][2 * kTiles];  // this step's and the next one's, so that no product waits for them
    load(0, rows[0]);
    const auto step = [&]<int kStep>() {
      if constexpr (kAhead && kStep + 1 < kCellSteps) load(kStep + 1, rows[(kStep + 1) % 2]);
      if constexpr (!kAhead && kStep > 0) load(kStep, rows[kStep % 2]);
      std::uint32_t a[kStrips][4];
#pragma unroll
      for (int s = 0; s < kStrips; ++s) cells[s].template fragment<kStep>(a[s]);
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int s = 0; s < kStrips; ++s) {
          multiply_step(chain[s][n], a[s], rows[kStep % 2][2 * n], rows[kStep % 2][2 * n + 1]);
        }
      }
    };
    step.template operator()<0>();
    step.template operator()<1>();
    step.template operator()<2>();
    step.template operator()<3>();
  }

  static SLUICE_DEVICE void finish(const StripAt (&at)[kStrips], int lane, int segment, const Sums& chain,
                                   Sums& total) {
#pragma unroll
    for (int s = 0; s < kStrips; ++s) {
      const float scales[2] = {at[s].template segment_scale<kKind>(segment, lane / 4),
                               at[s].template segment_scale<kKind>(segment, lane / 4 + 8)};
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) total[s][n][i] = std::fma(chain[s][n][i], scales[i / 2], total[s][n][i]);
      }
    }
  }

  // Each team of the cluster has the sum of a segment, from 0, in `sums`, and adds all of them for a part of the rows.
  SLUICE_DEVICE void add_segments(const StripProduct& product, const StripTile& tile, std::byte* shared, int rank,
                                  int warp, int lane, const Sums& segment) const {
    auto* sums = reinterpret_cast<float*>(shared);  // [row][output]
    cuda_ops::wait_copies<0>();
    __syncthreads();
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        sums[(8 * n + lane % 4 * 2 + i % 2) * kSumsLd + warp * kStripOutputs + lane / 4 + i / 2 * 8] = segment[0][n][i];
      }
    }
    cluster_barrier();
    constexpr int kFours = kWarps * kStripOutputs / 4;
    const int rows = kManyRows / cluster;
    for (int i = static_cast<int>(threadIdx.x); i < rows * kFours; i += kThreads) {
      const int row = rank * rows + i / kFours, output = i % kFours * 4;
      float4 of[kMostSegments];  // all loads are under way at once
#pragma unroll
      for (int s = 0; s < kMostSegments; ++s) {
        if (s < cluster) of[s] = load_of_team(sums + row * kSumsLd + output, s);
      }
      float y[4] = {};
#pragma unroll
      for (int s = 0; s < kMostSegments; ++s) {
        if (s < cluster) y[0] += of[s].x, y[1] += of[s].y, y[2] += of[s].z, y[3] += of[s].w;
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) store(product, tile.group, row, tile.index * kFours * 4 + output + e, y[e]);
    }
    cluster_barrier();  // no team may end while others read its memory
  }
};

std::int64_t teams_of(const StripRows& rows, std::span<const StripProduct> products, int strips) {
  std::int64_t teams = 0;
  for (const StripProduct& product : products)
    teams += std::int64_t{(product.weight.strips + strips - 1) / strips} * rows.tiles();
  return teams;
}

template <StripKind kKind, int kStrips>
void launch_many(const Exec& exec, const StripRows& rows, std::span<const StripProduct> products, int cluster) {
  ManyRows<kKind, kStrips> kernel{};
  kernel.cluster = cluster;
  kernel.launch.count = static_cast<int>(products.size());
  kernel.launch.rows = rows.rows;
  kernel.launch.tile_rows = rows.kernel_rows;
  std::int64_t teams = 0;
  for (std::size_t i = 0; i < products.size(); ++i) {
    kernel.launch.products[i] = products[i];
    kernel.launch.first_team[i] = static_cast<std::int32_t>(teams);
    teams += teams_of(rows, products.subspan(i, 1), kWarps * kStrips);
  }
  cuda_ops::launch(exec, teams * cluster, kernel, kernel.shared_bytes(cluster), cluster);
}

template <StripKind kKind>
void launch_many(const Exec& exec, const StripRows& rows, std::span<const StripProduct> products) {
  const int processors = cuda_ops::processors(exec), segments = products[0].weight.segments;
  const bool alike =
      std::ranges::all_of(products, [&](const StripProduct& p) { return p.weight.segments == segments; });
  const bool shares = kKind != StripKind::kFp8Scaled && alike && (segments == 2 || segments == 4 || segments == 8);
  using enum StripRows::Cut;
  auto cut = rows.cut;
  if (cut == kAny && teams_of(rows, products, 2 * kWarps) >= 3 * processors) cut = kWide;
  if (cut == kAny && teams_of(rows, products, kWarps) < processors) cut = kNarrow;
  if (cut == kWide) return launch_many<kKind, 2>(exec, rows, products, 1);
  launch_many<kKind, 1>(exec, rows, products, shares && cut == kNarrow ? segments : 1);
}

}  // namespace

void multiply_many(const Exec& exec, const StripRows& rows, std::span<const StripProduct> products) {
  switch (products[0].weight.kind) {
    case StripKind::kBf16:
      return launch_many<StripKind::kBf16>(exec, rows, products);
    case StripKind::kFp8:
      return launch_many<StripKind::kFp8>(exec, rows, products);
    case StripKind::kFp8Scaled:
      return launch_many<StripKind::kFp8Scaled>(exec, rows, products);
    case StripKind::kMxfp4:
      return launch_many<StripKind::kMxfp4>(exec, rows, products);
  }
}

}  // namespace sluice::cuda_sm90
