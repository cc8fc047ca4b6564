// Experts of one row, or of the few rows of a draft: two launches and nothing else. A warp has a strip of an expert, or
// of the shared one, at a time. The strip comes through a ring of its own and multiplies all pairs that have this
// expert; the rows lie in shared memory.
//
// A chain of kernels that each hand a few values to the next is bound by those steps, so as little as possible waits:
//   - each team finds by itself which pairs share an expert, and from the arguments where their weights lie;
//   - the shared expert's weights, and the second product's, are on their way into the rings before the kernel ahead
//     has ended;
//   - a team of the second product has all pairs' strips of its outputs, and adds them in the order of the slots;
//   - a strip of the shared expert, which has twice the bytes of a pair's, is two warps' work: the first adds the first
//     half of its segments, the other leaves the sums of each of the others, to be added after these.
// Used by expert_stream.cu.
#include <algorithm>

#include "base/formats/number_formats.h"
#include "kernels/cuda/shared/expert_lists.h"
#include "kernels/cuda/sm90/expert_chunks.h"
#include "kernels/cuda/sm90/pair_experts.h"

namespace sluice::cuda_sm90 {
namespace {

using cuda_ops::Team;

// There are 16 warps: for one row 6 pairs and two halves of the shared expert, twice. Each has up to kMostStages chunks
// under way. With 2 instead of 3 the second product would have room next to the first, but take longer by more than it
// gains by starting early; so 2 are used only if there is no room for more.
constexpr int kWarps = 16, kMostStages = 3;
constexpr std::size_t kMostShared = std::size_t{226} << 10;
constexpr int kMostSharedUnits = 4;  // most units of the shared expert in a team
constexpr int kMostPairs = 32, kColumns = 8;

// The weights of a product, in both products' form.
struct PairWeights {
  StripLinear routed, shared;  // the shapes of the weights
  const std::int32_t* ids;  // [pairs], the experts of the pairs
  int rows, slots, pairs;
  bool with_shared;
  int low;     // segments of the shared expert that the first of two warps has
  int stages;  // chunks of a warp on their way

  SLUICE_HD int high() const { return shared.segments - low; }
  SLUICE_HD int ring_bytes() const { return stages * kChunkBytes; }
  SLUICE_HD int rings_bytes() const { return kWarps * ring_bytes(); }
};

// Up to eight pairs that have the same expert: columns of a product. They lie after the rings.
struct Group {
  std::int32_t expert, columns;
  std::uint8_t pairs[kColumns];
};
struct Groups {
  Group all[kMostPairs];
  std::int32_t count, nothing[3];
  std::uint64_t arrived[kMostPairs + kColumns];  // barriers that say when rows have arrived
};
constexpr int kGroupsBytes = static_cast<int>(sizeof(Groups));
static_assert(kGroupsBytes % 16 == 0);

// Finds the groups; one warp does it.
SLUICE_DEVICE void find_groups(const PairWeights& of, Groups& groups) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool has = lane < of.pairs;
  const std::int32_t expert = has ? __ldcg(&of.ids[lane]) : -1;
  const unsigned same = __match_any_sync(0xFFFFFFFFU, expert), until = 0xFFFFFFFFU >> (31 - lane);
  const int place = __popc(same & until) - 1, column = place % kColumns;
  const unsigned firsts = __ballot_sync(0xFFFFFFFFU, has && column == 0);
  if (has) {
    const int first = 31 - __clz(static_cast<int>(firsts & same & until));
    Group& group = groups.all[__popc(firsts & ((1U << first) - 1))];
    group.pairs[column] = static_cast<std::uint8_t>(lane);
    if (column == 0) group.expert = expert, group.columns = min(kColumns, __popc(same) - place);
  }
  if (lane == 0) groups.count = __popc(firsts);
}

// A strip of a group's expert, or half of one of the shared expert, whose columns are the rows.
struct Unit {
  bool routed;
  int strip, group, half;
};

// The strips of a warp one after the other.
struct Stream {
  std::byte* ring;
  const Groups* groups;
  int group_count = 0;  // the number of groups; 0 until they are found
  int lane, stage = 0, parity = 0;  // the stage and parity of the chunk that is multiplied next
  int filled = 0;  // stages filled so far, while the ring is filled for the first time
  int unit;  // the unit whose weights are being copied
  ChunksAt chunks;  // the chunks of that unit that are still to be copied

  // before: the warp's first unit less the step from one of its units to the next. rows: the team's rows.
  SLUICE_DEVICE Stream(const PairWeights& of, std::byte* shared, int rows, int before) : unit(before) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    lane = static_cast<int>(threadIdx.x) % 32;
    ring = shared + warp * of.ring_bytes();
    groups = reinterpret_cast<const Groups*>(shared + of.rings_bytes());
    if (lane < of.stages) init_chunk(ring + lane * kChunkBytes);
    if (static_cast<int>(threadIdx.x) < rows) init_barrier(arrived(static_cast<int>(threadIdx.x)), 1);
    fence_barriers();
    __syncwarp();
  }
  SLUICE_DEVICE std::uint32_t arrived(int row) const { return shared_address(&groups->arrived[row]); }
  // Starts the copy of a row; thread `row` calls it.
  SLUICE_DEVICE void start_row(int row, std::byte* to, const void* from, int bytes) const {
    arrive_and_expect(arrived(row), bytes);
    bulk_copy(shared_address(to), from, bytes, arrived(row));
  }
  // Waits until the rows of all columns have arrived: those of the kernel's row_of().
  template <class Kernel>
  SLUICE_DEVICE void await_rows(const Kernel& kernel, const Unit& of) const {
    for (int c = 0; c < columns(kernel.weights, of); ++c) wait_phase(arrived(kernel.row_of(*this, of, c)), 0);
  }
  // Finds the groups; the whole team calls it.
  SLUICE_DEVICE void learn_groups(const PairWeights& of) {
    if (threadIdx.x / 32 == kWarps - 1) find_groups(of, *const_cast<Groups*>(groups));
    __syncthreads();
    group_count = groups->count;
  }
  SLUICE_DEVICE int columns(const PairWeights& weights, const Unit& of) const {
    return of.routed ? groups->all[of.group].columns : weights.rows;
  }
  // Returns a pair of a group; columns without one have the first.
  SLUICE_DEVICE int pair(const Unit& of, int column) const {
    const Group& group = groups->all[of.group];
    return group.pairs[column < group.columns ? column : 0];
  }
  SLUICE_DEVICE void open(const PairWeights& of, const Unit& next, const std::byte* data) {
    chunks.open(next.routed ? of.routed : of.shared, data, next.strip);
    if (next.routed) return;
    const int low = min(of.low * of.shared.segment_cells, of.shared.cells) / kChunkCells<StripKind::kFp8>;
    if (next.half == 0) {
      chunks.left = low;
    } else {
      chunks.skip(low);
    }
  }
  SLUICE_DEVICE void turn_ring(const PairWeights& of) {
    if (++stage == of.stages) stage = 0, parity ^= 1;
  }
  // Returns the stage whose chunk is multiplied next.
  SLUICE_DEVICE const std::byte* chunk() const { return ring + stage * kChunkBytes; }

  // Starts the next chunk of the kernel's units that are known, if there is one.
  template <class Kernel>
  SLUICE_DEVICE bool start_next(const Kernel& kernel, const std::byte* to) {
    while (chunks.left == 0) {
      if (unit + Kernel::kUnits >= kernel.end(*this)) return false;
      unit += Kernel::kUnits;
      const Unit next = kernel.unit(*this, unit);
      open(kernel.weights, next, kernel.data(*this, next));
    }
    chunks.start(to, lane);
    return true;
  }
  template <class Kernel>
  SLUICE_DEVICE void fill(const Kernel& kernel) {
    while (filled < kernel.weights.stages && start_next(kernel, ring + filled * kChunkBytes)) ++filled;
  }
};

// Multiplies a strip for a kernel, which says what its units are. x: where the lane's row of each matrix lies. After
// each chunk the next one is copied into its place in the ring. segment(): called with the sums of each segment.
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
    s.start_next(kernel, chunk);
    s.turn_ring(kernel.weights);
  }
  if (kKind == StripKind::kMxfp4 || left != segment_cells) end_segment();
}

// Adds a segment to the sum of those before it.
struct AddTo {
  float (&total)[4];
  SLUICE_DEVICE void operator()(const float (&chain)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) total[i] = std::fma(chain[i], 1.0F, total[i]);
  }
};
// Multiplies a unit of a kernel: its sums go to `total`; in a second half each segment's go to high(k, sums).
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

// Return the column, and the output, of a lane's sum.
SLUICE_DEVICE int column_of(int lane, int i) {
  return lane % 4 * 2 + i % 2;
}
SLUICE_DEVICE int output_of(int lane, int i) {
  return lane / 4 + i / 2 * 8;
}

// m = SwiGLU of gate and up. Two warps a unit: a strip of each. A team has a part of the shared expert's units, then of
// the groups'.
struct GateAndUp {
  static constexpr int kThreads = kWarps * 32, kResident = 2, kUnits = kWarps / 2;
  static constexpr bool kWaits = true, kStartsNext = true;
  // Bytes of a warp's sums, 16 bytes a lane, for the exchange. A unit of two warps has two of them. A strip of the
  // shared expert, which four warps have, has the sums of up's first half, then each segment of the second half of gate
  // and up.
  static constexpr int kSumBytes = 32 * 16, kExchangeBytes = kUnits * 2 * kSumBytes;
  static constexpr int kOfShared = 1 + kMostSegments, kOfSharedBytes = kOfShared * kSumBytes;
  const std::byte* table[2][cuda_ops::kMostExperts];
  const std::byte* of_shared[2];
  PairWeights weights;
  const float* of_pairs;  // the pairs' weights
  StagedRows from;
  bool in_place;
  Activation activation;
  std::uint16_t* m;

  static std::size_t shared_bytes(const PairWeights& of, int shared_units) {
    return static_cast<std::size_t>(of.rings_bytes() + kGroupsBytes + kExchangeBytes + of.rows * row_bytes(of) +
                                    shared_units * kOfSharedBytes);
  }
  SLUICE_HD static int row_bytes(const PairWeights& of) { return of.routed.in * 2 + 16; }

  // Halves of the shared expert's strips, then units from `first` on.
  struct Part {
    int shared_first, shared, first, end;
  };
  SLUICE_DEVICE static int begin_of(int units, unsigned team) {
    return static_cast<int>(static_cast<unsigned>(units) * team / gridDim.x);
  }
  SLUICE_DEVICE Part part(const Stream& s) const {
    const int units = s.group_count * weights.routed.strips,
              of_shared = weights.with_shared ? weights.shared.strips : 0;
    Part part;
    part.shared_first = begin_of(of_shared, blockIdx.x);
    part.shared = 2 * (begin_of(of_shared, blockIdx.x + 1) - part.shared_first);
    part.first = begin_of(units, blockIdx.x);
    part.end = part.shared + begin_of(units, blockIdx.x + 1) - part.first;
    return part;
  }
  SLUICE_DEVICE int end(const Stream& s) const { return part(s).end; }
  SLUICE_DEVICE Unit unit(const Stream& s, int index) const {
    const Part of = part(s);
    if (index < of.shared) return {false, of.shared_first + index / 2, 0, index % 2};
    const int at = of.first + index - of.shared;
    return {true, at % weights.routed.strips, at / weights.routed.strips, 0};
  }
  SLUICE_DEVICE const std::byte* data(const Stream& s, const Unit& of) const {
    const int matrix = static_cast<int>(threadIdx.x) / 32 % 2;
    return of.routed ? table[matrix][s.groups->all[of.group].expert] : of_shared[matrix];
  }

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int first = static_cast<int>(threadIdx.x) / 64;
    Stream s(weights, team.shared, weights.rows, first - kUnits);
    std::byte* const x = team.shared + weights.rings_bytes() + kGroupsBytes + kExchangeBytes;
    s.fill(*this);  // copies weights of the shared expert, which needs no groups
    cuda_ops::wait_for_kernels();
    if (in_place) start_row(s, x);
    s.learn_groups(weights);
    s.fill(*this);
    cuda_ops::let_next_kernel_start();
    if (!in_place) make_rows(x);
    auto* exchange = reinterpret_cast<float4*>(x - kExchangeBytes) + first * 64 + s.lane;
    auto* of_shared_sums = reinterpret_cast<float4*>(x + weights.rows * row_bytes(weights)) + s.lane;
    const int matrix = static_cast<int>(threadIdx.x) / 32 % 2, end = this->end(s);
    for (int index = first, turn = 0; index < end; index += kUnits, turn ^= 1) {
      const Unit of = unit(s, index);
      float4* const high = of_shared_sums + (index / 2 * kOfShared + 1 + matrix * weights.high()) * 32;
      if (in_place) s.await_rows(*this, of);
      const int row = row_of(s, of, s.lane % kColumns);
      const std::uint32_t at =
          shared_address(x) + static_cast<std::uint32_t>(row * row_bytes(weights) + s.lane / 8 * 16);
      float total[4];
      multiply_unit(*this, of, s, at, total,
                    [&](int k, const float(&chain)[4]) { high[k * 32] = {chain[0], chain[1], chain[2], chain[3]}; });
      if (of.routed) {
        put(of, s, exchange + turn * 32, total);
      } else {
        put_shared(of, index / 2, s, of_shared_sums, total);
      }
    }
  }

  SLUICE_DEVICE std::uint32_t value(const float* row, int k) const {
    if (from.rounds) return rounded_to_fp8(from, row - from.x, k);
    return from.prepared ? reinterpret_cast<const std::uint16_t*>(row)[k] : to_bf16(row[k]).bits;
  }
  // Returns where a column's values lie in shared memory.
  SLUICE_DEVICE int row_of(const Stream& s, const Unit& of, int column) const {
    return of.routed ? s.pair(of, column) / weights.slots : min(column, weights.rows - 1);
  }
  SLUICE_DEVICE void start_row(const Stream& s, std::byte* x) const {
    const int row = static_cast<int>(threadIdx.x);
    if (row < weights.rows) s.start_row(row, x + row * row_bytes(weights), from.x + row * from.ldx, from.in * 2);
  }
  SLUICE_DEVICE void make_rows(std::byte* x) const {
    for (int r = 0; r < weights.rows; ++r, x += row_bytes(weights)) {
      const float* row = from.x + r * from.ldx;
      for (int k = static_cast<int>(threadIdx.x) * 8; k < from.in; k += kThreads * 8) {
        std::uint32_t words[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) words[j] = value(row, k + 2 * j) | value(row, k + 2 * j + 1) << 16;
        *reinterpret_cast<uint4*>(x + k * 2) = {words[0], words[1], words[2], words[3]};
      }
    }
    __syncthreads();
  }

  // The up warp hands its sums over. Two units share no memory, so it need not wait until they are read.
  SLUICE_DEVICE void put(const Unit& of, const Stream& s, float4* exchange, const float (&total)[4]) const {
    const bool up = static_cast<int>(threadIdx.x) / 32 % 2 != 0;
    if (up) *exchange = {total[0], total[1], total[2], total[3]};
    asm volatile("bar.sync %0, 64;" ::"r"(1 + static_cast<int>(threadIdx.x) / 64) : "memory");
    if (up) return;
    const float4 all = *exchange;
    const float of_up[4] = {all.x, all.y, all.z, all.w};
    store(of, s, total, of_up);
  }
  // The first warp of four adds the sums that the others left. `number`: the strip's number in the team; each has a
  // place and a barrier of its own.
  SLUICE_DEVICE void put_shared(const Unit& of, int number, const Stream& s, float4* of_shared,
                                float (&total)[4]) const {
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
    store(of, s, total, of_up);
  }
  SLUICE_DEVICE void store(const Unit& of, const Stream& s, const float (&gate)[4], const float (&up)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = column_of(s.lane, i);
      if (column >= s.columns(weights, of)) continue;
      const int pair = of.routed ? s.pair(of, column) : weights.pairs + column;
      const float weight = of.routed ? of_pairs[pair] : 1.0F;
      m[static_cast<std::ptrdiff_t>(pair) * weights.routed.out + of.strip * kStripOutputs + output_of(s.lane, i)] =
          to_bf16(activated<true>(activation, gate[i], up[i], weight)).bits;
    }
  }
};

// y = the sum over slots of down m, then of the shared expert's. A team has some strips of outputs of all groups.
struct DownAndSum {
  static constexpr int kThreads = kWarps * 32, kResident = 2, kUnits = kWarps;
  static constexpr bool kWaits = true;
  const std::byte* table[cuda_ops::kMostExperts];
  const std::byte* of_shared;
  PairWeights weights;
  const std::uint16_t* m;
  const float* other;  // if not null, it is added last
  float* y;

  static std::size_t shared_bytes(const PairWeights& of, int strips) {
    return static_cast<std::size_t>(of.rings_bytes() + kGroupsBytes + m_rows(of) * row_bytes(of)) +
           static_cast<std::size_t>(strips * sums_of(of) * kStripOutputs) * sizeof(float);
  }
  SLUICE_HD static int row_bytes(const PairWeights& of) { return of.routed.in * 2 + 16; }
  SLUICE_HD static int m_rows(const PairWeights& of) { return of.pairs + (of.with_shared ? of.rows : 0); }

  // Return the numbers of sums of an output: the pairs', then for each row the shared expert's first half and each
  // segment of the second.
  SLUICE_HD static int shared_sums(const PairWeights& of) { return of.with_shared ? 1 + of.high() : 0; }
  SLUICE_HD static int sums_of(const PairWeights& of) { return of.pairs + of.rows * shared_sums(of); }

  SLUICE_DEVICE int first_strip(unsigned team) const {
    return static_cast<int>(static_cast<unsigned>(weights.routed.strips) * team / gridDim.x);
  }
  SLUICE_DEVICE int strips() const { return first_strip(blockIdx.x + 1) - first_strip(blockIdx.x); }
  // Each strip has two halves of the shared expert, then the groups.
  SLUICE_DEVICE int halves() const { return weights.with_shared ? 2 : 0; }
  SLUICE_DEVICE int end(const Stream& s) const { return strips() * (halves() + s.group_count); }
  SLUICE_DEVICE Unit unit(const Stream& s, int index) const {
    const int members = halves() + s.group_count, strip = first_strip(blockIdx.x) + index / members;
    const int member = index % members;
    return {member >= halves(), strip, member - halves(), member};
  }
  SLUICE_DEVICE const std::byte* data(const Stream& s, const Unit& of) const {
    return of.routed ? table[s.groups->all[of.group].expert] : of_shared;
  }

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int first = static_cast<int>(threadIdx.x) / 32;
    Stream s(weights, team.shared, m_rows(weights), first - kUnits);
    s.learn_groups(weights);  // the pairs' experts were known before the kernel that this one waits for
    s.fill(*this);
    cuda_ops::wait_for_kernels();
    std::byte* const x = team.shared + weights.rings_bytes() + kGroupsBytes;
    start_row(s, x);
    auto* sums = reinterpret_cast<float*>(x + m_rows(weights) * row_bytes(weights));  // [strip][sums_of()][output]
    for (int index = first; index < end(s); index += kWarps) {
      const Unit of = unit(s, index);
      s.await_rows(*this, of);
      const int row = row_of(s, of, s.lane % kColumns);
      const std::uint32_t at =
          shared_address(x) + static_cast<std::uint32_t>(row * row_bytes(weights) + s.lane / 8 * 16);
      float* const to = sums + (of.strip - first_strip(blockIdx.x)) * sums_of(weights) * kStripOutputs;
      const auto keep = [&](int k, const float(&values)[4]) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int column = column_of(s.lane, i);
          if (column >= s.columns(weights, of)) continue;
          const int sum = of.routed ? s.pair(of, column) : weights.pairs + column * shared_sums(weights) + k;
          to[sum * kStripOutputs + output_of(s.lane, i)] = values[i];
        }
      };
      float total[4];
      multiply_unit(*this, of, s, at, total, [&](int k, const float(&chain)[4]) { keep(1 + k, chain); });
      if (of.routed || of.half == 0) keep(0, total);
    }
    __syncthreads();
    const int outputs = strips() * kStripOutputs;
    for (int i = static_cast<int>(threadIdx.x); i < weights.rows * outputs; i += kThreads) {
      const int row = i / outputs, output = i % outputs;
      add_slots(sums + output / kStripOutputs * sums_of(weights) * kStripOutputs + output % kStripOutputs, row,
                first_strip(blockIdx.x) * kStripOutputs + output);
    }
  }

  SLUICE_DEVICE int row_of(const Stream& s, const Unit& of, int column) const {
    return of.routed ? s.pair(of, column) : weights.pairs + min(column, weights.rows - 1);
  }
  SLUICE_DEVICE void start_row(const Stream& s, std::byte* x) const {
    const int row = static_cast<int>(threadIdx.x);
    if (row >= m_rows(weights)) return;
    const std::uint16_t* from = m + static_cast<std::ptrdiff_t>(row) * weights.routed.in;
    s.start_row(row, x + row * row_bytes(weights), from, weights.routed.in * 2);
  }

  // sums: those of the output, kStripOutputs apart.
  SLUICE_DEVICE void add_slots(const float* sums, int row, int output) const {
    const float* of_row = sums + row * weights.slots * kStripOutputs;
    float sum = of_row[0];
    for (int slot = 1; slot < weights.slots; ++slot) sum += of_row[slot * kStripOutputs];
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(row) * weights.routed.out + output;
    if (weights.with_shared) {
      const float* of_shared_row = sums + (weights.pairs + row * shared_sums(weights)) * kStripOutputs;
      float shared = of_shared_row[0];
      for (int k = 1; k <= weights.high(); ++k) shared = std::fma(of_shared_row[k * kStripOutputs], 1.0F, shared);
      sum += shared;
    } else if (other != nullptr) {
      sum += other[at];
    }
    y[at] = sum;
  }
};

// Returns the weights of one of the products, for `rows` rows.
PairWeights weights_of(const ExpertsArgs& args, int rows, const ExpertWeights* shared,
                       LinearWeight ExpertWeights::* of) {
  PairWeights weights{};
  weights.routed = StripLinear((args.experts[0].*of).view());
  weights.rows = rows, weights.slots = args.slots, weights.pairs = rows * args.slots;
  weights.stages = kMostStages;
  if (shared == nullptr) return weights;
  weights.shared = StripLinear((shared->*of).view()), weights.with_shared = true;
  const StripLinear& w = weights.shared;
  const bool halves = w.segments % 2 == 0 && w.segment_cells % kChunkCells<StripKind::kFp8> == 0;
  weights.low = halves ? w.segments / 2 : w.segments;
  return weights;
}

// The bytes of both products, whose rings become as deep as there is room for.
struct PairBytes {
  std::size_t gate, down;
  int shared_units, teams;

  PairBytes(const Exec& exec, PairWeights& inner, PairWeights& outer) {
    teams = cuda_ops::processors(exec);
    const int strips = outer.routed.strips, down_teams = std::min(strips, teams);
    shared_units = inner.with_shared ? (inner.shared.strips + teams - 1) / teams : 0;
    const auto deepest = [](PairWeights& weights, const auto& bytes) {
      while (weights.stages > 2 && bytes() > kMostShared) --weights.stages;
      return bytes();
    };
    gate = deepest(inner, [&] { return GateAndUp::shared_bytes(inner, shared_units); });
    down = deepest(outer, [&] { return DownAndSum::shared_bytes(outer, (strips + down_teams - 1) / down_teams); });
  }
  bool fit() const { return gate <= kMostShared && down <= kMostShared && shared_units <= kMostSharedUnits; }
};

}  // namespace

bool multiplies_pairs(const Exec& exec, const ExpertsArgs& args, int rows, const ExpertWeights* shared) {
  if (rows > kColumns || rows * args.slots > kMostPairs) return false;
  PairWeights inner = weights_of(args, rows, shared, &ExpertWeights::gate);
  PairWeights outer = weights_of(args, rows, shared, &ExpertWeights::down);
  return PairBytes(exec, inner, outer).fit();
}

void multiply_pairs(const Exec& exec, const ExpertsArgs& args, int first, int rows, const ExpertWeights* shared,
                    const StagedRows& from, const float* other, std::uint16_t* m, std::uint16_t* whole) {
  const ExpertWeights& expert = args.experts[0];
  const cuda_ops::ExpertTable table = cuda_ops::table_of(args);
  GateAndUp inner{};
  DownAndSum down{};
  std::ranges::copy(table.gate, inner.table[0]), std::ranges::copy(table.up, inner.table[1]);
  std::ranges::copy(table.down, down.table);
  inner.weights = weights_of(args, rows, shared, &ExpertWeights::gate);
  down.weights = weights_of(args, rows, shared, &ExpertWeights::down);
  inner.weights.ids = down.weights.ids = args.expert_ids + std::ptrdiff_t{first} * args.slots;
  if (shared != nullptr) {
    inner.of_shared[0] = shared->gate.packed(), inner.of_shared[1] = shared->up.packed();
    down.of_shared = shared->down.packed();
  }
  const PairBytes bytes(exec, inner.weights, down.weights);
  inner.of_pairs = args.expert_weights + std::ptrdiff_t{first} * args.slots;
  inner.from = from, inner.in_place = from.in_place();
  inner.activation = args.activation;
  inner.m = m, down.m = whole;
  down.other = other;
  down.y = args.y + std::ptrdiff_t{first} * expert.down.out();
  cuda_ops::launch(exec, bytes.teams, inner, bytes.gate);
  gather_inner(exec, inner.weights.pairs + (shared != nullptr ? rows : 0), expert, m, whole);
  if (expert.down.input_form() == InputForm::kFp8) {
    round_rows_to_fp8(exec, inner.weights.pairs, down.weights.routed.in, whole);
  }
  cuda_ops::launch(exec, std::min(down.weights.routed.strips, bytes.teams), down, bytes.down);
}

}  // namespace sluice::cuda_sm90
