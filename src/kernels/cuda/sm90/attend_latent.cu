// Attention in the order of attend_list_parts.h over latents of 512 values and 64 rotary dims. A team of four groups of
// warps has 64 queries, most often heads of one row.
//   values   two groups: weights times values, 256 dims each
//   scores   queries and keys of a block of 64, its weights, running maxima and sums
//   loads    copies rows into one of two stages, or makes bf16 of their codes: keys, which are the values as well,
//            serve both products from the same bytes
// A team with all segments merges each into the output where that lies: there is no room for it elsewhere.
// Used by attend_check.cu, attend_heads.cu, attend_list.cu and sm90_attend.cu.
#include "kernels/cuda/sm90/attend_list_parts.h"

namespace sluice::cuda_sm90 {
namespace {

using cuda_ops::Team;

constexpr int kStages = 2, kKeyTiles = 9, kValueDims = 512, kStageBytes = kKeyTiles * kTileBytes;
// Value dims of a group, and of one product; products of a group.
constexpr int kColumns = kValueDims / 2, kWide = 128, kParts = kColumns / kWide;
constexpr int kHalvesAhead = 4;  // half blocks, a row for each loading thread, that are looked up at once
constexpr int kHalfThreads = kGroupThreads / 2;

template <bool kCoded>
struct AttendLatent {
  static constexpr int kThreads = 4 * kGroupThreads;
  static constexpr bool kWaits = true;
  static constexpr int kLoaders = kCoded ? kGroupThreads : kHalfThreads;  // loading threads of a block
  ListLaunch launch;

  struct Shared {
    std::byte q[kStageBytes], keys[kStages][kStageBytes], weights[kTileBytes];
    float alpha[kTileQueries];
    std::uint32_t places[2][kCoded ? kGroupThreads : 1];  // places of the rows, if they have codes
    // Factors of the values when a segment is merged.
    float before[kTileQueries], now[kTileQueries], last[kTileQueries];
    SharedBarrier q_there, full[kStages], empty[kStages][2], weights_there, weights_taken, sums_there, sums_taken;
    ListWork work;
  };
  static_assert(sizeof(Shared) <= 232448);

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    extern __shared__ __align__(1024) std::byte memory[];
    auto& shared = *reinterpret_cast<Shared*>(memory);
    if (threadIdx.x == 0) {
      shared.q_there.init(3 * kGroupThreads);
#pragma unroll
      for (int s = 0; s < kStages; ++s) {
        shared.full[s].init(kLoaders);
        for (SharedBarrier& half : shared.empty[s]) half.init(2 * kGroupThreads);
      }
      shared.weights_there.init(kGroupThreads);
      shared.weights_taken.init(2 * kGroupThreads);
      shared.sums_there.init(kGroupThreads);
      shared.sums_taken.init(2 * kGroupThreads);
    }
    if (!take_work(launch, team.index, &shared.work)) return;
    const ListItem& item = shared.work.item;
    const int group = __shfl_sync(0xFFFFFFFFU, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
    if (group == 3) {
      leave_registers<88>();
      kCoded ? load_codes(shared, item) : load_rows(shared, item);
    } else if (group == 2) {
      leave_registers<104>();
      weigh(shared, item);
    } else {
      take_registers<160>();
      add_values(shared, item, group);
    }
  }

  static SLUICE_DEVICE int first_block(const ListItem& item) { return item.items.begin / kListBlock; }
  static SLUICE_DEVICE int blocks(const ListItem& item) {
    if (item.items.empty()) return 0;
    return (item.items.end - 1) / kListBlock + 1 - first_block(item);
  }
  // True if block n of the item is the last of its segment.
  static SLUICE_DEVICE bool ends_segment(const ListItem& item, int n) {
    const int next = (first_block(item) + n + 1) * kListBlock;
    return n + 1 == blocks(item) || next == segment_begin(segment_of(next - 1) + 1);
  }

  // Loads keys. Two warps have a stage, so that one block's copies are awaited while the other's begin. Eight threads
  // have a key's piece of 64 dims.
  SLUICE_DEVICE void load_rows(Shared& shared, const ListItem& item) const {
    const int t = static_cast<int>(threadIdx.x) % kHalfThreads, piece = t % 8;
    const int stage = static_cast<int>(threadIdx.x) % kGroupThreads / kHalfThreads;
    for (int n = stage, all = blocks(item); n < all; n += kStages) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const std::byte* from[4];
        bool there[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int at = (first_block(item) + n) * kListBlock + half * kHalfKeys + t / 8 + 8 * i;
          there[i] = at >= item.items.begin && at < item.items.end;
          from[i] = row_of_item(launch, item, there[i] ? at : item.items.begin).data + piece * 16;
        }
        if (n >= kStages) shared.empty[stage][half].wait(n / kStages - 1);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          std::byte* to = shared.keys[stage] + tile_piece(half * kHalfKeys + t / 8 + 8 * i, piece);
#pragma unroll
          for (int c = 0; c < kKeyTiles; ++c) {
            cuda_ops::copy_16_or_zeros(to + c * kTileBytes, from[i] + c * 128, there[i]);
          }
        }
      }
      cuda_ops::commit_copies();
      cuda_ops::wait_copies<0>();
      show_tensor_cores();
      shared.full[stage].arrive();
    }
  }

  // Four threads have a key: sixteen codes each of every 64, and two pieces of the rotary dims. The codes of the next
  // half block are on their way to registers.
  struct Codes {
    uint4 words[kKeyTiles + 1], scales;
  };
  SLUICE_DEVICE RowRef row_to_load(const Shared& shared, const ListItem& item, int half, bool* there) const {
    const int quad = static_cast<int>(threadIdx.x) % kGroupThreads / 4;
    const int at = first_block(item) * kListBlock + half * kHalfKeys + quad;
    *there = at >= item.items.begin && at < item.items.end;
    return row_at(launch, item, shared.places[half / kHalvesAhead % 2][half % kHalvesAhead * kHalfKeys + quad]);
  }
  // Looks up the rows of the half blocks from `half` on and asks for them.
  SLUICE_DEVICE void look_up(Shared& shared, const ListItem& item, int half) const {
    const int t = static_cast<int>(threadIdx.x) % kGroupThreads;
    const int at = first_block(item) * kListBlock + half * kHalfKeys + t;
    const std::uint32_t place = place_of_item(launch, item, min(max(at, item.items.begin), item.items.end - 1));
    shared.places[half / kHalvesAhead % 2][t] = place;
    ask_for(launch, row_at(launch, item, place));
  }
  SLUICE_DEVICE void load_codes(Shared& shared, const ListItem& item) const {
    const int t = static_cast<int>(threadIdx.x) % kGroupThreads, quad = t / 4, part = t % 4;
    const int halves = 2 * blocks(item);
    if (halves == 0) return;
    look_up(shared, item, 0);
    meet_group<1>();
    Codes codes;
    bool there = false, next_there = false;
    RowRef row = row_to_load(shared, item, 0, &there);
    const auto load = [&](int i) { return __ldcg(reinterpret_cast<const uint4*>(row.data + i * 64 + part * 16)); };
#pragma unroll
    for (int i = 0; i <= kKeyTiles; ++i) codes.words[i] = load(i);
    codes.scales = __ldcg(reinterpret_cast<const uint4*>(row.scales));
    for (int half = 0; half < halves; ++half) {
      const int n = half / 2, stage = n % kStages, key = half % 2 * kHalfKeys + quad;
      if (half % kHalvesAhead == 0) {
        meet_group<1>();  // the places before these are not read any more
        look_up(shared, item, half + kHalvesAhead);
      } else if (half % kHalvesAhead == 2) {
        meet_group<1>();
      }
      row = row_to_load(shared, item, half + 1, &next_there);
      if (n >= kStages) shared.empty[stage][half % 2].wait(n / kStages - 1);
      std::byte* to = shared.keys[stage];
      const uint4 scales = codes.scales;
      codes.scales = __ldcg(reinterpret_cast<const uint4*>(row.scales));
#pragma unroll
      for (int i = 0; i < kKeyTiles - 1; ++i) {
        const uint4 word = codes.words[i];
        codes.words[i] = load(i);
        const std::uint32_t scale = i < 2 ? scales.x : i < 4 ? scales.y : i < 6 ? scales.z : scales.w;
        const CodeFactors factors = code_factors(there ? scale : 0U);
        const uint4 none{0, 0, 0, 0};
        *reinterpret_cast<uint4*>(to + i * kTileBytes + tile_piece(key, 2 * part)) =
            there ? eight_codes({word.x, word.y}, factors) : none;
        *reinterpret_cast<uint4*>(to + i * kTileBytes + tile_piece(key, 2 * part + 1)) =
            there ? eight_codes({word.z, word.w}, factors) : none;
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint4 word = codes.words[kKeyTiles - 1 + i];
        codes.words[kKeyTiles - 1 + i] = load(kKeyTiles - 1 + i);
        *reinterpret_cast<uint4*>(to + (kKeyTiles - 1) * kTileBytes + tile_piece(key, 4 * i + part)) =
            there ? word : uint4{0, 0, 0, 0};
      }
      there = next_there;
      if (half % 2 == 0) continue;
      show_tensor_cores();
      shared.full[stage].arrive();
    }
  }

  SLUICE_DEVICE void take_queries(Shared& shared, const ListItem& item) const {
    round_queries<kKeyTiles, 3 * kGroupThreads>(launch, item, 0, static_cast<int>(threadIdx.x), shared.q);
    show_tensor_cores();
    shared.q_there.arrive();
  }

  // Computes weights; a thread has two queries, `low` and low + 8, and every fourth pair of keys.
  SLUICE_DEVICE void weigh(Shared& shared, const ListItem& item) const {
    const int t = static_cast<int>(threadIdx.x) % kGroupThreads, lane = t % 32, low = t / 32 * 16 + lane / 4;
    take_queries(shared, item);
    ItemRange seen[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int query = low + 8 * h;
      seen[h] = query < item.queries ? items_of_row(launch, item.span, item.row(launch, query)) : ItemRange{0, 0};
    }
    shared.q_there.wait(0);
    const GroupOperand q = inner_operand(shared.q);
    float m[2] = {-INFINITY, -INFINITY}, l[2] = {};
    ListTotal total[2];
    int segments = 0;
    const int all = blocks(item);
    for (int n = 0; n < all; ++n) {
      const int stage = n % kStages;
      shared.full[stage].wait(n / kStages);
      const GroupOperand keys = inner_operand(shared.keys[stage]);
      float s[32];
#pragma unroll
      for (float& value : s) value = 0.0F;
      hold(s);
      begin_products();
#pragma unroll
      for (int step = 0; step < kKeyTiles * 4; ++step) {
        const int at = step / 4 * kTileBytes + step % 4 * 32;
        multiply_bf16<false>(s, further(q, at), further(keys, at));
      }
      commit_products();
      wait_products<0>();
      hold(s);
      mask_scores(s, (first_block(item) + n) * kListBlock, seen);
      float alpha[2];
      std::uint32_t weights[2][8];
      weigh_block(s, launch.factor, m, l, alpha, weights);
      if (n > 0) shared.weights_taken.wait(n - 1);
      store_weights(shared.weights, low, weights);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if (lane % 4 == 0) shared.alpha[low + 8 * h] = alpha[h];
      }
      show_tensor_cores();
      shared.weights_there.arrive();
      if (!ends_segment(item, n)) continue;
      if (launch.segments == 0 && segments > 0) shared.sums_taken.wait(segments - 1);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int query = low + 8 * h;
        const float sum = sum_of_weights(l[h]);
        if (launch.segments == 0) total[h].merge(m[h], sum, launch.factor);
        if (lane % 4 == 0 && query < item.queries) {
          if (launch.segments > 0) {
            float* part = item.partial(launch);
            part[query] = m[h], part[kTileQueries + query] = sum;
          } else {
            shared.before[query] = total[h].before, shared.now[query] = total[h].now;
            shared.last[query] = n + 1 == all ? total[h].last_factor(launch, item.head(launch, query)) : 1.0F;
          }
        }
        m[h] = -INFINITY, l[h] = 0.0F;
      }
      shared.sums_there.arrive();
      ++segments;
    }
  }

  // Adds dims [half * kColumns, + kColumns) of the values.
  SLUICE_DEVICE void add_values(Shared& shared, const ListItem& item, int half) const {
    const int t = static_cast<int>(threadIdx.x) % kGroupThreads, low = t / 32 * 16 + t % 32 / 4;
    take_queries(shared, item);
    const GroupOperand weights = inner_operand(shared.weights);
    float v[kParts][kWide / 2];
    const int all = blocks(item);
    for (int n = 0, segment = 0; n < all; ++segment) {
#pragma unroll
      for (auto& part : v) {
#pragma unroll
        for (float& value : part) value = 0.0F;
      }
      bool last = false;
      for (; !last; ++n) {
        const int stage = n % kStages;
        shared.full[stage].wait(n / kStages);
        shared.weights_there.wait(n);
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
        for (int step = 0; step < kListBlock / 16; ++step) {
#pragma unroll
          for (int p = 0; p < kParts; ++p) {
            multiply_bf16<true>(v[p], further(weights, step * 32),
                                further(values, p * (kWide / 64) * kTileBytes + step * 16 * kTileRowBytes));
          }
          if (step % 2 == 1) commit_products();
        }
        wait_products<1>();
        shared.empty[stage][0].arrive();
        wait_products<0>();
#pragma unroll
        for (auto& part : v) hold(part);
        shared.weights_taken.arrive();
        shared.empty[stage][1].arrive();
        last = ends_segment(item, n);
      }
      leave_segment(shared, item, half, segment, v);
    }
    if (all == 0) leave_nothing(item, half);
  }

  // Stores a segment to be merged, or merges it into the output.
  SLUICE_DEVICE void leave_segment(Shared& shared, const ListItem& item, int half, int segment,
                                   const float (&v)[kParts][kWide / 2]) const {
    const int t = static_cast<int>(threadIdx.x) % kGroupThreads, low = t / 32 * 16 + t % 32 / 4;
    const int first = half * kColumns + t % 4 * 2;
    shared.sums_there.wait(segment);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int query = low + 8 * h;
      if (query >= item.queries) continue;
      if (launch.segments > 0) {
        store_values(item.partial(launch) + 2 * kTileQueries + query * kValueDims + first, v, h, 1.0F);
        continue;
      }
      const float before = shared.before[query], now = shared.now[query], last = shared.last[query];
      float* to = out_of(item, query) + first;
#pragma unroll
      for (int p = 0; p < kParts; ++p) {
#pragma unroll
        for (int i = 0; i < kWide / 8; ++i) {
          auto* at = reinterpret_cast<float2*>(to + p * kWide + i * 8);
          const float2 sum = segment == 0 ? float2{0.0F, 0.0F} : *at;
          *at = {std::fma(now, v[p][4 * i + 2 * h], before * sum.x) * last + 0.0F,
                 std::fma(now, v[p][4 * i + 2 * h + 1], before * sum.y) * last + 0.0F};
        }
      }
    }
    shared.sums_taken.arrive();
  }
  SLUICE_DEVICE void leave_nothing(const ListItem& item, int half) const {
    const int t = static_cast<int>(threadIdx.x) % kGroupThreads;
    for (int query = 0; query < item.queries; ++query) {
      *reinterpret_cast<float2*>(out_of(item, query) + half * kColumns + 2 * t) = {0.0F, 0.0F};
    }
  }
  SLUICE_DEVICE float* out_of(const ListItem& item, int query) const {
    const std::ptrdiff_t row = item.row(launch, query);
    return launch.args.out + (row * launch.args.heads + item.head(launch, query)) * kValueDims;
  }
};

}  // namespace

void attend_latent(const Exec& exec, const ListLaunch& launch, std::int64_t teams) {
  if (launch.plane.format.codec == RowCodec::kMlaFp8) {
    cuda_ops::launch(exec, teams, AttendLatent<true>{launch}, sizeof(AttendLatent<true>::Shared));
  } else {
    cuda_ops::launch(exec, teams, AttendLatent<false>{launch}, sizeof(AttendLatent<false>::Shared));
  }
}

}  // namespace sluice::cuda_sm90
