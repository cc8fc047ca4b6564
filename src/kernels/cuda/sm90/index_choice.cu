// The second kernel of index_select: a cluster of teams has a row. Entries that reach a bound, which the largest scores
// of groups give, go to the first team's shared memory. That team finds the k-th best of them by the bits of score and
// entry from the top, marks those that are no worse, and lists the marks.
#include <algorithm>

#include "kernels/cuda/device.h"
#include "kernels/cuda/sm90/cluster.h"
#include "kernels/cuda/sm90/index_rows.h"
#include "kernels/cuda/sm90/sm90_ops.h"

namespace sluice::cuda_sm90 {
namespace {

using cuda_ops::Team;

constexpr unsigned kAll = 0xFFFFFFFFU;
constexpr int kChoiceThreads = 1024, kBins = 256, kDigitBits = 8, kChunk = 8 * kChoiceThreads;

struct ChoiceShared {
  std::int32_t keys[kIndexCandidates], entries[kIndexCandidates];
  std::int32_t bins[kBins], marks_before[kChoiceThreads / 32];
  std::int32_t low, high, candidates;
  std::int32_t bin, of_higher, of_bin;
  std::uint32_t marks[1];  // a bit for each entry, in as many words as needed
};
inline std::size_t choice_bytes(int most) {
  return sizeof(ChoiceShared) + static_cast<std::size_t>(most / 32) * sizeof(std::uint32_t);
}

// Scores and entries as integers: a better one has a larger integer, and no two are equal. The head of a list is those
// whose bits from `top` on are at least `prefix`.
struct Head {
  std::int32_t low;
  int entry_bits, top;
  std::uint64_t prefix;
  bool found;

  SLUICE_DEVICE std::uint64_t rank(std::int32_t key, int entry) const {
    const std::uint32_t above = static_cast<std::uint32_t>(key) - static_cast<std::uint32_t>(low);
    const std::uint32_t last = (1U << entry_bits) - 1U;
    return static_cast<std::uint64_t>(above) << entry_bits | (last - static_cast<std::uint32_t>(entry));
  }
  SLUICE_DEVICE bool holds(std::int32_t key, int entry) const { return rank(key, entry) >> top >= prefix; }
};

struct IndexChoice {
  static constexpr int kThreads = kChoiceThreads;
  static constexpr bool kWaits = true, kStartsNext = true;
  IndexLaunch launch;
  int cluster;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    auto& shared = *reinterpret_cast<ChoiceShared*>(team.shared);
    const int thread = static_cast<int>(threadIdx.x), rank = team.index % cluster;
    const int row = launch.first_row + team.index / cluster, top_k = launch.args.top_k;
    const int visible = launch.visible(span_of(row), row), first = launch.args.first_entry;
    std::int32_t* selected = launch.args.selected + static_cast<std::ptrdiff_t>(row) * top_k;
    cuda_ops::wait_for_kernels();
    cuda_ops::let_next_kernel_start();
    if (rank == 0) fill_behind(row, visible);
    if (launch.takes_all(visible)) {
      const int seen = visible > first ? visible - first : 0;
      for (int i = thread; rank == 0 && i < seen; i += kThreads) selected[i] = first + i;
      if (rank == 0 && thread == 0) launch.args.count[row] = seen;
      return;
    }
    const std::int32_t* keys = launch.order_keys + (row - launch.first_row) * launch.stride;
    const bool is_long = visible > kIndexCandidates;
    if (!is_long && rank > 0) return;
    if (rank == 0 && thread == 0) launch.args.count[row] = top_k;
    int count = visible - first;
    if (is_long) {
      gather(shared, keys, row, rank, visible);
      if (rank > 0) return;
      count = shared.candidates;
    } else {
      for (int i = thread; i < count; i += kThreads) {
        shared.keys[i] = keys[first + i];
        shared.entries[i] = first + i;
      }
    }
    for (int i = thread; i * 32 < visible; i += kThreads) shared.marks[i] = 0;
    __syncthreads();
    if (count <= kIndexCandidates) {
      mark(shared, visible, [&](const auto& body) {
        for (int i = thread; i < count; i += kThreads) body(shared.keys[i], shared.entries[i]);
      });
    } else {  // too many entries reach the bound: nearly all scores are equal, or few groups have the best ones
      mark(shared, visible, [&](const auto& body) {
        for (int i = first + thread; i < visible; i += kThreads) body(keys[i], i);
      });
    }
    list(shared, visible, selected);
  }

  // Returns the span of a row; each warp does it by itself.
  SLUICE_DEVICE RowSpan span_of(int row) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int i = 0; i < launch.spans; i += 32) {
      bool has = false;
      if (i + lane < launch.spans) {
        const RowSpan& span = launch.step.spans[static_cast<std::size_t>(i + lane)];
        has = row >= span.row_begin && row < span.row_begin + span.rows;
      }
      const unsigned lanes = __ballot_sync(kAll, has);
      if (lanes != 0) return launch.step.spans[static_cast<std::size_t>(i + __ffs(static_cast<int>(lanes)) - 1)];
    }
    return {};
  }

  SLUICE_DEVICE void fill_behind(int row, int visible) const {
    if (launch.args.scores == nullptr) return;
    float* scores = launch.args.scores + row * launch.args.scores_stride;
    for (std::int64_t i = visible + static_cast<int>(threadIdx.x); i < launch.args.scores_stride; i += kThreads) {
      scores[i] = 0.0F;
    }
  }

  // Finds the best `k` of a thread's items(body), which calls body(key, entry) for each; keys of INT32_MIN are none.
  // After the last of `digits` digits, all items of its bin are in the head.
  template <class Items>
  SLUICE_DEVICE Head head_of(ChoiceShared& shared, int k, int entry_bits, int digits, const Items& items) const {
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
    if (thread == 0) shared.low = INT32_MAX, shared.high = INT32_MIN;
    std::int32_t low = INT32_MAX, high = INT32_MIN;
    items([&](std::int32_t key, int) {
      if (key == INT32_MIN) return;
      low = min(low, key), high = max(high, key);
    });
    low = __reduce_min_sync(kAll, low), high = __reduce_max_sync(kAll, high);
    __syncthreads();
    if (lane == 0) atomicMin(&shared.low, low), atomicMax(&shared.high, high);
    __syncthreads();
    const std::uint32_t range = static_cast<std::uint32_t>(shared.high) - static_cast<std::uint32_t>(shared.low);
    Head head{shared.low, entry_bits, entry_bits + 32 - __clz(static_cast<int>(range | 1U)), 0, true};
    for (; head.top > 0 && digits > 0; --digits) {
      const int shift = max(head.top - kDigitBits, 0);
      if (thread < kBins) shared.bins[thread] = 0;
      __syncthreads();
      items([&](std::int32_t key, int entry) {
        const std::uint64_t of = head.rank(key, entry);
        if (key == INT32_MIN || of >> head.top != head.prefix) return;
        atomicAdd(&shared.bins[of >> shift & ((1U << (head.top - shift)) - 1U)], 1);
      });
      __syncthreads();
      if (thread < 32) choose_bin(shared, k, lane);
      __syncthreads();
      const int bin = shared.bin;
      if (bin < 0) {
        head.found = false;
        break;
      }
      head.prefix = head.prefix << (head.top - shift) | static_cast<std::uint64_t>(bin);
      head.top = shift;
      k -= shared.of_higher;
      if (k == shared.of_bin) break;
    }
    __syncthreads();
    return head;
  }

  // Finds the bin of the k-th item from the highest bin on, or -1, and how many are in higher bins and in it.
  static SLUICE_DEVICE void choose_bin(ChoiceShared& shared, int k, int lane) {
    constexpr int kOfLane = kBins / 32;
    const int highest = kBins - 1 - lane * kOfLane;
    int of[kOfLane], sum = 0;
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) of[i] = shared.bins[highest - i], sum += of[i];
    int before = sum;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int other = __shfl_up_sync(kAll, before, static_cast<unsigned>(distance));
      if (lane >= distance) before += other;
    }
    if (lane == 31 && before < k) shared.bin = -1;
    before -= sum;
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      if (before < k && k <= before + of[i]) shared.bin = highest - i, shared.of_higher = before, shared.of_bin = of[i];
      before += of[i];
    }
  }

  // Gathers the entries of a long row that may be among the best, in any order, in the first team's shared memory:
  // their number, and as many of them as there is room for.
  SLUICE_DEVICE void gather(ChoiceShared& shared, const std::int32_t* keys, int row, int rank, int visible) const {
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, first = launch.args.first_entry;
    const auto load = [&](int chunk, std::int32_t (&to)[8]) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int e = chunk * kChunk + (j * kThreads + thread) * 4;
        int4 four{INT32_MIN, INT32_MIN, INT32_MIN, INT32_MIN};
        if (e < visible) four = *reinterpret_cast<const int4*>(keys + e);
        to[4 * j] = four.x, to[4 * j + 1] = four.y, to[4 * j + 2] = four.z, to[4 * j + 3] = four.w;
      }
    };
    std::int32_t next[8];
    load(rank, next);
    const std::int32_t bound = bound_of(shared, row, visible);
    if (thread == 0) shared.candidates = 0;
    meet();
    ChoiceShared* leader = cluster > 1 ? of_team(&shared, 0) : &shared;
    for (int chunk = rank; chunk * kChunk < visible; chunk += cluster) {
      std::int32_t now[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) now[i] = next[i];
      load(chunk + cluster, next);
      const auto entry = [&](int i) { return chunk * kChunk + (i / 4 * kThreads + thread) * 4 + i % 4; };
      unsigned taken = 0;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (now[i] >= bound && entry(i) >= first && entry(i) < visible) taken |= 1U << i;
      }
      if (__ballot_sync(kAll, taken != 0) == 0) continue;
      const int own = __popc(taken);
      int at = own;
#pragma unroll
      for (int distance = 1; distance < 32; distance *= 2) {
        const int other = __shfl_up_sync(kAll, at, static_cast<unsigned>(distance));
        if (lane >= distance) at += other;
      }
      int base = 0;
      if (lane == 31) base = atomicAdd(&leader->candidates, at);
      at += __shfl_sync(kAll, base, 31) - own;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if ((taken >> i & 1U) == 0) continue;
        if (at < kIndexCandidates) leader->keys[at] = now[i], leader->entries[at] = entry(i);
        ++at;
      }
    }
    meet();
  }
  SLUICE_DEVICE void meet() const { cluster > 1 ? cluster_barrier() : __syncthreads(); }

  // Returns a bound that is no more than the key of the k-th best entry: that many groups have one as large. INT32_MIN:
  // nothing is known.
  SLUICE_DEVICE std::int32_t bound_of(ChoiceShared& shared, int row, int visible) const {
    constexpr int kOfThread = kMostIndexGroups / kThreads;
    const int pieces = launch.pieces(visible), groups = pieces * index_groups(pieces);
    const std::int32_t* maxima = launch.maxima + static_cast<std::ptrdiff_t>(row - launch.first_row) * kMostIndexGroups;
    std::int32_t of[kOfThread];
#pragma unroll
    for (int i = 0; i < kOfThread; ++i) {
      const int group = i * kThreads + static_cast<int>(threadIdx.x);
      of[i] = group < groups ? maxima[group] : INT32_MIN;
    }
    const Head head = head_of(shared, launch.args.top_k, 0, 3, [&](const auto& body) {
#pragma unroll
      for (int i = 0; i < kOfThread; ++i) body(of[i], 0);
    });
    if (!head.found) return INT32_MIN;
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(head.low) +
                                     static_cast<std::uint32_t>(head.prefix << head.top));
  }

  template <class Items>
  SLUICE_DEVICE void mark(ChoiceShared& shared, int visible, const Items& items) const {
    const Head head = head_of(shared, launch.args.top_k, 32 - __clz(visible - 1), 8, items);
    items([&](std::int32_t key, int entry) {
      if (head.holds(key, entry)) atomicOr(&shared.marks[entry / 32], 1U << entry % 32);
    });
    __syncthreads();
  }

  // Lists the marked entries, ascending. Each thread has some consecutive words.
  SLUICE_DEVICE void list(ChoiceShared& shared, int visible, std::int32_t* selected) const {
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, words = (visible + 31) / 32;
    const int each = (words + kThreads - 1) / kThreads, begin = min(thread * each, words), end = min(begin + each, words);
    int own = 0;
    for (int i = begin; i < end; ++i) own += __popc(shared.marks[i]);
    int at = own;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int other = __shfl_up_sync(kAll, at, static_cast<unsigned>(distance));
      if (lane >= distance) at += other;
    }
    if (lane == 31) shared.marks_before[thread / 32] = at;
    __syncthreads();
    int before = lane < thread / 32 ? shared.marks_before[lane] : 0;
    before = __reduce_add_sync(kAll, before);
    at += before - own;
    for (int i = begin; i < end; ++i) {
      for (std::uint32_t left = shared.marks[i]; left != 0; left &= left - 1) {
        selected[at++] = i * 32 + __ffs(static_cast<int>(left)) - 1;
      }
    }
  }
};

}  // namespace

bool chose_last(const Exec& exec) {
  return static_cast<const CudaDevice&>(*exec.device).last_kernel() ==
         reinterpret_cast<const void*>(cuda_ops::run_teams<IndexChoice, false>);
}

void choose_entries(const Exec& exec, const IndexLaunch& launch, int most, int cluster) {
  cuda_ops::launch(exec, std::int64_t{launch.rows} * cluster, IndexChoice{launch, cluster}, choice_bytes(most), cluster);
}

}  // namespace sluice::cuda_sm90
