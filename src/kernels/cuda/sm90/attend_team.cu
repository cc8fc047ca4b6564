// Attention over official FP8 rows: one team of four warpgroups has a row's heads and a segment of its keys.
//   loads    looks up rows of the cache, copies them through a ring and writes them as f16 into one of two stages:
//   keys,
//            which are the values as well, serve both products from the same bytes
//   scores   q k of a block of 64 keys, its weights, running maxima and sums; some of the queries are kept in registers
//   values   two groups: weights times values, half of the dims each
// Where there are fewer teams than processors a cluster has a row instead (attend_cluster.cu), with the same bits.
#include "kernels/cuda/sm90/attend_parts.h"

namespace sluice::cuda_sm90 {
namespace {

using cuda_ops::Team;

constexpr int kStages = 2, kExponents = 4;  // blocks whose exponents are kept
constexpr int kLoaders = 1;                 // the barrier of the loading group

template <int kDims>
struct AttendTeam {
  static constexpr int kThreads = 4 * kGroupThreads;
  static constexpr bool kWaits = true;
  using Codes = AttendCodes<kDims>;
  static constexpr int kTiles = Codes::kTiles, kStageBytes = kTiles * kTileBytes;
  static constexpr int kHeldTiles = kTiles > 3 ? 3 : 1;  // of the queries, in registers of the group of scores
  // Copies of a half block go in threes. kAhead threes are on their way.
  static constexpr int kCodeCopies = Codes::kCodeCopies, kThrees = Codes::kCopies / 3;
  static constexpr int kAhead = kThrees == 1 ? 4 : 7;
  static_assert(Codes::kCopies % 3 == 0);
  static constexpr int kColumns = kDims / 2;                     // value dims of a group
  static constexpr int kWide = kColumns < 128 ? kColumns : 128;  // of them in a product
  static constexpr int kParts = kColumns / kWide;
  AttendLaunch launch;

  struct Shared {
    std::byte q[kStageBytes - kHeldTiles * kTileBytes], keys[kStages][kStageBytes], weights[kTileBytes];
    std::byte ring[3 * kAhead * kCopyBytes];
    std::int32_t rows[kSegmentKeys];  // find_rows()
    float query_powers[kGroupHeads], alpha[kGroupHeads], factors[kGroupHeads];
    int exponents[kExponents], largest[4];  // E of blocks; the largest scale that a warp has
    SharedBarrier q_there, q_taken, full[kStages], empty[kStages][2], weights_there, weights_taken, sums_there;
    RowSpan span;
    AttendItem item;  // once queries are there
  };
  static_assert(sizeof(Shared) <= 232448);
  // Queries on their way to registers lie where the second block will.
  static SLUICE_DEVICE std::byte* query_tile(Shared& shared, int tile) {
    return tile < kHeldTiles ? shared.keys[1] + tile * kTileBytes : shared.q + (tile - kHeldTiles) * kTileBytes;
  }

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    extern __shared__ __align__(1024) std::byte memory[];  // team.shared, at an address that the compiler knows
    auto& shared = *reinterpret_cast<Shared*>(memory);
    const AttendItem place = place_of(launch, team.index);
    begin(shared, place.row);
    const AttendItem item = with_keys(launch, shared.span, place);
    if (launch.segments > 1 && item.begin >= item.end) return;  // no such segment
    const int group = __shfl_sync(0xFFFFFFFFU, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
    if (group == 3) {
      leave_registers<72>();
      load_keys(shared, item);
    } else if (group == 2) {
      leave_registers<120>();
      take_queries(shared, item);
      weigh(shared, item.keys());
    } else {
      take_registers<160>();
      if (threadIdx.x == 0) shared.item = item;
      take_queries(shared, item);
      add_values(shared, item.blocks(), group);
    }
  }

  SLUICE_DEVICE void begin(Shared& shared, int row) const {
    find_span(launch, row, &shared.span);
    if (threadIdx.x == 0) {
      shared.q_there.init(3 * kGroupThreads);
      shared.q_taken.init(kGroupThreads);
#pragma unroll
      for (int s = 0; s < kStages; ++s) {
        shared.full[s].init(kGroupThreads);
        for (SharedBarrier& half : shared.empty[s]) half.init(2 * kGroupThreads);
      }
      shared.weights_there.init(kGroupThreads);
      shared.weights_taken.init(2 * kGroupThreads);
      shared.sums_there.init(kGroupThreads);
    }
    __syncthreads();
    cuda_ops::wait_for_kernels();
  }

  SLUICE_DEVICE void take_queries(Shared& shared, const AttendItem& item) const {
    load_queries<kDims, 12, 3>(launch, item, shared.query_powers, [&](int tile) { return query_tile(shared, tile); });
    show_tensor_cores();
    shared.q_there.arrive();
  }

  // Threads read what they copied themselves.
  SLUICE_DEVICE void load_keys(Shared& shared, const AttendItem& item) const {
    const int t = static_cast<int>(threadIdx.x) % kGroupThreads, quad = t / 4, part = t % 4;
    std::int32_t first[1];
    const auto first_keys = [](int i) { return i; };
    find_keys(launch, item, first, first_keys);
    find_rows(launch, shared.span, item, first, shared.rows, first_keys);
    meet_group<kLoaders>();
    const auto row_of = [&](int i) {
      i = min(i, item.keys() - 1);
      return Codes::row_of(launch, item, i, shared.rows[i]);
    };
    // Three copies of a half block after the other.
    std::byte* own = shared.ring + t * 16;
    const std::byte* from = nullptr;
    bool there = false;
    int half_to_start = 0, three_to_start = 0;
    const auto start = [&](int slot) {
      if (three_to_start == 0) {
        const int i = half_to_start * kHalfKeys + quad;
        from = row_of(i).data() + part * 16;
        there = i < item.keys();
        ++half_to_start;
      }
#pragma unroll
      for (int i = 0; i < 3; ++i) cuda_ops::copy_16_or_zeros(own + (3 * slot + i) * kCopyBytes, from + i * 64, there);
      cuda_ops::commit_copies();
      from += 3 * 64;
      three_to_start = three_to_start + 1 == kThrees ? 0 : three_to_start + 1;
    };
    static_assert((kAhead - 1) / kThrees * kHalfKeys + kHalfKeys <= kGroupThreads, "rows that are looked up first");
#pragma unroll
    for (int i = 0; i < kAhead; ++i) start(i);
    const auto scales = [&](int half) { return row_of(half * kHalfKeys + quad).scales(); };
    uint2 next[2] = {scales(0), scales(1)};
    std::int32_t others[kSegmentKeys / kGroupThreads - 1];
    const auto other_keys = [](int i) { return i + kGroupThreads; };
    find_keys(launch, item, others, other_keys);
    find_rows(launch, shared.span, item, others, shared.rows + kGroupThreads, other_keys);
    meet_group<kLoaders>();
    int slot = 0;
    for (int block = 0, blocks = item.blocks(); block < blocks; ++block) {
      const int stage = block % kStages;
      const uint2 now[2] = {next[0], next[1]};
      next[0] = scales(2 * block + 2), next[1] = scales(2 * block + 3);
      const bool plain = !any_of_group<kLoaders>(!Codes::is_plain(now[0]) || !Codes::is_plain(now[1]));
      const int exponent = plain ? 0 : find_exponent<kLoaders, Codes>(shared.largest, now);
      if (block == 1) shared.q_taken.wait(0);
      for (int half = 0; half < 2; ++half) {
        if (block >= kStages) shared.empty[stage][half].wait(block / kStages - 1);
        const uint2 of_row = half == 0 ? now[0] : now[1];
        const int key = half * kHalfKeys + quad;
#pragma unroll
        for (int three = 0; three < kThrees; ++three) {
          cuda_ops::wait_copies<kAhead - 1>();
          const std::byte* raw = own + 3 * slot * kCopyBytes;
          if (plain) {
            store_three<true>(shared.keys[stage], key, part, raw, three, of_row, 0);
          } else {
            store_three<false>(shared.keys[stage], key, part, raw, three, of_row, exponent);
          }
          start(slot);
          slot = slot + 1 == kAhead ? 0 : slot + 1;
        }
      }
      if (t == 0) shared.exponents[block % kExponents] = exponent;
      show_tensor_cores();
      shared.full[stage].arrive();
    }
    cuda_ops::wait_copies<0>();
  }

  // Three copies of a key.
  template <bool kPlain>
  static SLUICE_DEVICE void store_three(std::byte* stage, int key, int part, const std::byte* raw, int three,
                                        const uint2& scales, int exponent) {
    uint4 words[3];
#pragma unroll
    for (int i = 0; i < 3; ++i) words[i] = *reinterpret_cast<const uint4*>(raw + i * kCopyBytes);
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const int c = 3 * three + i;
      if (c < kCodeCopies) {
        const std::uint32_t scale = (c < 4 ? scales.x : scales.y) >> (8 * (c % 4)) & 0xFFU;
        store_codes<kPlain>(stage + c * kTileBytes, key, part, words[i], scale, exponent);
      } else {
        store_rotary<kPlain>(stage + (kTiles - 1) * kTileBytes, key, (c - kCodeCopies) * 4 + part, words[i], exponent);
      }
    }
  }

  // Scores and weights of every block; a thread has two heads, `low` and low + 8, and every fourth pair of keys.
  SLUICE_DEVICE void weigh(Shared& shared, int count) const {
    const int t = static_cast<int>(threadIdx.x) % kGroupThreads, lane = t % 32, low = t / 32 * 16 + lane / 4;
    float m[2] = {-INFINITY, -INFINITY}, l[2] = {};
    shared.q_there.wait(0);
    std::uint32_t held[4 * kHeldTiles][4];
#pragma unroll
    for (int step = 0; step < 4 * kHeldTiles; ++step) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const std::byte* at = query_tile(shared, step / 4) + tile_piece(low + r % 2 * 8, step % 4 * 2 + r / 2);
        held[step][r] = *reinterpret_cast<const std::uint32_t*>(at + lane % 4 * 4);
      }
    }
    shared.q_taken.arrive();
    const float factor[2] = {launch.score_factor * shared.query_powers[low],
                             launch.score_factor * shared.query_powers[low + 8]};
    const GroupOperand q = inner_operand(shared.q);
    for (int block = 0; block * kBlockKeys < count; ++block) {
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
        if (step < 4 * kHeldTiles) {
          multiply_group(s, held[step], further(keys, at));
        } else {
          multiply_group<false>(s, further(q, at - kHeldTiles * kTileBytes), further(keys, at));
        }
      }
      commit_products();
      wait_products<0>();
      hold(s);
      finish_scores(s, shared.exponents[block % kExponents], count - block * kBlockKeys);
      float alpha[2];
      std::uint32_t weights[2][8];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float most = largest_score(s, h, m[h]);
        alpha[h] = exp2_fast((m[h] - most) * factor[h]);
        m[h] = most;
        l[h] = std::fma(l[h], alpha[h], weigh_scores(s, h, factor[h], most, weights[h]));
      }
      if (block > 0) shared.weights_taken.wait(block - 1);
      store_weights(shared.weights, low, weights);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if (lane % 4 == 0) shared.alpha[low + 8 * h] = alpha[h];
      }
      show_tensor_cores();
      shared.weights_there.arrive();
    }
    if (lane % 4 == 0) {
#pragma unroll
      for (int h = 0; h < 2; ++h) finish(shared, shared.item, low + 8 * h, m[h], l[h]);
    }
    shared.sums_there.arrive();
  }

  // What values are multiplied by at last.
  SLUICE_DEVICE void finish(Shared& shared, const AttendItem& item, int head, float m, float l) const {
    const float power = power_of_two(shared.exponents[(item.blocks() - 1) % kExponents]);
    m *= shared.query_powers[head];
    if (item.alone()) {
      shared.factors[head] =
          head < heads_of(launch, item) ? 1.0F / with_sink(launch, item.first_head + head, m, l) * power : 0.0F;
    } else {
      shared.factors[head] = power;
      launch.partials[item.partial(kDims) + head] = m;
      launch.partials[item.partial(kDims) + kGroupHeads + head] = l;
    }
  }

  // Dims [half * kColumns, + kColumns) of the values.
  SLUICE_DEVICE void add_values(Shared& shared, int blocks, int half) const {
    const int t = static_cast<int>(threadIdx.x) % kGroupThreads, lane = t % 32, low = t / 32 * 16 + lane / 4;
    const GroupOperand weights = inner_operand(shared.weights);
    float v[kParts][kWide / 2];
#pragma unroll
    for (auto& part : v) {
#pragma unroll
      for (float& value : part) value = 0.0F;
    }
    for (int block = 0; block < blocks; ++block) {
      const int stage = block % kStages;
      shared.full[stage].wait(block / kStages);
      shared.weights_there.wait(block);
      float alpha[2] = {shared.alpha[low], shared.alpha[low + 8]};
      scale_values(v, alpha, shared.exponents[(block == 0 ? 0 : block - 1) % kExponents],
                   shared.exponents[block % kExponents]);
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
        if (step % 2 == 1) commit_products();
      }
      wait_products<1>();
      shared.empty[stage][0].arrive();
      wait_products<0>();
#pragma unroll
      for (auto& part : v) hold(part);
      shared.weights_taken.arrive();
      shared.empty[stage][1].arrive();
    }
    shared.sums_there.wait(0);
    const AttendItem& item = shared.item;
    const int dim = half * kColumns + lane % 4 * 2;
    const float* turns = half == 1 ? turns_of(launch, cuda_ops::position_of(shared.span, item.row)) : nullptr;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int head = low + 8 * h;
      if (head >= heads_of(launch, item)) continue;
      const float factor = shared.factors[head];
      if (item.alone()) {
        store_outputs(launch, item.row, item.first_head + head, kDims, dim, v, h, factor, turns);
      } else {
        store_values(launch.partials + item.partial(kDims) + kPartialSums + head * kDims + dim, v, h, factor);
      }
    }
  }
};

}  // namespace

void attend_in_teams(const Exec& exec, const AttendLaunch& launch, std::int64_t teams) {
  if (launch.args.dims == 512) {
    cuda_ops::launch(exec, teams, AttendTeam<512>{launch}, sizeof(AttendTeam<512>::Shared));
  } else {
    cuda_ops::launch(exec, teams, AttendTeam<128>{launch}, sizeof(AttendTeam<128>::Shared));
  }
}

}  // namespace sluice::cuda_sm90
