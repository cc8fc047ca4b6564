// Experts of one row: two launches and nothing else. A warp has a strip of a pair's expert, or of the shared
// one, at a time, which comes through a ring of its own; the rows lie in shared memory.
//
// A chain of kernels that each hand a few values to the next is bound by those steps, so as little as can be waits:
//   - which experts the pairs have is read by each team itself, and where their weights lie from the arguments;
//   - the shared expert's weights, and the second product's, are on their way into the rings before the kernel ahead
//   has
//     ended;
//   - a team of the second product has all pairs' strips of its outputs, and adds them in the order of the slots.
#include <algorithm>

#include "base/number_formats.h"
#include "kernels/cuda/shared/expert_lists.h"
#include "kernels/cuda/sm90/expert_chunks.h"
#include "kernels/cuda/sm90/pair_experts.h"

namespace sluice::cuda_sm90 {
namespace {

using cuda_ops::Team;

// Two teams a multiprocessor, the second of the next kernel. 14 warps: 6 pairs and the shared expert, twice.
constexpr int kWarps = 14, kStages = 3;
constexpr int kRingBytes = kStages * kChunkBytes, kRingsBytes = kWarps * kRingBytes;
constexpr std::size_t kMostShared = std::size_t{220} << 10;

// What both products take.
struct PairWeights {
  StripLinear routed, shared;  // their shapes
  const std::int32_t* ids;     // of pairs
  int pairs, slots, shared_rows;
};

// A strip of a pair's expert, or of the shared one.
struct Unit {
  bool routed;
  int strip, pair;
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
  }
};

// A product of the kernel's, which says what its units are (units(), unit(), data()). x: where the lane's row of each
// matrix lies. Of a chunk that was multiplied the ring takes the next.
template <StripKind kKind, class Kernel>
SLUICE_DEVICE void multiply_strip(const Kernel& kernel, const StripLinear& w, Stream& s, std::uint32_t x,
                                  float (&total)[4]) {
  float chain[4] = {};
#pragma unroll
  for (float& sum : total) sum = 0.0F;
  const auto add = [&] {
#pragma unroll
    for (int i = 0; i < 4; ++i) total[i] = std::fma(chain[i], 1.0F, total[i]), chain[i] = 0.0F;
  };
  int left = w.segment_cells;
  for (int chunks = w.cells / kChunkCells<kKind>; chunks > 0; --chunks) {
    const std::byte* chunk = s.ring + s.stage * kChunkBytes;
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
      if (kKind != StripKind::kMxfp4 && --left == 0) add(), left = w.segment_cells;
    }
    x += kChunkCells<kKind> * 128;
    __syncwarp();
    kernel.start_next(s, chunk);
    if (++s.stage == kStages) s.stage = 0, s.parity ^= 1;
  }
  if (kKind == StripKind::kMxfp4 || left != w.segment_cells) add();
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
  static constexpr int kExchangeBytes = kUnits * 2 * 32 * 16;
  const std::byte* table[2][cuda_ops::kMostExperts];
  const std::byte* of_shared[2];
  PairWeights weights;
  const float* of_pairs;  // their weights
  StagedRows from;
  bool in_place;
  int rows;
  float limit;
  std::uint16_t* m;

  static std::size_t shared_bytes(int rows, int hidden) {
    return static_cast<std::size_t>(kRingsBytes + kExchangeBytes) + static_cast<std::size_t>(rows * (hidden * 2 + 16));
  }

  struct Part {
    int first, routed, shared_first, end;  // units [first, first + routed), then of the shared expert
  };
  SLUICE_DEVICE static Part part_of(const PairWeights& of) {
    const auto begin = [](int units, unsigned team) {
      return static_cast<int>(static_cast<unsigned>(units) * team / gridDim.x);
    };
    const int units = of.pairs * of.routed.strips, shared_units = of.shared_rows > 0 ? of.shared.strips : 0;
    Part part;
    part.first = begin(units, blockIdx.x);
    part.routed = begin(units, blockIdx.x + 1) - part.first;
    part.shared_first = begin(shared_units, blockIdx.x);
    part.end = part.routed + begin(shared_units, blockIdx.x + 1) - part.shared_first;
    return part;
  }
  SLUICE_DEVICE Unit unit(const Part& part, int index) const {
    if (index >= part.routed) return {false, part.shared_first + index - part.routed, weights.pairs};
    const int at = part.first + index;
    return {true, at % weights.routed.strips, at / weights.routed.strips};
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
    copy_rows(x);
    auto* exchange = reinterpret_cast<float4*>(team.shared + kRingsBytes) + first * 64 + s.lane;
    for (int index = first, turn = 0; index < part.end; index += kUnits, turn ^= 1) {
      const Unit of = unit(part, index);
      const int row = of.routed ? of.pair / weights.slots : min(s.lane % 8, rows - 1);
      const std::uint32_t at =
          shared_address(x) + static_cast<std::uint32_t>(row * (from.in * 2 + 16) + s.lane / 8 * 16);
      float total[4];
      if (of.routed) {
        multiply_strip<StripKind::kMxfp4>(*this, weights.routed, s, at, total);
      } else {
        multiply_strip<StripKind::kFp8>(*this, weights.shared, s, at, total);
      }
      put(of, s.lane, exchange + turn * 32, total);
    }
  }

  SLUICE_DEVICE std::uint32_t value(const float* row, int k) const {
    if (from.rounds) return rounded_to_fp8(from, row - from.x, k);
    return from.prepared ? reinterpret_cast<const std::uint16_t*>(row)[k] : to_bf16(row[k]).bits;
  }
  SLUICE_DEVICE void copy_rows(std::byte* x) const {
    const int pieces = from.in / 8;
    for (int i = static_cast<int>(threadIdx.x); i < rows * pieces; i += kThreads) {
      const int row = i / pieces, k = i % pieces * 8;
      const float* at = from.x + row * from.ldx;
      std::byte* to = x + row * (from.in * 2 + 16) + k * 2;
      if (in_place) {
        cuda_ops::copy_16(to, reinterpret_cast<const std::uint16_t*>(at) + k);
        continue;
      }
      std::uint32_t words[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) words[j] = value(at, k + 2 * j) | value(at, k + 2 * j + 1) << 16;
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
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int r = row_of(lane, i);
      if (r >= (of.routed ? 1 : weights.shared_rows)) continue;
      const float weight = of.routed ? of_pairs[of.pair] : 1.0F;
      m[static_cast<std::ptrdiff_t>(of.pair + r) * weights.routed.out + of.strip * kStripOutputs + output_of(lane, i)] =
          to_bf16(cuda_ops::SwiGluValues::of(total[i], of_up[i], weight, limit)).bits;
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
  int rows, hidden;

  static std::size_t shared_bytes(int m_rows, int inter, int strips) {
    return static_cast<std::size_t>(kRingsBytes) + static_cast<std::size_t>(m_rows * (inter * 2 + 16)) +
           static_cast<std::size_t>(strips * m_rows * kStripOutputs) * sizeof(float);
  }

  SLUICE_DEVICE int members() const { return weights.pairs + (weights.shared_rows > 0 ? 1 : 0); }
  SLUICE_DEVICE int m_rows() const { return weights.pairs + weights.shared_rows; }
  SLUICE_DEVICE int first_strip(unsigned team) const {
    return static_cast<int>(static_cast<unsigned>(weights.routed.strips) * team / gridDim.x);
  }
  SLUICE_DEVICE int strips() const { return first_strip(blockIdx.x + 1) - first_strip(blockIdx.x); }

  SLUICE_DEVICE void open(Stream& s) const {
    if (s.unit >= strips() * members()) return;
    const int pair = s.unit % members();
    const Unit next{pair < weights.pairs, first_strip(blockIdx.x) + s.unit / members(), pair};
    s.open(weights, next, next.routed ? table[__ldcg(&weights.ids[pair])] : of_shared);
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
    auto* sums = reinterpret_cast<float*>(x + m_rows() * row_bytes);  // [strip][row of m][output]
    for (int unit = first; unit < strips() * members(); unit += kWarps) {
      const int pair = unit % members();
      const bool routed = pair < weights.pairs;
      const int row = pair + (routed ? 0 : min(s.lane % 8, weights.shared_rows - 1));
      const std::uint32_t at = shared_address(x) + static_cast<std::uint32_t>(row * row_bytes + s.lane / 8 * 16);
      float total[4];
      if (routed) {
        multiply_strip<StripKind::kMxfp4>(*this, weights.routed, s, at, total);
      } else {
        multiply_strip<StripKind::kFp8>(*this, weights.shared, s, at, total);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int r = row_of(s.lane, i);
        if (r >= (routed ? 1 : weights.shared_rows)) continue;
        sums[(unit / members() * m_rows() + pair + r) * kStripOutputs + output_of(s.lane, i)] = total[i];
      }
    }
    __syncthreads();
    const int outputs = strips() * kStripOutputs;
    for (int i = static_cast<int>(threadIdx.x); i < rows * outputs; i += kThreads) {
      const int row = i / outputs, output = i % outputs;
      add_slots(sums + output / kStripOutputs * m_rows() * kStripOutputs + output % kStripOutputs, row,
                first_strip(blockIdx.x) * kStripOutputs + output);
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

  // sums: of the output, [row of m], kStripOutputs apart.
  SLUICE_DEVICE void add_slots(const float* sums, int row, int output) const {
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(row) * hidden + output;
    float sum = sums[row * weights.slots * kStripOutputs];
    for (int slot = 1; slot < weights.slots; ++slot) sum += sums[(row * weights.slots + slot) * kStripOutputs];
    if (weights.shared_rows > 0) {
      sum += sums[(weights.pairs + row) * kStripOutputs];
    } else if (other != nullptr) {
      sum += other[at];
    }
    y[at] = sum;
  }
};

std::size_t down_bytes(const Exec& exec, const ExpertsArgs& args, int m_rows) {
  const int strips = args.hidden / kStripOutputs, teams = std::min(strips, cuda_ops::processors(exec));
  return DownAndSum::shared_bytes(m_rows, args.experts[0].down.in(), (strips + teams - 1) / teams);
}

}  // namespace

bool multiplies_pairs(const Exec& exec, const ExpertsArgs& args, int rows, bool shared) {
  const int pairs = rows * args.slots;
  return rows == 1 && pairs <= cuda_ops::kAlonePairs && GateAndUp::shared_bytes(rows, args.hidden) <= kMostShared &&
         down_bytes(exec, args, pairs + (shared ? rows : 0)) <= kMostShared;
}

void multiply_pairs(const Exec& exec, const ExpertsArgs& args, int first, int rows, const ExpertWeights* shared,
                    const StagedRows& from, const float* other, std::uint16_t* m) {
  const ExpertWeights& expert = args.experts[0];
  const cuda_ops::ExpertTable table = cuda_ops::table_of(args);
  PairWeights weights{};
  weights.routed = StripLinear(expert.gate.view());
  weights.ids = args.expert_ids + std::ptrdiff_t{first} * args.slots;
  weights.pairs = rows * args.slots, weights.slots = args.slots;
  GateAndUp inner{};
  std::ranges::copy(table.gate, inner.table[0]), std::ranges::copy(table.up, inner.table[1]);
  DownAndSum down{};
  std::ranges::copy(table.down, down.table);
  if (shared != nullptr) {
    weights.shared = StripLinear(shared->gate.view()), weights.shared_rows = rows;
    inner.of_shared[0] = shared->gate.packed(), inner.of_shared[1] = shared->up.packed();
    down.of_shared = shared->down.packed();
  }
  inner.weights = down.weights = weights;
  down.weights.routed = StripLinear(expert.down.view());
  if (shared != nullptr) down.weights.shared = StripLinear(shared->down.view());
  inner.of_pairs = args.expert_weights + std::ptrdiff_t{first} * args.slots;
  inner.from = from, inner.in_place = from.in_place();
  inner.rows = down.rows = rows;
  inner.limit = args.limit;
  inner.m = m, down.m = m;
  down.other = other;
  down.y = args.y + std::ptrdiff_t{first} * args.hidden;
  down.hidden = args.hidden;
  const int teams = cuda_ops::processors(exec);
  cuda_ops::launch(exec, teams, inner, GateAndUp::shared_bytes(rows, args.hidden));
  if (expert.down.input_form() == InputForm::kFp8) round_rows_to_fp8(exec, weights.pairs, weights.routed.out, m);
  cuda_ops::launch(exec, std::min(down.weights.routed.strips, teams), down,
                   down_bytes(exec, args, weights.pairs + weights.shared_rows));
}

}  // namespace sluice::cuda_sm90
