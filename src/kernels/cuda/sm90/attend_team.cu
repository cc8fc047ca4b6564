// Attention over official FP8 rows: one team of four warpgroups has a row's heads and a segment of its keys.
//   loads    copies rows of the cache through a ring and writes them as bf16 into one of two stages: keys, which are
//            the values as well, serve both products from the same bytes
//   scores   q k of a block of 64 keys, its weights, running maxima and sums
//   values   two groups: weights times values, half of the dims each
#include <algorithm>

#include "kernels/cuda/sm90/attend_rows.h"

namespace sluice::cuda_sm90 {
namespace {

using cuda_ops::Team;

constexpr int kGroupThreads = 128, kStages = 2, kHalfKeys = 32;  // keys that the loading group has at once

template <int kDims>
struct AttendTeam {
  static constexpr int kThreads = 4 * kGroupThreads;
  static constexpr bool kWaits = true;
  static constexpr int kTiles = kDims / 64, kStageBytes = kTiles * kTileBytes;
  // Copies of a half block, 64 bytes of each of its rows, go in threes. kAhead threes are on their way.
  static constexpr int kCodeCopies = (kDims - kRopeDims) / 64, kCopies = kCodeCopies + 2, kThrees = kCopies / 3;
  static constexpr int kAhead = kThrees + 1, kCopyBytes = kGroupThreads * 16;
  static_assert(kCopies % 3 == 0);
  static constexpr int kColumns = kDims / 2;                            // value dims of a group
  static constexpr int kWide = kColumns < 128 ? kColumns : 128;         // of them in a product
  static constexpr int kParts = kColumns / kWide;
  AttendLaunch launch;

  // What a team does.
  struct Item {
    RowSpan span;
    KeyList list;
    int row, first_head, heads, begin, end, blocks;  // keys [begin, end) of the list
    bool alone;                                      // the row has no other segment
    std::int64_t partial;
  };
  struct Shared {
    std::byte q[kStageBytes], keys[kStages][kStageBytes], weights[kTileBytes];
    std::byte ring[3 * kAhead * kCopyBytes];
    float alpha[kGroupHeads], inverse[kGroupHeads];
    SharedBarrier q_there, full[kStages], empty[kStages], weights_there, weights_taken, sums_there;
    Item item;
  };
  static_assert(sizeof(Shared) <= 232448);

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    auto& shared = *reinterpret_cast<Shared*>(team.shared);
    if (!begin(shared, team.index)) return;
    const int group = __shfl_sync(0xFFFFFFFFU, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
    if (group == 3) {
      leave_registers<64>();
      load_keys(shared, shared.item);
    } else if (group == 2) {
      take_registers<128>();
      load_queries(shared, shared.item);
      weigh(shared, shared.item);
    } else {
      take_registers<160>();
      load_queries(shared, shared.item);
      add_values(shared, shared.item, group);
    }
  }

  // False: the row has no such segment.
  SLUICE_DEVICE bool begin(Shared& shared, int index) const {
    const int of_row = index / launch.segments, row = launch.first_row + of_row / launch.groups;
    Item& item = shared.item;
    for (int i = static_cast<int>(threadIdx.x); i < launch.spans; i += kThreads) {
      const RowSpan span = launch.args.spans[static_cast<std::size_t>(i)];
      if (row >= span.row_begin && row < span.row_begin + span.rows) item.span = span;
    }
    if (threadIdx.x == 0) {
      shared.q_there.init(3 * kGroupThreads);
#pragma unroll
      for (int s = 0; s < kStages; ++s) {
        shared.full[s].init(kGroupThreads);
        shared.empty[s].init(2 * kGroupThreads);
      }
      shared.weights_there.init(kGroupThreads);
      shared.weights_taken.init(2 * kGroupThreads);
      shared.sums_there.init(kGroupThreads);
    }
    __syncthreads();
    cuda_ops::wait_for_kernels();
    if (threadIdx.x == 0) {
      item.list = key_list(launch, item.span, row);
      item.row = row;
      item.begin = index % launch.segments * kSegmentKeys;
      item.end = min(item.begin + kSegmentKeys, item.list.count);
      item.blocks = (item.end - item.begin + kBlockKeys - 1) / kBlockKeys;
      item.alone = item.list.count <= kSegmentKeys;
      item.first_head = of_row % launch.groups * kGroupHeads;
      item.heads = min(kGroupHeads, launch.args.heads - item.first_head);
      item.partial = index * segment_floats(kDims);
    }
    __syncthreads();
    return item.begin < item.end;
  }

  // Rounded to bf16, by three groups.
  SLUICE_DEVICE void load_queries(Shared& shared, const Item& item) const {
    constexpr int kPieces = kDims / 8, kAll = kGroupHeads * kPieces, kStep = 3 * kGroupThreads;
    const float* q = launch.args.q + (static_cast<std::ptrdiff_t>(item.row) * launch.args.heads + item.first_head) * kDims;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < kAll; i += kStep) {
      const int head = i / kPieces, piece = i % kPieces;
      uint4 words{0, 0, 0, 0};
      if (head < item.heads) {
        const auto* from = reinterpret_cast<const float4*>(q + head * kDims + piece * 8);
        const float4 a = from[0], b = from[1];
        words = {bf16_pair(a.x, a.y), bf16_pair(a.z, a.w), bf16_pair(b.x, b.y), bf16_pair(b.z, b.w)};
      }
      *reinterpret_cast<uint4*>(shared.q + piece / 8 * kTileBytes + tile_piece(head, piece % 8)) = words;
    }
    show_tensor_cores();
    shared.q_there.arrive();
  }

  // A quad of threads has a key of a half block. Of every four half blocks each of its threads looks up one row, in steps
  // so far apart that none waits for memory.
  SLUICE_DEVICE void load_keys(Shared& shared, const Item& item) const {
    const int t = static_cast<int>(threadIdx.x) % kGroupThreads, quad = t / 4, part = t % 4;
    const int left = item.end - item.begin - quad;  // keys from the quad's first on
    // Of the thread's half block of the four that begin at `half`.
    const auto index = [&](int half) { return min(item.begin + (half + part) * kHalfKeys + quad, item.end - 1); };
    const auto key = [&](int half) { return key_at(launch, item.list, item.row, index(half)); };
    const auto page = [&](int half, std::int32_t of) {
      return page_of_key(launch, item.span, index(half) < item.list.of_window, of);
    };
    const auto find = [&](int half, std::int32_t of, std::int32_t on) {
      const RowRef at = row_of_key(launch, index(half) < item.list.of_window, of, on);
      return FoundRow{at.data, __ldcg(reinterpret_cast<const uint2*>(at.scales))};
    };
    std::byte* own = shared.ring + t * 16;
    const auto start = [&](int half, const std::byte* row, int three, int slot) {
      const bool there = half * kHalfKeys < left;
#pragma unroll
      for (int i = 0; i < 3; ++i) {
        cuda_ops::copy_16_or_zeros(own + (3 * slot + i) * kCopyBytes, row + ((3 * three + i) * 4 + part) * 16, there);
      }
      cuda_ops::commit_copies();
    };
    std::int32_t key_now = key(0), key_next = key(4), page_next = 0;
    FoundRow now = find(0, key_now, page(0, key_now)), next = now;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) start(i / kThrees, now.data_of(i / kThrees), i % kThrees, i);
    int slot = 0;
    for (int half = 0; half < 2 * item.blocks; ++half) {
      const int block = half / 2, stage = block % kStages, of_four = half % 4;
      if (of_four == 0) {
        if (half > 0) now = next;
        page_next = page(half + 4, key_next);
      } else if (of_four == 1) {
        next = find(half + 3, key_next, page_next);
        key_next = key(half + 7);
      }
      const auto row = [&](int of) { return of < 4 ? now.data_of(of) : next.data_of(of - 4); };
      const uint2 scales = now.scales_of(of_four);
      const bool large = has_large_scale(scales);
      if (half % 2 == 0 && block >= kStages) shared.empty[stage].wait(block / kStages - 1);
      const int in_block = half % 2 * kHalfKeys + quad;
#pragma unroll
      for (int three = 0; three < kThrees; ++three) {
        cuda_ops::wait_copies<kAhead - 1>();
        uint4 raw[3];
#pragma unroll
        for (int i = 0; i < 3; ++i) raw[i] = *reinterpret_cast<const uint4*>(own + (3 * slot + i) * kCopyBytes);
#pragma unroll
        for (int i = 0; i < 3; ++i) {
          const int c = 3 * three + i;
          if (c < kCodeCopies) {
            const std::uint32_t scale = (c < 4 ? scales.x : scales.y) >> (8 * (c % 4)) & 0xFFU;
            std::byte* tile = shared.keys[stage] + c * kTileBytes;
            large ? store_codes<true>(tile, in_block, part, raw[i], scale)
                  : store_codes<false>(tile, in_block, part, raw[i], scale);
          } else {
            std::byte* tile = shared.keys[stage] + (kTiles - 1) * kTileBytes;
            *reinterpret_cast<uint4*>(tile + tile_piece(in_block, (c - kCodeCopies) * 4 + part)) = raw[i];
          }
        }
        const int ahead = three + kAhead;
        start(half + ahead / kThrees, row(of_four + ahead / kThrees), ahead % kThrees, slot);
        slot = slot + 1 == kAhead ? 0 : slot + 1;
      }
      if (half % 2 == 1) {
        show_tensor_cores();
        shared.full[stage].arrive();
      }
    }
    cuda_ops::wait_copies<0>();
  }

  // What a thread of a quad has looked up, for all of them.
  struct FoundRow {
    const std::byte* data;
    uint2 scales;
    SLUICE_DEVICE const std::byte* data_of(int part) const {
      return reinterpret_cast<const std::byte*>(
          __shfl_sync(0xFFFFFFFFU, reinterpret_cast<unsigned long long>(data), part, 4));
    }
    SLUICE_DEVICE uint2 scales_of(int part) const {
      return {__shfl_sync(0xFFFFFFFFU, scales.x, part, 4), __shfl_sync(0xFFFFFFFFU, scales.y, part, 4)};
    }
  };
  static SLUICE_DEVICE bool has_large_scale(const uint2& scales) {
    return (__vcmpgtu4(scales.x, kLastPlainScale * 0x01010101U) | __vcmpgtu4(scales.y, kLastPlainScale * 0x01010101U)) != 0;
  }

  // Sixteen codes of a key. kLarge: the scale may be above kLastPlainScale.
  template <bool kLarge>
  static SLUICE_DEVICE void store_codes(std::byte* tile, int key, int part, const uint4& codes, std::uint32_t scale) {
    const std::uint32_t factor = kLarge ? code_factor(scale) : (scale + 120U) * 0x00800080U;
    std::uint32_t values[8];
    codes_to_bf16(codes.x, factor, values);
    codes_to_bf16(codes.y, factor, values + 2);
    codes_to_bf16(codes.z, factor, values + 4);
    codes_to_bf16(codes.w, factor, values + 6);
    if (kLarge && scale > kLastPlainScale) {
#pragma unroll
      for (std::uint32_t& value : values) value = multiply_pairs(value, further_factor(scale));
    }
    *reinterpret_cast<uint4*>(tile + tile_piece(key, 2 * part)) = {values[0], values[1], values[2], values[3]};
    *reinterpret_cast<uint4*>(tile + tile_piece(key, 2 * part + 1)) = {values[4], values[5], values[6], values[7]};
  }

  // Scores and weights of every block; a thread has two heads, `low` and low + 8, and every fourth pair of keys.
  SLUICE_DEVICE void weigh(Shared& shared, const Item& item) const {
    const int t = static_cast<int>(threadIdx.x) % kGroupThreads, lane = t % 32, low = t / 32 * 16 + lane / 4;
    const GroupOperand q = inner_operand(shared.q);
    float m[2] = {-INFINITY, -INFINITY}, l[2] = {};
    shared.q_there.wait(0);
    for (int block = 0; block < item.blocks; ++block) {
      const int stage = block % kStages;
      shared.full[stage].wait(block / kStages);
      const GroupOperand keys = inner_operand(shared.keys[stage]);
      float s[32];
#pragma unroll
      for (float& value : s) value = 0.0F;
      hold(s);
      begin_products();
#pragma unroll
      for (int step = 0; step < kDims / 16; ++step) {
        const int at = step / 4 * kTileBytes + step % 4 * 32;
        multiply_group<false>(s, further(q, at), further(keys, at));
      }
      commit_products();
      wait_products<0>();
      hold(s);
      const int count = item.end - item.begin - block * kBlockKeys;
      if (count < kBlockKeys) {
#pragma unroll
        for (int i = 0; i < 32; ++i) {
          if (i / 4 * 8 + lane % 4 * 2 + i % 2 >= count) s[i] = -INFINITY;
        }
      }
      float alpha[2];
      std::uint32_t weights[2][8];
#pragma unroll
      for (int h = 0; h < 2; ++h) alpha[h] = weigh_block(s, h, m[h], l[h], weights[h]);
      if (block > 0) shared.weights_taken.wait(block - 1);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          *reinterpret_cast<std::uint32_t*>(shared.weights + tile_piece(low + 8 * h, i) + lane % 4 * 4) = weights[h][i];
        }
        if (lane % 4 == 0) shared.alpha[low + 8 * h] = alpha[h];
      }
      show_tensor_cores();
      shared.weights_there.arrive();
    }
    if (lane % 4 == 0) {
#pragma unroll
      for (int h = 0; h < 2; ++h) finish(shared, item, low + 8 * h, m[h], l[h]);
    }
    shared.sums_there.arrive();
  }

  // Of head h of the two: scores to rounded weights, four threads a head. Returns what earlier sums are multiplied by.
  SLUICE_DEVICE float weigh_block(const float (&s)[32], int h, float& m, float& l, std::uint32_t (&weights)[8]) const {
    float most = m;
#pragma unroll
    for (int i = 0; i < 16; ++i) most = fmaxf(most, s[i / 2 * 4 + h * 2 + i % 2]);
    most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, 1));
    most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, 2));
    const float alpha = exp2_fast((m - most) * launch.score_factor), below = -(most * launch.score_factor);
    float sum = 0.0F;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      weights[i] = bf16_pair(exp2_fast(std::fma(s[4 * i + 2 * h], launch.score_factor, below)),
                             exp2_fast(std::fma(s[4 * i + 2 * h + 1], launch.score_factor, below)));
      sum += low_of(weights[i]);
      sum += high_of(weights[i]);
    }
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 1);
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 2);
    l = std::fma(l, alpha, sum);
    m = most;
    return alpha;
  }

  SLUICE_DEVICE void finish(Shared& shared, const Item& item, int head, float m, float l) const {
    if (item.alone) {
      shared.inverse[head] = head < item.heads ? 1.0F / with_sink(launch, item.first_head + head, m, l) : 0.0F;
    } else {
      launch.partials[item.partial + head] = m;
      launch.partials[item.partial + kGroupHeads + head] = l;
    }
  }

  // Dims [half * kColumns, + kColumns) of the values.
  SLUICE_DEVICE void add_values(Shared& shared, const Item& item, int half) const {
    const int t = static_cast<int>(threadIdx.x) % kGroupThreads, lane = t % 32, low = t / 32 * 16 + lane / 4;
    const GroupOperand weights = inner_operand(shared.weights);
    float v[kParts][kWide / 2];
#pragma unroll
    for (auto& part : v) {
#pragma unroll
      for (float& value : part) value = 0.0F;
    }
    for (int block = 0; block < item.blocks; ++block) {
      const int stage = block % kStages;
      shared.full[stage].wait(block / kStages);
      shared.weights_there.wait(block);
      const float alpha[2] = {shared.alpha[low], shared.alpha[low + 8]};
      if (__any_sync(0xFFFFFFFFU, alpha[0] != 1.0F || alpha[1] != 1.0F)) {
#pragma unroll
        for (auto& part : v) {
#pragma unroll
          for (int i = 0; i < kWide / 2; ++i) part[i] *= alpha[i / 2 % 2];
        }
      }
      const GroupOperand values = outer_operand(shared.keys[stage] + half * (kColumns / 64) * kTileBytes);
#pragma unroll
      for (auto& part : v) hold(part);
      begin_products();
#pragma unroll
      for (int step = 0; step < kBlockKeys / 16; ++step) {
#pragma unroll
        for (int p = 0; p < kParts; ++p) {
          multiply_group<true>(v[p], further(weights, step * 32),
                               further(values, p * (kWide / 64) * kTileBytes + step * 16 * kTileRowBytes));
        }
      }
      commit_products();
      wait_products<0>();
#pragma unroll
      for (auto& part : v) hold(part);
      shared.weights_taken.arrive();
      shared.empty[stage].arrive();
    }
    shared.sums_there.wait(0);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int head = low + 8 * h;
      if (head >= item.heads) continue;
      const float factor = item.alone ? shared.inverse[head] : 1.0F;
      float* to = (item.alone ? out_of(launch, item.row, item.first_head + head, kDims)
                              : launch.partials + item.partial + kPartialSums + head * kDims) +
                  half * kColumns + lane % 4 * 2;
#pragma unroll
      for (int p = 0; p < kParts; ++p) {
#pragma unroll
        for (int i = 0; i < kWide / 8; ++i) {
          const float a = v[p][4 * i + 2 * h], b = v[p][4 * i + 2 * h + 1];
          *reinterpret_cast<float2*>(to + p * kWide + i * 8) = {a * factor, b * factor};
        }
      }
    }
  }
};

// Segments of a row in ascending order; a team has a head, a thread some of its dims.
struct MergeSegments {
  static constexpr int kThreads = 128;
  AttendLaunch launch;
  int dims;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int item = team.index / launch.args.heads, head = team.index % launch.args.heads;
    const int row = launch.first_row + item;
    const RowSpan span = cuda_ops::span_of_row(launch.args.spans.data(), launch.spans, row);
    const KeyList list = key_list(launch, span, row);
    if (list.count <= kSegmentKeys) return;
    const float* parts = launch.partials + (static_cast<std::int64_t>(item) * launch.groups + head / kGroupHeads) *
                                               launch.segments * segment_floats(dims);
    const int of_group = head % kGroupHeads;
    float m = parts[of_group], l = parts[kGroupHeads + of_group], v[4];
    const int t = static_cast<int>(threadIdx.x), mine = dims / kThreads;
    const auto value = [&](const float* part, int i) { return part[kPartialSums + of_group * dims + t + i * kThreads]; };
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = i < mine ? value(parts, i) : 0.0F;
    for (int s = 1; s < list.segments(); ++s) {
      const float* part = parts + s * segment_floats(dims);
      const float most = fmaxf(m, part[of_group]);
      const float a = exp2_fast((m - most) * launch.score_factor);
      const float b = exp2_fast((part[of_group] - most) * launch.score_factor);
      l = std::fma(b, part[kGroupHeads + of_group], a * l);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (i < mine) v[i] = std::fma(b, value(part, i), a * v[i]);
      }
      m = most;
    }
    const float factor = 1.0F / with_sink(launch, head, m, l);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < mine) out_of(launch, row, head, dims)[t + i * kThreads] = v[i] * factor;
    }
  }
};

}  // namespace

void attend_in_teams(const Exec& exec, const AttendLaunch& launch, int rows) {
  const std::int64_t teams = std::int64_t{rows} * launch.groups * launch.segments;
  if (launch.args.dims == 512) {
    cuda_ops::launch(exec, teams, AttendTeam<512>{launch}, sizeof(AttendTeam<512>::Shared));
  } else {
    cuda_ops::launch(exec, teams, AttendTeam<128>{launch}, sizeof(AttendTeam<128>::Shared));
  }
}

void merge_segments(const Exec& exec, const AttendLaunch& launch, int rows) {
  cuda_ops::launch(exec, std::int64_t{rows} * launch.args.heads, MergeSegments{launch, launch.args.dims});
}

}  // namespace sluice::cuda_sm90
