// Experts of one row: two launches and nothing else. A warp has a strip of a pair's expert, or of the shared
// one, at a time, which comes through a ring of its own; the rows lie in shared memory.
//
// A chain of kernels that each hand a few values to the next is bound by those steps, so as little as can be waits:
//   - which experts the pairs have is read by each team itself, and where their weights lie from the arguments;
//   - the shared expert's weights, and the second product's, are on their way into the rings before the kernel ahead
//   has
//     ended;
//   - a team of the second product has all pairs' strips of its outputs, and adds them in the order of the slots;
//   - a strip of the shared expert, which has twice the bytes of a pair's, is two warps' work: the first adds the first
//     half of its segments, the other leaves the sums of each of the others, to be added behind these.
#include <algorithm>

#include "base/number_formats.h"
#include "kernels/cuda/shared/expert_lists.h"
#include "kernels/cuda/sm90/expert_chunks.h"
#include "kernels/cuda/sm90/pair_experts.h"

namespace sluice::cuda_sm90 {
namespace {

using cuda_ops::Team;

// 16 warps: 6 pairs and two halves of the shared expert, twice. Each has so many chunks on their way: with 2 instead of
// 3 the second product, which then has room beside the first, takes longer by more than it gains by starting early.
constexpr int kWarps = 16, kStages = 3;
constexpr int kRingBytes = kStages * kChunkBytes, kRingsBytes = kWarps * kRingBytes;
constexpr std::size_t kMostShared = std::size_t{220} << 10;
constexpr int kMostSharedUnits = 4;  // of a team

// What both products take.
struct PairWeights {
  StripLinear routed, shared;  // their shapes
  const std::int32_t* ids;     // of pairs
  int pairs;
  bool with_shared;
  int low;  // segments of the shared expert that the first of two warps has

  SLUICE_DEVICE int high() const { return shared.segments - low; }
};

// A strip of a pair's expert, or half of one of the shared expert.
struct Unit {
  bool routed;
  int strip, pair, half;
};

// The strips of a warp one after the other.
struct Stream {
  std::byte* ring;
  int lane, stage = 0, parity = 0;  // of what is multiplied next
  int unit;                         // whose weights come next
  ChunksAt chunks;                  // of it

  SLUICE_DEVICE explicit Stream(std::byte* shared) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    lane = static_cast<int>(threadIdx.x) % 32;
    ring = shared + warp * kRingBytes;
    if (lane < kStages) init_chunk(ring + lane * kChunkBytes);
    fence_barriers();
    __syncwarp();
  }
  SLUICE_DEVICE void open(const PairWeights& of, const Unit& next, const std::byte* data) {
    chunks.open(next.routed ? of.routed : of.shared, data, next.strip);
    if (next.routed) return;
    const int low = of.low * of.shared.segment_cells / kChunkCells<StripKind::kFp8>;
    if (next.half == 0) {
      chunks.left = low;
    } else {
      chunks.skip(low);
    }
  }
  SLUICE_DEVICE void turn_ring() {
    if (++stage == kStages) stage = 0, parity ^= 1;
  }
  // The stage whose chunk is multiplied next.
  SLUICE_DEVICE const std::byte* chunk() const { return ring + stage * kChunkBytes; }
};

// A product of the kernel's, which says what its units are (units(), unit(), data()). x: where the lane's row of each
// matrix lies. Of a chunk that was multiplied the ring takes the next. segment(): called with the sums of each segment.
template <StripKind kKind, class Kernel, class Segment>
SLUICE_DEVICE void multiply_strip(const Kernel& kernel, int cells, int segment_cells, Stream& s, std::uint32_t x,
                                  const Segment& segment) {
  float chain[4] = {};
  const auto end_segment = [&] {
    segment(chain);
#pragma unroll
    for (float& sum : chain) sum = 0.0F;
  };
  int left = segment_cells;
  for (int chunks = cells / kChunkCells<kKind>; chunks > 0; --chunks) {
    const std::byte* chunk = s.chunk();
    wait_for_chunk(chunk, s.parity);
#pragma unroll
    for (int i = 0; i < kChunkCells<kKind>; ++i) {
      Cell<kKind> cell;
      take_cell(chunk, i, s.lane, cell);
      std::uint32_t b[2 * kCellSteps];
      load_matrices(x + static_cast<std::uint32_t>(i * 128), b);
      load_matrices(x + static_cast<std::uint32_t>(i * 128 + 64), b + 4);
      const auto step = [&]<int kStep>() {
        std::uint32_t a[4];
        cell.template fragment<kStep>(a);
        multiply_step(chain, a, b[2 * kStep], b[2 * kStep + 1]);
      };
      step.template operator()<0>();
      step.template operator()<1>();
      step.template operator()<2>();
      step.template operator()<3>();
      if (kKind != StripKind::kMxfp4 && --left == 0) end_segment(), left = segment_cells;
    }
    x += kChunkCells<kKind> * 128;
    __syncwarp();
    kernel.start_next(s, chunk);
    s.turn_ring();
  }
  if (kKind == StripKind::kMxfp4 || left != segment_cells) end_segment();
}

// Adds a segment to what those before it gave.
struct AddTo {
  float (&total)[4];
  SLUICE_DEVICE void operator()(const float (&chain)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) total[i] = std::fma(chain[i], 1.0F, total[i]);
  }
};
// A unit of a kernel that multiplies: sums of it, or of a second half each segment's to high(k, sums).
template <class Kernel, class High>
SLUICE_DEVICE void multiply_unit(const Kernel& kernel, const Unit& of, Stream& s, std::uint32_t x, float (&total)[4],
                                 const High& high) {
  const PairWeights& w = kernel.weights;
#pragma unroll
  for (float& sum : total) sum = 0.0F;
  if (of.routed) {
    return multiply_strip<StripKind::kMxfp4>(kernel, w.routed.cells, w.routed.segment_cells, s, x, AddTo{total});
  }
  const int low = min(w.low * w.shared.segment_cells, w.shared.cells), each = w.shared.segment_cells;
  if (of.half == 0) return multiply_strip<StripKind::kFp8>(kernel, low, each, s, x, AddTo{total});
  int k = 0;
  multiply_strip<StripKind::kFp8>(kernel, w.shared.cells - low, each, s, x + static_cast<std::uint32_t>(low * 128),
                                  [&](const float(&chain)[4]) { high(k++, chain); });
}

SLUICE_DEVICE int row_of(int lane, int i) {
  return lane % 4 * 2 + i % 2;
}
SLUICE_DEVICE int output_of(int lane, int i) {
  return lane / 4 + i / 2 * 8;
}

// m = SwiGLU of gate and up. Two warps a unit: a strip of each. A team has a part of the pairs' units, then of the
// shared expert's.
struct GateAndUp {
  static constexpr int kThreads = kWarps * 32, kResident = 2, kUnits = kWarps / 2;
  static constexpr bool kWaits = true, kStartsNext = true;
  // Of a warp, 16 bytes a lane: of each unit of two warps, twice; of a strip of the shared expert, which four have, the
  // sums of up's first half, then each segment of the second half of gate and up.
  static constexpr int kSumBytes = 32 * 16, kExchangeBytes = kUnits * 2 * kSumBytes;
  static constexpr int kOfShared = 1 + kMostSegments, kOfSharedBytes = kOfShared * kSumBytes;
  const std::byte* table[2][cuda_ops::kMostExperts];
  const std::byte* of_shared[2];
  PairWeights weights;
  const float* of_pairs;  // their weights
  StagedRows from;
  bool in_place;
  float limit;
  std::uint16_t* m;

  static std::size_t shared_bytes(int hidden, int shared_units) {
    return static_cast<std::size_t>(kRingsBytes + kExchangeBytes + hidden * 2 + 16 + shared_units * kOfSharedBytes);
  }

  struct Part {
    int first, routed, shared_first, end;  // units [first, first + routed), then halves of the shared expert's
  };
  SLUICE_DEVICE static Part part_of(const PairWeights& of) {
    const auto begin = [](int units, unsigned team) {
      return static_cast<int>(static_cast<unsigned>(units) * team / gridDim.x);
    };
    const int units = of.pairs * of.routed.strips, shared_units = of.with_shared ? of.shared.strips : 0;
    Part part;
    part.first = begin(units, blockIdx.x);
    part.routed = begin(units, blockIdx.x + 1) - part.first;
    part.shared_first = begin(shared_units, blockIdx.x);
    part.end = part.routed + 2 * (begin(shared_units, blockIdx.x + 1) - part.shared_first);
    return part;
  }
  SLUICE_DEVICE Unit unit(const Part& part, int index) const {
    const int of_shared = index - part.routed;
    if (of_shared >= 0) return {false, part.shared_first + of_shared / 2, weights.pairs, of_shared % 2};
    const int at = part.first + index;
    return {true, at % weights.routed.strips, at / weights.routed.strips, 0};
  }
  SLUICE_DEVICE void open(Stream& s) const {
    const Part part = part_of(weights);
    if (s.unit >= part.end) return;
    const int matrix = static_cast<int>(threadIdx.x) / 32 % 2;
    const Unit next = unit(part, s.unit);
    s.open(weights, next, next.routed ? table[matrix][__ldcg(&weights.ids[next.pair])] : of_shared[matrix]);
  }
  SLUICE_DEVICE void start_next(Stream& s, const std::byte* to) const {
    if (s.chunks.left == 0) return;
    s.chunks.start(to, s.lane);
    if (s.chunks.left == 0) s.unit += kUnits, open(s);
  }
  SLUICE_DEVICE void fill(Stream& s) const {
    open(s);
    for (int i = 0; i < kStages; ++i) start_next(s, s.ring + i * kChunkBytes);
  }

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    Stream s(team.shared);
    const int first = static_cast<int>(threadIdx.x) / 64;
    s.unit = first;
    const Part part = part_of(weights);
    if (first >= part.routed) fill(s);
    cuda_ops::wait_for_kernels();
    if (first < part.routed) fill(s);
    cuda_ops::let_next_kernel_start();
    std::byte* const x = team.shared + kRingsBytes + kExchangeBytes;
    copy_row(x);
    auto* exchange = reinterpret_cast<float4*>(team.shared + kRingsBytes) + first * 64 + s.lane;
    auto* of_shared = reinterpret_cast<float4*>(x + from.in * 2 + 16) + s.lane;
    const std::uint32_t at = shared_address(x) + static_cast<std::uint32_t>(s.lane / 8 * 16);
    const int matrix = static_cast<int>(threadIdx.x) / 32 % 2;
    for (int index = first, turn = 0; index < part.end; index += kUnits, turn ^= 1) {
      const Unit of = unit(part, index);
      float4* const high = of_shared + ((index - part.routed) / 2 * kOfShared + 1 + matrix * weights.high()) * 32;
      float total[4];
      multiply_unit(*this, of, s, at, total,
                    [&](int k, const float(&chain)[4]) { high[k * 32] = {chain[0], chain[1], chain[2], chain[3]}; });
      if (of.routed) {
        put(of, s.lane, exchange + turn * 32, total);
      } else {
        put_shared(of, (index - part.routed) / 2, s.lane, of_shared, total);
      }
    }
  }

  SLUICE_DEVICE std::uint32_t value(const float* row, int k) const {
    if (from.rounds) return rounded_to_fp8(from, row - from.x, k);
    return from.prepared ? reinterpret_cast<const std::uint16_t*>(row)[k] : to_bf16(row[k]).bits;
  }
  SLUICE_DEVICE void copy_row(std::byte* x) const {
    for (int k = static_cast<int>(threadIdx.x) * 8; k < from.in; k += kThreads * 8) {
      std::byte* to = x + k * 2;
      if (in_place) {
        cuda_ops::copy_16(to, reinterpret_cast<const std::uint16_t*>(from.x) + k);
        continue;
      }
      std::uint32_t words[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) words[j] = value(from.x, k + 2 * j) | value(from.x, k + 2 * j + 1) << 16;
      *reinterpret_cast<uint4*>(to) = {words[0], words[1], words[2], words[3]};
    }
    cuda_ops::commit_copies();
    cuda_ops::wait_copies<0>();
    __syncthreads();
  }

  // The up warp hands its sums over; two units share no memory, so that it need not wait until they are read.
  SLUICE_DEVICE void put(const Unit& of, int lane, float4* exchange, const float (&total)[4]) const {
    const bool up = static_cast<int>(threadIdx.x) / 32 % 2 != 0;
    if (up) *exchange = {total[0], total[1], total[2], total[3]};
    asm volatile("bar.sync %0, 64;" ::"r"(1 + static_cast<int>(threadIdx.x) / 64) : "memory");
    if (up) return;
    const float4 all = *exchange;
    const float of_up[4] = {all.x, all.y, all.z, all.w};
    store(of, lane, total, of_up, of_pairs[of.pair]);
  }
  // The first warp of four adds what the others left. `number`: of the strip among the team's, each of which has a
  // place and a barrier of its own.
  SLUICE_DEVICE void put_shared(const Unit& of, int number, int lane, float4* of_shared, float (&total)[4]) const {
    static_assert(1 + kUnits + kMostSharedUnits <= 16);
    const bool up = static_cast<int>(threadIdx.x) / 32 % 2 != 0;
    float4* const at = of_shared + number * kOfShared * 32;
    if (up && of.half == 0) *at = {total[0], total[1], total[2], total[3]};
    asm volatile("bar.sync %0, 128;" ::"r"(1 + kUnits + number) : "memory");
    if (up || of.half != 0) return;
    const auto add = [&](float(&to)[4], int k) {
      const float4 sums = at[k * 32];
      const float chain[4] = {sums.x, sums.y, sums.z, sums.w};
      AddTo{to}(chain);
    };
    float of_up[4] = {at->x, at->y, at->z, at->w};
    for (int k = 0; k < weights.high(); ++k) add(total, 1 + k), add(of_up, 1 + weights.high() + k);
    store(of, lane, total, of_up, 1.0F);
  }
  SLUICE_DEVICE void store(const Unit& of, int lane, const float (&gate)[4], const float (&up)[4], float weight) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (row_of(lane, i) != 0) continue;
      m[static_cast<std::ptrdiff_t>(of.pair) * weights.routed.out + of.strip * kStripOutputs + output_of(lane, i)] =
          to_bf16(cuda_ops::SwiGluValues::of(gate[i], up[i], weight, limit)).bits;
    }
  }
};

// y = the sum over slots of down m, then of the shared expert's. A team has some strips of outputs of all pairs.
struct DownAndSum {
  static constexpr int kThreads = kWarps * 32, kResident = 2;
  static constexpr bool kWaits = true;
  const std::byte* table[cuda_ops::kMostExperts];
  const std::byte* of_shared;
  PairWeights weights;
  const std::uint16_t* m;
  const float* other;  // not null: added last
  float* y;

  static std::size_t shared_bytes(const PairWeights& of, int strips) {
    const int rows = of.pairs + (of.with_shared ? 1 : 0);
    return static_cast<std::size_t>(kRingsBytes + rows * (of.routed.in * 2 + 16)) +
           static_cast<std::size_t>(strips * sums_of(of) * kStripOutputs) * sizeof(float);
  }

  // Of an output: the pairs', then the shared expert's first half and each segment of the second.
  SLUICE_HD static int sums_of(const PairWeights& of) {
    return of.pairs + (of.with_shared ? 1 + of.shared.segments - of.low : 0);
  }
  // Of a strip: the pairs, and the shared expert's halves; behind one that is not there a warp would start no copy.
  SLUICE_DEVICE int members() const {
    return weights.pairs + (weights.with_shared ? (weights.high() > 0 ? 2 : 1) : 0);
  }
  SLUICE_DEVICE int m_rows() const { return weights.pairs + (weights.with_shared ? 1 : 0); }
  SLUICE_DEVICE int first_strip(unsigned team) const {
    return static_cast<int>(static_cast<unsigned>(weights.routed.strips) * team / gridDim.x);
  }
  SLUICE_DEVICE int strips() const { return first_strip(blockIdx.x + 1) - first_strip(blockIdx.x); }
  SLUICE_DEVICE Unit unit(int index) const {
    const int member = index % members(), pair = min(member, weights.pairs);
    return {pair < weights.pairs, first_strip(blockIdx.x) + index / members(), pair, member - pair};
  }

  SLUICE_DEVICE void open(Stream& s) const {
    if (s.unit >= strips() * members()) return;
    const Unit next = unit(s.unit);
    s.open(weights, next, next.routed ? table[__ldcg(&weights.ids[next.pair])] : of_shared);
  }
  SLUICE_DEVICE void start_next(Stream& s, const std::byte* to) const {
    if (s.chunks.left == 0) return;
    s.chunks.start(to, s.lane);
    if (s.chunks.left == 0) s.unit += kWarps, open(s);
  }

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    Stream s(team.shared);
    const int first = static_cast<int>(threadIdx.x) / 32, row_bytes = weights.routed.in * 2 + 16;
    s.unit = first;
    open(s);  // the pairs' experts were known before the kernel that this one waits for
    for (int i = 0; i < kStages; ++i) start_next(s, s.ring + i * kChunkBytes);
    cuda_ops::wait_for_kernels();
    std::byte* const x = team.shared + kRingsBytes;
    copy_rows(x, row_bytes);
    auto* sums = reinterpret_cast<float*>(x + m_rows() * row_bytes);  // [strip][sums_of()][output]
    for (int index = first; index < strips() * members(); index += kWarps) {
      const Unit of = unit(index);
      const std::uint32_t at = shared_address(x) + static_cast<std::uint32_t>(of.pair * row_bytes + s.lane / 8 * 16);
      float* const to = sums + (index / members() * sums_of(weights) + of.pair) * kStripOutputs;
      const auto keep = [&](int k, const float(&values)[4]) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (row_of(s.lane, i) == 0) to[k * kStripOutputs + output_of(s.lane, i)] = values[i];
        }
      };
      float total[4];
      multiply_unit(*this, of, s, at, total, [&](int k, const float(&chain)[4]) { keep(1 + k, chain); });
      if (of.half == 0) keep(0, total);
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < strips() * kStripOutputs; i += kThreads) {
      add_slots(sums + i / kStripOutputs * sums_of(weights) * kStripOutputs + i % kStripOutputs,
                first_strip(blockIdx.x) * kStripOutputs + i);
    }
  }

  SLUICE_DEVICE void copy_rows(std::byte* x, int row_bytes) const {
    const int pieces = weights.routed.in / 8;
    for (int i = static_cast<int>(threadIdx.x); i < m_rows() * pieces; i += kThreads) {
      cuda_ops::copy_16(x + i / pieces * row_bytes + i % pieces * 16, m + static_cast<std::ptrdiff_t>(i) * 8);
    }
    cuda_ops::commit_copies();
    cuda_ops::wait_copies<0>();
    __syncthreads();
  }

  // sums: of the output, kStripOutputs apart.
  SLUICE_DEVICE void add_slots(const float* sums, int output) const {
    float sum = sums[0];
    for (int slot = 1; slot < weights.pairs; ++slot) sum += sums[slot * kStripOutputs];
    if (weights.with_shared) {
      float shared = sums[weights.pairs * kStripOutputs];
      for (int k = 1; k <= weights.high(); ++k) {
        shared = std::fma(sums[(weights.pairs + k) * kStripOutputs], 1.0F, shared);
      }
      sum += shared;
    } else if (other != nullptr) {
      sum += other[output];
    }
    y[output] = sum;
  }
};

// Weights of both products, of so many pairs.
PairWeights weights_of(const ExpertsArgs& args, int pairs, const ExpertWeights* shared,
                       LinearWeight ExpertWeights::* of) {
  PairWeights weights{};
  weights.routed = StripLinear((args.experts[0].*of).view());
  weights.pairs = pairs;
  if (shared == nullptr) return weights;
  weights.shared = StripLinear((shared->*of).view()), weights.with_shared = true;
  const StripLinear& w = weights.shared;
  const bool halves = w.segments % 2 == 0 && w.segment_cells % kChunkCells<StripKind::kFp8> == 0;
  weights.low = halves ? w.segments / 2 : w.segments;
  return weights;
}

struct PairBytes {
  std::size_t gate, down;
  int shared_units, teams;

  PairBytes(const Exec& exec, const PairWeights& inner, const PairWeights& outer) {
    teams = cuda_ops::processors(exec);
    const int strips = outer.routed.strips, down_teams = std::min(strips, teams);
    shared_units = inner.with_shared ? (inner.shared.strips + teams - 1) / teams : 0;
    gate = GateAndUp::shared_bytes(inner.routed.in, shared_units);
    down = DownAndSum::shared_bytes(outer, (strips + down_teams - 1) / down_teams);
  }
};

}  // namespace

bool multiplies_pairs(const Exec& exec, const ExpertsArgs& args, int rows, const ExpertWeights* shared) {
  if (rows != 1 || args.slots > cuda_ops::kAlonePairs) return false;
  const PairBytes bytes(exec, weights_of(args, args.slots, shared, &ExpertWeights::gate),
                        weights_of(args, args.slots, shared, &ExpertWeights::down));
  return bytes.gate <= kMostShared && bytes.down <= kMostShared && bytes.shared_units <= kMostSharedUnits;
}

void multiply_pairs(const Exec& exec, const ExpertsArgs& args, int first, const ExpertWeights* shared,
                    const StagedRows& from, const float* other, std::uint16_t* m) {
  const ExpertWeights& expert = args.experts[0];
  const cuda_ops::ExpertTable table = cuda_ops::table_of(args);
  GateAndUp inner{};
  DownAndSum down{};
  std::ranges::copy(table.gate, inner.table[0]), std::ranges::copy(table.up, inner.table[1]);
  std::ranges::copy(table.down, down.table);
  inner.weights = weights_of(args, args.slots, shared, &ExpertWeights::gate);
  down.weights = weights_of(args, args.slots, shared, &ExpertWeights::down);
  inner.weights.ids = down.weights.ids = args.expert_ids + std::ptrdiff_t{first} * args.slots;
  if (shared != nullptr) {
    inner.of_shared[0] = shared->gate.packed(), inner.of_shared[1] = shared->up.packed();
    down.of_shared = shared->down.packed();
  }
  const PairBytes bytes(exec, inner.weights, down.weights);
  inner.of_pairs = args.expert_weights + std::ptrdiff_t{first} * args.slots;
  inner.from = from, inner.in_place = from.in_place();
  inner.limit = args.limit;
  inner.m = m, down.m = m;
  down.other = other;
  down.y = args.y + std::ptrdiff_t{first} * args.hidden;
  cuda_ops::launch(exec, bytes.teams, inner, bytes.gate);
  if (expert.down.input_form() == InputForm::kFp8) {
    round_rows_to_fp8(exec, inner.weights.pairs, inner.weights.routed.out, m);
  }
  cuda_ops::launch(exec, std::min(down.weights.routed.strips, bytes.teams), down, bytes.down);
}

}  // namespace sluice::cuda_sm90
