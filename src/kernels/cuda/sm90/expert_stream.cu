// Experts with up to 8 or 16 rows each. Two launches have warps that stream strips of weights, one after the other,
// each through a ring of its own in shared memory. Only the two warps of a gate and an up strip wait for each other.
// The teams, one a multiprocessor, have equal parts of the list of (group of rows, strip); the shared expert's groups
// come after the others'.
// Used by sm90_experts.cu.
#include <algorithm>

#include "base/formats/number_formats.h"
#include "kernels/cuda/shared/expert_lists.h"
#include "kernels/cuda/sm90/expert_chunks.h"
#include "kernels/cuda/sm90/expert_stream.h"
#include "kernels/cuda/sm90/pair_experts.h"

namespace sluice::cuda_sm90 {
namespace {

using cuda_ops::Team;

constexpr int kWarps = 16, kStages = 4;

// Rows in the order in which lanes read them. A cell of a row is 128 bytes, 64 for steps 0 and 1 and 64 for steps 2 and
// 3. Lanes t have 16 of these: inputs 2t, 2t + 1, 2t + 8, 2t + 9 of a step, then of the next.
SLUICE_HD constexpr int lane_order(int k) {
  const int step = k % kCellInputs / 16, pair = k % 16 / 2;
  return k / kCellInputs * kCellInputs + step / 2 * 32 + pair % 4 * 8 + step % 2 * 4 + pair / 4 * 2 + k % 2;
}
static_assert(lane_order(9) == 3 && lane_order(16) == 4 && lane_order(2) == 8 && lane_order(32) == 32);

// Team 0 lists the pairs; the others write the rows in lanes' order, 8 values a thread.
template <bool kInOrder>
struct ListAndStage {
  using Sort = cuda_ops::SortPairsAs<kInOrder>;
  static constexpr int kThreads = Sort::kThreads;
  Sort sort;
  bool alone;  // each pair is a group of one row
  StagedRows from;
  std::uint16_t* to;
  int rows;
  bool shared;  // rows of the shared expert follow the pairs

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int thread = static_cast<int>(threadIdx.x);
    if (team.index > 0) return stage((team.index - 1) * kThreads + thread);
    for (int r = thread; shared && r < rows; r += kThreads) sort.lists.rows[sort.pairs + r] = r;
    if (!alone) return sort(team);
    if (thread < sort.pairs) {
      sort.lists.rows[thread] = thread / sort.slots;
      sort.lists.positions[thread] = thread;
      sort.lists.weights[thread] = sort.weights[thread];
      put_group(sort.table, sort.lists, thread, sort.ids[thread], thread, 1);
    }
    if (thread == 0) *sort.lists.used = sort.pairs;
  }
  SLUICE_DEVICE std::uint32_t value(std::ptrdiff_t row, int k) const {
    const std::ptrdiff_t at = row * from.ldx;
    if (from.rounds) return rounded_to_fp8(from, at, k);
    return from.prepared ? reinterpret_cast<const std::uint16_t*>(from.x + at)[k] : to_bf16(from.x[at + k]).bits;
  }
  SLUICE_DEVICE void stage(int index) const {
    const int pieces = from.in / 8, row = index / pieces, piece = index % pieces;
    if (row >= rows) return;
    std::uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int k = piece / 8 * kCellInputs + piece % 8 / 4 * 32 + i / 2 * 16 + i % 2 * 8 + piece % 4 * 2;
      words[i] = value(row, k) | value(row, k + 1) << 16;
    }
    reinterpret_cast<uint4*>(to)[index] = {words[0], words[1], words[2], words[3]};
  }
};

// kInner: m = SwiGLU of gate and up; else y of down. kTiles: tiles of 8 rows in a group.
template <bool kInner, int kTiles>
struct StreamExperts {
  static constexpr int kThreads = kWarps * 32;
  static constexpr bool kWaits = true, kStartsNext = true;
  // Warps of a unit: one strip of down, or one each of gate and up.
  static constexpr int kUnitWarps = kInner ? 2 : 1, kUnits = kWarps / kUnitWarps;
  static constexpr int kSums = 4 * kTiles;
  static constexpr int kExchangeBytes = kInner ? kUnits * 2 * 32 * kSums * 4 : 0;

  StripLinear routed, shared;  // the shapes of the weights
  const std::byte* shared_data[2];  // gate and up, or down
  const RowGroup* groups[2];  // groups of gate and up, or of down
  const std::int32_t* used;  // the number of groups with rows
  const std::int32_t* x_rows;  // rows of pairs, then of the shared expert's rows; null: row i of x is row i
  const std::uint16_t* x;  // the rows, in lanes' order (lane_order())
  const float* weights;             // the pairs' weights
  Activation activation;
  int pairs, shared_rows;
  std::uint16_t* m;  // in lanes' order
  float* y;

  static constexpr std::size_t kSharedBytes = static_cast<std::size_t>(kWarps * kStages) * kChunkBytes + kExchangeBytes;

  struct Sums {
    float values[kTiles][4];
    SLUICE_DEVICE void clear() {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) values[n][i] = 0.0F;
      }
    }
    // Adds a segment; its sums begin anew.
    SLUICE_DEVICE void add(Sums& chain) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) values[n][i] = std::fma(chain.values[n][i], 1.0F, values[n][i]);
      }
      chain.clear();
    }
  };

  // The units of a warp: its team's part of those of the groups, then of the shared expert's.
  struct Stream {
    int first, own, shared_first, end;  // units [first, first + own), then of the shared expert from shared_first on
    int unit;  // the unit whose weights are copied next, by its number in the team
    ChunksAt chunks;                    // the chunks of that unit
    int lane, matrix;
  };

  SLUICE_DEVICE void open(Stream& s) const {
    if (s.unit >= s.end) return;
    const bool own = s.unit < s.own;
    const StripLinear& w = own ? routed : shared;
    const int at = own ? s.first + s.unit : s.shared_first + s.unit - s.own;
    const std::byte* data = shared_data[s.matrix];
    if (own) {
      data = reinterpret_cast<const std::byte*>(
          __ldcg(reinterpret_cast<const unsigned long long*>(&groups[s.matrix][at / w.strips].data)));
    }
    s.chunks.open(w, data, at % w.strips);
  }
  // Starts the next chunk.
  SLUICE_DEVICE void start(Stream& s, const std::byte* stage) const {
    if (s.unit >= s.end) return;
    s.chunks.start(stage, s.lane);
    if (s.chunks.left == 0) {
      s.unit += kUnits;
      open(s);
    }
  }

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    std::byte* const ring = team.shared + warp * kStages * kChunkBytes;
    Stream s;
    s.lane = static_cast<int>(threadIdx.x) % 32, s.matrix = warp % kUnitWarps;
    if (s.lane < kStages) init_chunk(ring + s.lane * kChunkBytes);
    fence_barriers();
    __syncwarp();
    if constexpr (kInner) cuda_ops::wait_for_kernels();
    if constexpr (kInner) cuda_ops::let_next_kernel_start();
    const auto part = [&](int units, int index) {
      return static_cast<int>(std::int64_t{units} * index / static_cast<int>(gridDim.x));
    };
    const int own_units = __ldcg(used) * routed.strips;
    const int shared_units = (shared_rows + 8 * kTiles - 1) / (8 * kTiles) * shared.strips;
    s.first = part(own_units, team.index), s.own = part(own_units, team.index + 1) - s.first;
    s.shared_first = part(shared_units, team.index);
    s.end = s.own + part(shared_units, team.index + 1) - s.shared_first;
    s.unit = warp / kUnitWarps;
    open(s);
    for (int i = 0; i < kStages; ++i) start(s, ring + i * kChunkBytes);
    if constexpr (!kInner) cuda_ops::wait_for_kernels();
    if constexpr (!kInner) cuda_ops::let_next_kernel_start();
    auto* exchange = reinterpret_cast<float*>(team.shared + kWarps * kStages * kChunkBytes);
    int stage = 0, parity = 0, turn = 0;
    for (int unit = warp / kUnitWarps; unit < s.end; unit += kUnits) {
      Sums total;
      {
        const Place at = place(s, unit);
        if (at.own) {
          run<StripKind::kMxfp4>(s, ring, routed, at.row, at.rows, stage, parity, total);
        } else {
          run<StripKind::kFp8>(s, ring, shared, at.row, at.rows, stage, parity, total);
        }
      }
      const Place at = place(s, unit);  // computed again, rather than held in registers all the time
      if constexpr (kInner) {
        put_inner(s, exchange + ((static_cast<int>(threadIdx.x) / 64 * 2 + turn) * 32 + s.lane) * 4, at, total);
        turn ^= 1;
      } else {
        put_down(s, at.row, at.rows, at.strip, total);
      }
    }
  }

  struct Place {
    bool own;
    int strip, row, rows;
  };
  SLUICE_DEVICE Place place(const Stream& s, int unit) const {
    Place of;
    of.own = unit < s.own;
    const int strips = of.own ? routed.strips : shared.strips;
    const int at = of.own ? s.first + unit : s.shared_first + unit - s.own;
    const int group = at / strips;
    of.strip = at % strips;
    of.row = pairs + group * 8 * kTiles, of.rows = min(8 * kTiles, shared_rows - group * 8 * kTiles);
    if (of.own) of.row = groups[0][group].first, of.rows = groups[0][group].rows;
    return of;
  }

  struct Inputs {
    uint4 words[kTiles][2];
  };
  template <StripKind kKind>
  SLUICE_DEVICE void run(Stream& s, const std::byte* ring, const StripLinear& w, int row, int rows, int& stage,
                         int& parity, Sums& total) const {
    constexpr int kCells = kChunkCells<kKind>;
    constexpr int kAhead = 2;  // cells of rows that are loaded ahead
    const uint4* at[kTiles];
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {  // the results of columns without a row are not stored
      const int r = 8 * n + s.lane / 4 < rows ? 8 * n + s.lane / 4 : 0;
      const std::ptrdiff_t x_row = x_rows != nullptr ? x_rows[row + r] : row + r;
      at[n] = reinterpret_cast<const uint4*>(x + x_row * w.in) + s.lane % 4;
    }
    Inputs next[kAhead];
    const auto load = [&](int cell) {  // also loads cells past the row's last, which are still inside the workspace
      Inputs& to = next[cell % kAhead];
#pragma unroll
      for (int n = 0; n < kTiles; ++n) to.words[n][0] = at[n][cell * 8], to.words[n][1] = at[n][cell * 8 + 4];
    };
#pragma unroll
    for (int i = 0; i < kAhead; ++i) load(i);
    Sums chain;
    chain.clear();
    if (kKind != StripKind::kMxfp4) total.clear();
    int left = w.segment_cells;
    for (int chunks = w.cells / kCells; chunks > 0; --chunks) {
      const std::byte* chunk = ring + stage * kChunkBytes;
      wait_for_chunk(chunk, parity);
#pragma unroll
      for (int i = 0; i < kCells; ++i) {
        Cell<kKind> cell;
        take_cell(chunk, i, s.lane, cell);
        const Inputs inputs = next[i % kAhead];
        load(i + kAhead);
        multiply(cell, inputs, chain);
        if (kKind != StripKind::kMxfp4 && --left == 0) total.add(chain), left = w.segment_cells;
      }
#pragma unroll
      for (int n = 0; n < kTiles; ++n) at[n] += 8 * kCells;
      __syncwarp();
      start(s, chunk);
      if (++stage == kStages) stage = 0, parity ^= 1;
    }
    if (kKind == StripKind::kMxfp4) total.clear();  // MXFP4 has one segment here
    if (kKind == StripKind::kMxfp4 || left != w.segment_cells) total.add(chain);
  }

  template <StripKind kKind>
  static SLUICE_DEVICE void multiply(const Cell<kKind>& cell, const Inputs& inputs, Sums& chain) {
    const auto step = [&]<int kStep>() {
      std::uint32_t a[4];
      cell.template fragment<kStep>(a);
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const uint4& b = inputs.words[n][kStep / 2];
        multiply_step(chain.values[n], a, kStep % 2 == 0 ? b.x : b.z, kStep % 2 == 0 ? b.y : b.w);
      }
    };
    step.template operator()<0>();
    step.template operator()<1>();
    step.template operator()<2>();
    step.template operator()<3>();
  }

  static SLUICE_DEVICE int row_of(int lane, int n, int i) { return 8 * n + lane % 4 * 2 + i % 2; }
  static SLUICE_DEVICE int output_of(int lane, int strip, int i) {
    return strip * kStripOutputs + lane / 4 + i / 2 * 8;
  }

  // The up warp hands its sums over. Two units share no memory, so it need not wait until they are read.
  SLUICE_DEVICE void put_inner(const Stream& s, float* exchange, const Place& at, const Sums& total) const {
    constexpr int kTileFloats = kUnits * 2 * 32 * 4;
    if (s.matrix == 1) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        *reinterpret_cast<float4*>(exchange + n * kTileFloats) = {total.values[n][0], total.values[n][1],
                                                                  total.values[n][2], total.values[n][3]};
      }
    }
    asm volatile("bar.sync %0, 64;" ::"r"(1 + static_cast<int>(threadIdx.x) / 64) : "memory");
    if (s.matrix == 1) return;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const float4 all = *reinterpret_cast<const float4*>(exchange + n * kTileFloats);
      const float up[4] = {all.x, all.y, all.z, all.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int r = row_of(s.lane, n, i);
        if (r >= at.rows) continue;
        const float value =
            activated<true>(activation, total.values[n][i], up[i], at.own ? weights[at.row + r] : 1.0F);
        m[static_cast<std::ptrdiff_t>(at.row + r) * routed.out + lane_order(output_of(s.lane, at.strip, i))] =
            to_bf16(value).bits;
      }
    }
  }
  SLUICE_DEVICE void put_down(const Stream& s, int row, int rows, int strip, const Sums& total) const {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int r = row_of(s.lane, n, i);
        if (r < rows) {
          y[static_cast<std::ptrdiff_t>(row + r) * routed.out + output_of(s.lane, strip, i)] = total.values[n][i];
        }
      }
    }
  }
};

bool whole(const LinearWeight& weight, StripKind kind) {
  if (!in_strips(weight)) return false;
  const StripLinear w(weight.view());
  return w.kind == kind && w.in % kCellInputs == 0 && w.out % kCellInputs == 0 &&
         (kind != StripKind::kFp8 || w.scale_cells == kChunkCells<StripKind::kFp8>);
}
bool whole(const ExpertWeights& expert, StripKind kind) {
  return whole(expert.gate, kind) && whole(expert.up, kind) && whole(expert.down, kind);
}

struct Memory {
  cuda_ops::PairLists lists;
  std::uint16_t *x, *m, *whole;  // whole: m of all ranks; m itself if one rank has all
  float* outputs;

  Memory(const ExpertsArgs& args, bool shared, int rows, int groups, cuda_ops::Carver& carver) {
    const auto pairs = static_cast<std::size_t>(rows) * static_cast<std::size_t>(args.slots);
    const std::size_t all = pairs + (shared ? static_cast<std::size_t>(rows) : 0);
    const auto inter = static_cast<std::size_t>(args.experts[0].gate.out());
    lists.rows = carver.take<std::int32_t>(all);
    lists.positions = carver.take<std::int32_t>(pairs);
    lists.weights = carver.take<float>(pairs);
    for (RowGroup** list : {&lists.gate, &lists.up, &lists.down}) {
      *list = carver.take<RowGroup>(static_cast<std::size_t>(groups));
    }
    lists.used = carver.take<std::int32_t>(1);
    x = carver.take<std::uint16_t>(static_cast<std::size_t>(rows) * args.hidden);
    m = whole = carver.take<std::uint16_t>(all * inter);
    const LinearWeight& down = args.experts[0].down;
    if (cuda_ops::shares_inner(args.experts[0])) {
      whole = carver.take<std::uint16_t>(all * static_cast<std::size_t>(down.in()));
    }
    outputs = carver.take<float>(all * static_cast<std::size_t>(down.out()));
  }
};

template <bool kInOrder>
void list_and_stage(const Exec& exec, const ExpertsArgs& args, int first, int rows, int group_rows, bool shared,
                    const StagedRows& from, const Memory& work) {
  const int pairs = rows * args.slots, groups = cuda_ops::groups_of(args, rows, group_rows);
  const ListAndStage<kInOrder> list{
      {cuda_ops::table_of(args), work.lists, args.expert_ids + std::ptrdiff_t{first} * args.slots,
       args.expert_weights + std::ptrdiff_t{first} * args.slots, args.slots, pairs, groups, group_rows, {}},
      pairs <= cuda_ops::kAlonePairs,
      from,
      work.x,
      rows,
      shared};
  const std::int64_t pieces = std::int64_t{rows} * args.hidden / 8;
  cuda_ops::launch(exec, 1 + (pieces + list.kThreads - 1) / list.kThreads, list, list.sort.kSharedBytes);
}

template <int kTiles>
void run(const Exec& exec, const ExpertsArgs& args, int first, int rows, const ExpertWeights* shared,
         const StagedRows& from, const float* other, const Memory& work) {
  const int pairs = rows * args.slots;
  cuda_ops::lists_in_order(exec)
      ? list_and_stage<true>(exec, args, first, rows, 8 * kTiles, shared != nullptr, from, work)
      : list_and_stage<false>(exec, args, first, rows, 8 * kTiles, shared != nullptr, from, work);

  const int teams = cuda_ops::processors(exec);
  StreamExperts<true, kTiles> inner{};
  inner.routed = StripLinear(args.experts[0].gate.view());
  inner.groups[0] = work.lists.gate, inner.groups[1] = work.lists.up;
  inner.used = work.lists.used;
  inner.x_rows = work.lists.rows;
  inner.x = work.x;
  inner.weights = work.lists.weights;
  inner.activation = args.activation;
  inner.pairs = pairs;
  inner.m = work.m;
  StreamExperts<false, kTiles> down{};
  down.routed = StripLinear(args.experts[0].down.view());
  down.groups[0] = work.lists.down;
  down.used = work.lists.used;
  down.x = work.whole;
  down.pairs = pairs;
  down.y = work.outputs;
  if (shared != nullptr) {
    inner.shared = StripLinear(shared->gate.view()), down.shared = StripLinear(shared->down.view());
    inner.shared_data[0] = shared->gate.packed(), inner.shared_data[1] = shared->up.packed();
    down.shared_data[0] = shared->down.packed();
    inner.shared_rows = down.shared_rows = rows;
  }
  cuda_ops::launch(exec, teams, inner, inner.kSharedBytes);
  gather_inner(exec, std::int64_t{pairs} + inner.shared_rows, args.experts[0], work.m, work.whole);
  if (args.experts[0].down.input_form() == InputForm::kFp8) round_rows_to_fp8(exec, pairs, down.routed.in, work.whole);
  cuda_ops::launch(exec, teams, down, down.kSharedBytes);
  if (shared != nullptr) other = work.outputs + static_cast<std::ptrdiff_t>(pairs) * down.routed.out;
  cuda_ops::combine_slots(exec, args, first, rows, work.outputs, work.lists, other);
}

}  // namespace

bool streams_experts(const ExpertsArgs& args, int rows) {
  constexpr int kInputs = kChunkCells<StripKind::kMxfp4> * kCellInputs;
  return args.slots > 0 && rows * args.slots <= 16 * static_cast<int>(args.experts.size()) &&
         whole(args.experts[0], StripKind::kMxfp4) &&
         args.hidden % kInputs == 0 && args.experts[0].down.in() % kInputs == 0;
}
bool tiles_experts(const ExpertsArgs& args, int rows) {
  if (args.slots == 0) return false;
  const ExpertWeights& expert = args.experts[0];
  if (whole(expert, StripKind::kMxfp4)) return true;
  const auto fits = [&](const LinearWeight& weight) {
    if (!in_strips(weight)) return false;
    const StripLinear w(weight.view());
    return w.kind == StripLinear(expert.gate.view()).kind && w.kind != StripKind::kMxfp4 && w.in % kCellInputs == 0 &&
           w.out % kCellInputs == 0;
  };
  // Up to kFewRows rows the kernels of few rows are as fast.
  return rows > kFewRows && in_strips(expert.gate) && fits(expert.gate) && fits(expert.up) && fits(expert.down);
}

bool streams_shared(const ExpertsArgs& args, const ExpertWeights& shared, int rows) {
  const ExpertWeights& expert = args.experts[0];
  return rows <= kSomeRows && whole(shared, StripKind::kFp8) && shared.gate.out() == expert.gate.out() &&
         shared.down.in() == expert.down.in() && shared.gate.in() == args.hidden;
}

namespace {
bool few(const ExpertsArgs& args, int rows) {
  return rows * args.slots <= 5 * static_cast<int>(args.experts.size());
}
int groups_of(const ExpertsArgs& args, int rows) {
  return cuda_ops::groups_of(args, rows, few(args, rows) ? kFewRows : kSomeRows);
}
}  // namespace

void count_stream(const ExpertsArgs& args, int rows, bool shared, cuda_ops::Carver& carver) {
  Memory(args, shared, rows, groups_of(args, rows), carver);
}

void stream_experts(const Exec& exec, const ExpertsArgs& args, int first, int rows, const ExpertWeights* shared,
                    const StagedRows& from, const float* other, cuda_ops::Carver& carver) {
  const Memory work(args, shared != nullptr, rows, groups_of(args, rows), carver);
  if (multiplies_pairs(exec, args, rows, shared)) {
    return multiply_pairs(exec, args, first, rows, shared, from, other, work.m, work.whole);
  }
  few(args, rows) ? run<1>(exec, args, first, rows, shared, from, other, work)
                  : run<2>(exec, args, first, rows, shared, from, other, work);
}

}  // namespace sluice::cuda_sm90
