// Attention over official FP8 rows: one team of four warpgroups has a row's heads and a segment of its keys.
//   loads    looks up rows of the cache, copies them to a place of their own and writes them as f16 into one of two
//            stages: keys, which are the values as well, serve both products from the same bytes
//   scores   q k of a block of 64 keys, its weights, running maxima and sums; some of the queries are kept in registers
//   values   two groups: weights times values, half of the dims each
// Half of the dims are multiplied by the queries while the others are written. If there are fewer teams than
// processors, a cluster has a row instead (attend_cluster.cu), with the same bits.
// Used by attend_cluster.cu and attend_list_parts.h.
#include "kernels/cuda/sm90/attend_parts.h"

namespace sluice::cuda_sm90 {
namespace {

using cuda_ops::Team;

constexpr int kStages = 2, kExponents = 4;  // stages; blocks whose exponents are kept
constexpr int kLoaders = 1;                 // the barrier of the loading group

template <int kDims>
struct AttendTeam {
  static constexpr int kThreads = 4 * kGroupThreads;
  static constexpr bool kWaits = true;
  using Codes = AttendCodes<kDims>;
  static constexpr int kTiles = Codes::kTiles, kStageBytes = kTiles * kTileBytes;
  static constexpr int kHeldTiles = kTiles > 3 ? 3 : 1;  // tiles of the queries in registers of the group of scores
  // Copies of half of the keys and half of the dims, which a group of values multiplies, are awaited together: four for
  // each block.
  static constexpr int kHalfTiles = kTiles / 2;
  static constexpr int kColumns = kDims / 2;                     // value dims of a group
  static constexpr int kWide = kColumns < 128 ? kColumns : 128;  // value dims of one product
  static constexpr int kParts = kColumns / kWide;
  AttendLaunch launch;

  struct Shared {
    std::byte q[kStageBytes - kHeldTiles * kTileBytes], keys[kStages][kStageBytes], weights[kTileBytes];
    std::byte raw[2 * Codes::kCopies * kCopyBytes];
    std::int32_t rows[kSegmentKeys];  // results of find_rows()
    float query_powers[kGroupHeads], alpha[kGroupHeads], factors[kGroupHeads];
    int exponents[kExponents], largest[4];  // E of blocks; the largest scale that a warp has
    SharedBarrier q_there, q_taken, weights_there, weights_taken, sums_there;
    // [stage][half of the dims]; [stage][half of the dims][half of the keys].
    SharedBarrier full[kStages][2], empty[kStages][2][2];
    RowSpan span;
    AttendItem item;  // valid once q_there has ended
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
    if (launch.segments > 1 && item.begin >= item.end) return;  // the row has fewer segments
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
        for (int dims = 0; dims < 2; ++dims) {
          shared.full[s][dims].init(kGroupThreads);
          for (SharedBarrier& keys : shared.empty[s][dims]) keys.init(kGroupThreads);
        }
      }
      shared.weights_there.init(kGroupThreads);
      shared.weights_taken.init(2 * kGroupThreads);
      shared.sums_there.init(kGroupThreads);
    }
    __syncthreads();
    cuda_ops::wait_for_kernels();
  }

  SLUICE_DEVICE void take_queries(Shared& shared, const AttendItem& item) const {
    load_queries<kDims, 12>(launch, item, shared.query_powers, [&](int tile) { return query_tile(shared, tile); });
    show_tensor_cores();
    shared.q_there.arrive();
  }

  // Loads keys; threads read what they copied themselves.
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
    // The thread's keys of the block whose copies are started next.
    std::byte* own = shared.raw + t * 16;
    const std::byte* from[2];
    bool there[2];
    const auto take_block = [&](int block) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = block * kBlockKeys + half * kHalfKeys + quad;
        from[half] = row_of(i).data() + part * 16, there[half] = i < item.keys();
      }
    };
    const auto start = [&]<int kDimsHalf>(int half) {
      const std::byte* of_half = half == 0 ? from[0] : from[1];
      const bool copies = half == 0 ? there[0] : there[1];
#pragma unroll
      for (int c = kDimsHalf * kHalfTiles; c < (kDimsHalf == 0 ? kHalfTiles : Codes::kCopies); ++c) {
        cuda_ops::copy_16_or_zeros(own + (half * Codes::kCopies + c) * kCopyBytes, of_half + c * 64, copies);
      }
      cuda_ops::commit_copies();
    };
    take_block(0);
#pragma unroll
    for (int half = 0; half < 2; ++half) start.template operator()<0>(half);
#pragma unroll
    for (int half = 0; half < 2; ++half) start.template operator()<1>(half);
    const auto scales = [&](int half) { return row_of(half * kHalfKeys + quad).scales(); };
    uint2 next[2] = {scales(0), scales(1)};
    std::int32_t others[kSegmentKeys / kGroupThreads - 1];
    const auto other_keys = [](int i) { return i + kGroupThreads; };
    find_keys(launch, item, others, other_keys);
    find_rows(launch, shared.span, item, others, shared.rows + kGroupThreads, other_keys);
    meet_group<kLoaders>();
    for (int block = 0, blocks = item.blocks(); block < blocks; ++block) {
      const int stage = block % kStages;
      const uint2 now[2] = {next[0], next[1]};
      next[0] = scales(2 * block + 2), next[1] = scales(2 * block + 3);
      take_block(block + 1);
      const bool plain = !any_of_group<kLoaders>(!Codes::is_plain(now[0]) || !Codes::is_plain(now[1]));
      const int exponent = plain ? 0 : find_exponent<kLoaders, Codes>(shared.largest, now);
      if (t == 0) shared.exponents[block % kExponents] = exponent;
      if (block == 1) shared.q_taken.wait(0);
      const auto make = [&]<int kDimsHalf>() {
#pragma unroll 1
        for (int half = 0; half < 2; ++half) {
          if (block >= kStages) shared.empty[stage][kDimsHalf][half].wait(block / kStages - 1);
          cuda_ops::wait_copies<3>();
          const int key = half * kHalfKeys + quad;
          const std::byte* raw = own + half * Codes::kCopies * kCopyBytes;
          const uint2 of_row = half == 0 ? now[0] : now[1];
          if (plain) {
            store_half<kDimsHalf, true>(shared.keys[stage], key, part, raw, of_row, 0);
          } else {
            store_half<kDimsHalf, false>(shared.keys[stage], key, part, raw, of_row, exponent);
          }
          start.template operator()<kDimsHalf>(half);
        }
        show_tensor_cores();
        shared.full[stage][kDimsHalf].arrive();
      };
      make.template operator()<0>();
      make.template operator()<1>();
    }
    cuda_ops::wait_copies<0>();
  }

  // Converts half of the dims of a key.
  template <int kDimsHalf, bool kPlain>
  static SLUICE_DEVICE void store_half(std::byte* stage, int key, int part, const std::byte* raw, const uint2& scales,
                                       int exponent) {
    constexpr int kFirst = kDimsHalf * kHalfTiles, kEnd = kDimsHalf == 0 ? kHalfTiles : Codes::kCopies;
    uint4 words[kEnd - kFirst];
#pragma unroll
    for (int c = kFirst; c < kEnd; ++c) words[c - kFirst] = *reinterpret_cast<const uint4*>(raw + c * kCopyBytes);
#pragma unroll
    for (int c = kFirst; c < kEnd; ++c) {
      if (c < Codes::kCodeCopies) {
        const std::uint32_t scale = (c < 4 ? scales.x : scales.y) >> (8 * (c % 4)) & 0xFFU;
        store_codes<kPlain>(stage + c * kTileBytes, key, part, words[c - kFirst], scale, exponent);
      } else {
        store_rotary<kPlain>(stage + (kTiles - 1) * kTileBytes, key, (c - Codes::kCodeCopies) * 4 + part,
                             words[c - kFirst], exponent);
      }
    }
  }

  // Computes scores and weights of every block; a thread has two heads, `low` and low + 8, and every fourth pair of
  // keys.
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
      const GroupOperand keys = inner_operand(shared.keys[stage]);
      float s[32];
#pragma unroll
      for (float& value : s) value = 0.0F;
      hold(s);
#pragma unroll
      for (int step = 0; step < kDims / 16; ++step) {
        if (step % (4 * kHalfTiles) == 0) {
          shared.full[stage][step / (4 * kHalfTiles)].wait(block / kStages);
          begin_products();
        }
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

  // Finds the last factors of the values.
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

  // Adds dims [half * kColumns, + kColumns) of the values.
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
      shared.full[stage][half].wait(block / kStages);
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
      shared.empty[stage][half][0].arrive();
      wait_products<0>();
#pragma unroll
      for (auto& part : v) hold(part);
      shared.weights_taken.arrive();
      shared.empty[stage][half][1].arrive();
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
