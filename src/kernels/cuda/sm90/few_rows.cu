// Products with up to 8 rows, or 16. A warp multiplies a strip of weights that it copies some cells ahead, into a ring
// of its own in shared memory. If there are few strips, the warps of a team share one: each has some of its segments,
// and their sums are added in order.
//
// The rows come through shared memory, too: either once for all of a team's warps, which need the same cells, or in
// each warp's ring together with the weights. If they were read where they lie, each cell would wait for the second
// cache.
#include <algorithm>

#include "base/formats/number_formats.h"
#include "kernels/cuda/sm90/pipeline.h"
#include "kernels/cuda/sm90/strip_products.h"

namespace sluice::cuda_sm90 {
namespace {

using cuda_ops::Team;

constexpr int kWarps = 8;
constexpr std::size_t kMostShared = std::size_t{224} << 10;  // most shared memory of a team
// Bytes from one row of a cell to the next, chosen so that rows lie in different banks.
constexpr int kRowStride = kCellInputs * 2 + 16;

// The cells of a warp under way, if a stage also has those of the rows.
template <StripKind kKind, int kTiles>
inline constexpr int kCellsAhead = (Cell<kKind>::kAhead + kTiles - 1) / kTiles;

// kTiles: tiles of 8 rows. kAhead: cells of a warp under way.
template <StripKind kKind, int kTiles, int kAhead>
struct FewRows {
  static constexpr int kThreads = kWarps * 32;
  // Teams of a multiprocessor, of which half are of the next kernel.
  static constexpr int kResident = kTiles == 1 ? 4 : 2;
  static constexpr bool kWaits = true, kStartsNext = true;
  static constexpr int kCellBytes = kCellSharedBytes<kKind>;
  StripLaunch launch;
  int strip_warps;  // warps of a team that work on one strip
  int stage_bytes;  // bytes of a ring's stage: a cell of weights and, unless all rows are copied at once, of the rows
  int row_bytes;    // bytes of a row in shared memory, if all rows are there
  int rows_bytes;  // bytes of all rows

  // The rows' values of a cell: for each step, inputs 2t, 2t + 1 and 2t + 8, 2t + 9 of row g.
  struct Inputs {
    std::uint32_t words[kTiles][2 * kCellSteps];
  };
  struct Rows {
    std::uint32_t at[kTiles];               // where the lane's row of each matrix lies
    const std::uint16_t* from[2 * kTiles];  // the pieces of 16 bytes of each cell that it copies; null: none
    // Loads the rows' values. `offset`: that of a cell of the rows, or of a stage.
    SLUICE_DEVICE void load(int offset, Inputs& to) const {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          load_matrices(at[n] + static_cast<std::uint32_t>(offset + i * 64), &to.words[n][4 * i]);
        }
      }
    }
    SLUICE_DEVICE void start(int cell, int lane, std::byte* shared) const {
#pragma unroll
      for (int i = 0; i < 2 * kTiles; ++i) {
        std::byte* to = shared + (4 * i + lane / 8) * kRowStride + lane % 8 * 16;
        if (from[i] != nullptr) cuda_ops::copy_16(to, from[i] + cell * kCellInputs);
      }
    }
  };
  struct Sums {
    float values[kTiles][4];
    SLUICE_DEVICE void clear() {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) values[n][i] = 0.0F;
      }
    }
  };

  static constexpr int kSumsOfSegment = kStripOutputs * 8 * kTiles;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int team_strips = kWarps / strip_warps;
    const StripTile tile = strip_tile(launch, team.index, team_strips);
    const StripProduct& product = *tile.product;
    const StripLinear& w = product.weight;
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int of_team = warp / strip_warps, strip = tile.index * team_strips + of_team;
    if (tile.group.rows <= 0) return;
    // Multiplies segments [first, end).
    const bool alone = strip_warps == 1;
    const int part = warp % strip_warps;
    const int first = part * w.segments / strip_warps;
    const int end = strip < w.strips ? (part + 1) * w.segments / strip_warps : first;
    auto* sums = reinterpret_cast<float*>(team.shared + kWarps * kAhead * stage_bytes + rows_bytes) +
                 of_team * w.segments * kSumsOfSegment;
    Sums total;
    total.clear();
    run(product, StripAt(w, tile.group.data, strip < w.strips ? strip : 0), tile.group, lane, first, end, total,
        team.shared, alone ? nullptr : sums);
    if (alone) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          store(product, tile.group, strip, row_of(lane, n, i), output_of(lane, i), total.values[n][i]);
        }
      }
      return;
    }
    __syncthreads();
    if (strip >= w.strips) return;
    const StripAt at(w, tile.group.data, strip);
    for (int i = part * 32 + lane; i < kSumsOfSegment; i += strip_warps * 32) {
      const int row = i / kStripOutputs, output = i % kStripOutputs;
      float y = 0.0F;
      for (int s = 0; s < w.segments; ++s) {
        y = std::fma(sums[s * kSumsOfSegment + i], at.template segment_scale<kKind>(s, output), y);
      }
      store(product, tile.group, strip, row, output, y);
    }
  }

  // Copies all rows of the group to shared memory.
  SLUICE_DEVICE void copy_rows(const StripProduct& product, const RowGroup& group, std::byte* shared) const {
    const int pieces = product.weight.cells * 8;
    for (int row = 0; row < group.rows; ++row) {
      const std::ptrdiff_t x_row = product.x_rows != nullptr ? product.x_rows[group.first + row] : group.first + row;
      for (int i = static_cast<int>(threadIdx.x); i < pieces; i += kThreads) {
        cuda_ops::copy_16(shared + row * row_bytes + i * 16, product.x + x_row * product.ldx + i * 8);
      }
    }
    cuda_ops::commit_copies();
    cuda_ops::wait_copies<0>();
    __syncthreads();
  }

  static SLUICE_DEVICE int row_of(int lane, int n, int i) { return 8 * n + lane % 4 * 2 + i % 2; }
  static SLUICE_DEVICE int output_of(int lane, int i) { return lane / 4 + i / 2 * 8; }
  static SLUICE_DEVICE void store(const StripProduct& product, const RowGroup& group, int strip, int row, int output,
                                  float value) {
    const int o = strip * kStripOutputs + output;
    if (row >= group.rows || o >= product.weight.out) return;
    product.y[(group.first + row) * product.ldy + o] = value;
    if (product.rounded != nullptr) product.rounded[(group.first + row) * product.ld_rounded + o] = to_bf16(value).bits;
  }

  // `base`: where the rows are copied to, all at once or to a stage of the lane's warp.
  SLUICE_DEVICE Rows rows_of(const StripProduct& product, const RowGroup& group, int lane,
                             const std::byte* base) const {
    Rows rows;
    const int stride = row_bytes != 0 ? row_bytes : kRowStride;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {  // a column without a row gets some row: its results are not stored
      const int row = min(8 * n + lane % 8, group.rows - 1);
      rows.at[n] = shared_address(base) + static_cast<std::uint32_t>(row * stride + lane / 8 * 16);
    }
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
      const int row = 4 * i + lane / 8;
      rows.from[i] = nullptr;
      if (row_bytes != 0 || row >= group.rows) continue;
      const std::ptrdiff_t x_row = product.x_rows != nullptr ? product.x_rows[group.first + row] : group.first + row;
      rows.from[i] = product.x + x_row * product.ldx + lane % 8 * 8;
    }
    return rows;
  }

  // Adds segments to `total`; or their sums, unscaled, to `sums` [segment][row][output].
  SLUICE_DEVICE void run(const StripProduct& product, const StripAt& at, const RowGroup& group, int lane, int first,
                         int end, Sums& total, std::byte* shared, float* sums) const {
    const StripLinear& w = product.weight;
    const int begin_cell = first * w.segment_cells, end_cell = end * w.segment_cells;
    const int cells = first == end ? begin_cell : end_cell < w.cells ? end_cell : w.cells;
    std::byte* ring = shared + static_cast<int>(threadIdx.x) / 32 * kAhead * stage_bytes;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (begin_cell + i < cells) at.template start<kKind>(w, begin_cell + i, lane, ring + i * stage_bytes);
      cuda_ops::commit_copies();
    }
    cuda_ops::wait_for_kernels();
    cuda_ops::let_next_kernel_start();
    const bool whole = row_bytes != 0;
    std::byte* base = whole ? shared + kWarps * kAhead * stage_bytes : ring + kCellBytes;
    const Rows rows = rows_of(product, group, lane, base);
    if (whole) {
      copy_rows(product, group, base);
    } else {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (begin_cell + i < cells) rows.start(begin_cell + i, lane, ring + i * stage_bytes + kCellBytes);
        cuda_ops::commit_copies();
      }
    }
    Sums chain;
    chain.clear();
    int segment = first, left = w.segment_cells;
    int stage = 0;  // its place in the ring
    for (int c = begin_cell; c < cells; ++c) {
      cuda_ops::wait_copies<kAhead - 1>();
      __syncwarp();  // some lanes copied rows and scales for all lanes
      Cell<kKind> cell;
      StripAt::take<kKind>(ring + stage, lane, cell);
      Inputs inputs;
      rows.load(whole ? c * kCellInputs * 2 : stage, inputs);
      multiply(cell, inputs, chain);
      __syncwarp();
      if (c + kAhead < cells) {
        at.template start<kKind>(w, c + kAhead, lane, ring + stage);
        rows.start(c + kAhead, lane, ring + stage + kCellBytes);
      }
      cuda_ops::commit_copies();
      stage = stage == (kAhead - 1) * stage_bytes ? 0 : stage + stage_bytes;
      if (--left == 0 || c + 1 == cells) {
        finish(at, lane, segment, chain, total, sums);
        chain.clear();
        ++segment, left = w.segment_cells;
      }
    }
  }

  static SLUICE_DEVICE void multiply(const Cell<kKind>& cell, const Inputs& inputs, Sums& chain) {
    const auto step = [&]<int kStep>() {
      std::uint32_t a[4];
      cell.template fragment<kStep>(a);
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        multiply_step(chain.values[n], a, inputs.words[n][2 * kStep], inputs.words[n][2 * kStep + 1]);
      }
    };
    step.template operator()<0>();
    step.template operator()<1>();
    step.template operator()<2>();
    step.template operator()<3>();
  }

  static SLUICE_DEVICE void finish(const StripAt& at, int lane, int segment, const Sums& chain, Sums& total,
                                   float* sums) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (sums != nullptr) {
          sums[segment * kSumsOfSegment + row_of(lane, n, i) * kStripOutputs + output_of(lane, i)] = chain.values[n][i];
        } else {
          const float scale = at.template segment_scale<kKind>(segment, output_of(lane, i));
          total.values[n][i] = std::fma(chain.values[n][i], scale, total.values[n][i]);
        }
      }
    }
  }
};

// Products of two kinds in one launch: the teams of the first, then those of the second.
template <class First, class Second>
struct FewRowsOfTwo {
  static constexpr int kThreads = First::kThreads, kResident = First::kResident;
  static constexpr bool kWaits = true, kStartsNext = true;
  First first;
  Second second;
  int first_teams;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    if (team.index < first_teams) {
      first(team);
    } else {
      second(Team<kThreads>{team.index - first_teams, team.shared});
    }
  }
};

template <class Kernel>
struct FewLaunch {
  Kernel kernel{};
  std::int64_t teams = 0;
  std::size_t shared = 0;
};

std::int64_t teams_of_processor(const Exec& exec, std::int64_t teams) {
  return (teams + cuda_ops::processors(exec) - 1) / cuda_ops::processors(exec);
}
// The system uses a part of a processor's shared memory for each team. The last number is the room for a team of the
// kernel of hyper-connections, which comes next.
constexpr std::size_t kOfProcessor = std::size_t{228} << 10, kOfSystem = 1024, kRoomBehind = 54000;
// If two teams on a processor are enough for all, three on some processors would leave others with one.
constexpr std::size_t kMoreThanAThird = kOfProcessor / 3 - kOfSystem + 16;
// True if this many teams are on the processors at once, and leave this much room.
bool all_at_once(const Exec& exec, std::int64_t teams, std::size_t shared, std::size_t room = 0) {
  return static_cast<std::size_t>(teams_of_processor(exec, teams)) * (shared + kOfSystem) + room <= kOfProcessor;
}

// Returns false if a deep ring would not let all teams run at once on the processors, or if several rows would leave no
// room for the next kernel.
template <StripKind kKind, int kTiles, int kAhead>
bool prepare_few(const Exec& exec, const StripRows& rows, std::span<const StripProduct> products,
                 FewLaunch<FewRows<kKind, kTiles, kAhead>>* to) {
  FewRows<kKind, kTiles, kAhead>& kernel = to->kernel;
  kernel.launch.count = static_cast<int>(products.size());
  kernel.launch.rows = rows.rows;
  kernel.launch.tile_rows = rows.kernel_rows;
  std::int64_t strips = 0;
  int segments = 1, fewest = kMostSegments, cells = 1;
  for (const StripProduct& product : products) {
    strips += std::int64_t{product.weight.strips} * rows.tiles();
    segments = std::max(segments, product.weight.segments);
    fewest = std::min(fewest, product.weight.segments);
    cells = std::max(cells, product.weight.cells);
  }
  const int rows_of_cell = rows.group_count > 0 ? rows.kernel_rows : std::min(rows.rows, rows.kernel_rows);
  const auto rings = [&](int rows_beside) {
    return static_cast<std::size_t>(kWarps * kAhead * (kernel.kCellBytes + rows_beside * kRowStride));
  };
  // A strip has as many warps as give each something to do while four teams a multiprocessor are enough.
  const std::int64_t at_once = std::int64_t{4} * kWarps * cuda_ops::processors(exec);
  const std::size_t sums = static_cast<std::size_t>(segments) * kernel.kSumsOfSegment * sizeof(float);
  const auto sums_of_team = [&](int warps) { return warps > 1 ? sums * static_cast<std::size_t>(kWarps / warps) : 0; };
  const auto more = [&](int warps) {
    if (2 * warps > std::min(fewest, kWarps) || rings(rows_of_cell) + sums_of_team(2 * warps) > kMostShared)
      return false;
    return rows.cut == StripRows::Cut::kNarrow || (rows.cut == StripRows::Cut::kAny && 2 * strips * warps <= at_once);
  };
  kernel.strip_warps = 1;
  for (int warps = 1; warps < kWarps; warps *= 2) {
    if (more(warps)) kernel.strip_warps = 2 * warps;
  }
  to->shared = rings(rows_of_cell) + sums_of_team(kernel.strip_warps);
  kernel.stage_bytes = kernel.kCellBytes + rows_of_cell * kRowStride;
  // + 16: rows lie in different banks.
  const std::size_t row_bytes = static_cast<std::size_t>(cells) * kCellInputs * 2 + 16;
  const std::size_t rows_bytes = static_cast<std::size_t>(rows_of_cell) * row_bytes;
  const bool copied = rows.cut == StripRows::Cut::kWide || rows.cut == StripRows::Cut::kAny;
  const auto with_rows_of = [&](int warps) { return rings(0) + rows_bytes + sums_of_team(warps); };
  // With several rows a team has two strips, for both of which they are copied, if that leaves a team for each
  // processor.
  const int half = kernel.strip_warps / 2;
  const bool two = kTiles == 1 && rows_of_cell > 1 && rows.group_count == 0 && rows.cut == StripRows::Cut::kAny &&
                   half > 0 && strips * half >= std::int64_t{kWarps} * cuda_ops::processors(exec) &&
                   with_rows_of(half) <= kMostShared;
  if (two) kernel.strip_warps = half;
  const std::size_t with_rows = with_rows_of(kernel.strip_warps);
  if ((two || (kernel.strip_warps == 1 && copied)) && with_rows <= kMostShared) {
    kernel.row_bytes = static_cast<int>(row_bytes), kernel.rows_bytes = static_cast<int>(rows_bytes);
    kernel.stage_bytes = kernel.kCellBytes;
    to->shared = with_rows;
  }
  for (std::size_t i = 0; i < products.size(); ++i) {
    const int of_team = kWarps / kernel.strip_warps;
    kernel.launch.products[i] = products[i];
    kernel.launch.first_team[i] = static_cast<std::int32_t>(to->teams);
    to->teams += std::int64_t{(products[i].weight.strips + of_team - 1) / of_team} * rows.tiles();
  }
  if (rows_of_cell == 1 && kernel.row_bytes != 0 && teams_of_processor(exec, to->teams) == 2) {
    to->shared = std::max(to->shared, kMoreThanAThird);
  }
  const bool leaves_room = rows_of_cell > 1 && kernel.strip_warps > 1 && !two;
  return kAhead <= kCellsAhead<kKind, kTiles> ||
         all_at_once(exec, to->teams, to->shared, leaves_room ? kRoomBehind : 0);
}

template <StripKind kKind, int kTiles, int kAhead>
bool launch_few(const Exec& exec, const StripRows& rows, std::span<const StripProduct> products) {
  FewLaunch<FewRows<kKind, kTiles, kAhead>> launch;
  if (!prepare_few(exec, rows, products, &launch)) return false;
  cuda_ops::launch(exec, launch.teams, launch.kernel, launch.shared);
  return true;
}

// Launches with kMost cells under way, or the most for which launch() does not return false; it does not for kLeast.
template <int kLeast, int kMost, class Launch>
void launch_deepest(const Launch& launch) {
  if (launch.template operator()<kMost>()) return;
  if constexpr (kMost > kLeast) launch_deepest<kLeast, kMost - 1>(launch);
}

template <StripKind kKind>
void launch_few(const Exec& exec, const StripRows& rows, std::span<const StripProduct> products) {
  if (rows.kernel_rows != kFewRows) {
    launch_few<kKind, 2, kCellsAhead<kKind, 2>>(exec, rows, products);
    return;
  }
  constexpr int kLeast = Cell<kKind>::kAhead, kMost = Cell<kKind>::kDeep;
  launch_deepest<kLeast, kMost>([&]<int kAhead>() { return launch_few<kKind, 1, kAhead>(exec, rows, products); });
}

}  // namespace

void multiply_few_of_two(const Exec& exec, const StripRows& rows, std::span<const StripProduct> fp8,
                         std::span<const StripProduct> bf16) {
  using Fp8 = Cell<StripKind::kFp8>;
  const auto launch = [&]<int kAhead>() {
    FewLaunch<FewRows<StripKind::kFp8, 1, kAhead>> first;
    FewLaunch<FewRows<StripKind::kBf16, 1, Cell<StripKind::kBf16>::kAhead>> second;
    if (!prepare_few(exec, rows, fp8, &first) || !prepare_few(exec, rows, bf16, &second)) return false;
    const std::int64_t teams = first.teams + second.teams;
    const std::size_t shared = std::max(first.shared, second.shared);
    if (kAhead > Fp8::kAhead && !all_at_once(exec, teams, shared)) return false;
    cuda_ops::launch(exec, teams, FewRowsOfTwo{first.kernel, second.kernel, static_cast<int>(first.teams)}, shared);
    return true;
  };
  launch_deepest<Fp8::kAhead, Fp8::kDeep>(launch);
}

void multiply_few(const Exec& exec, const StripRows& rows, std::span<const StripProduct> products) {
  switch (products[0].weight.kind) {
    case StripKind::kBf16:
      return launch_few<StripKind::kBf16>(exec, rows, products);
    case StripKind::kFp8:
      return launch_few<StripKind::kFp8>(exec, rows, products);
    case StripKind::kFp8Scaled:
      return launch_few<StripKind::kFp8Scaled>(exec, rows, products);
    case StripKind::kMxfp4:
      return launch_few<StripKind::kMxfp4>(exec, rows, products);
  }
}

}  // namespace sluice::cuda_sm90
