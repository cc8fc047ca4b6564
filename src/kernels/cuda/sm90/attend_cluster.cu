// Attention over official FP8 rows if there are few of them: 2, 4 or 8 blocks of a cluster have a row's heads and a
// segment of its keys. Values that are added up stay in one block, in the order of one block alone, so the bits are the
// same:
//   keys     block j of 64 keys belongs to rank j % kRanks, which computes its scores and weights
//   values   each rank has its part of the value dims, of all keys
// The owner of a block sends the largest score of each head to all ranks. With the largest scores of the blocks before,
// it makes the weights, and sends them, 8 KiB, with their factors. No partial sums travel. There are four groups of 128
// threads: one for values; one for scores, with all queries in registers; one for rows as keys; one for rows as values,
// of which a rank needs 64 to 256 dims. Each row is converted as it is needed: kRanks - 1 times a part more than once.
// Used by attend_list_parts.h and attend_team.cu.
#include "kernels/cuda/sm90/attend_parts.h"
#include "kernels/cuda/sm90/cluster.h"

namespace sluice::cuda_sm90 {
namespace {

using cuda_ops::Team;

constexpr int kDims = 512, kMostBlocks = kSegmentKeys / kBlockKeys;
constexpr int kScorers = 1, kKeyLoaders = 2, kValueLoaders = 3;  // numbers of the groups' barriers

template <int kRanks>
struct AttendCluster {
  static constexpr int kThreads = 4 * kGroupThreads;
  static constexpr bool kWaits = true;
  using Codes = AttendCodes<kDims>;
  static constexpr int kTiles = Codes::kTiles, kMine = kTiles / kRanks;  // tiles of values of a row, and of a rank
  // The blocks whose values, and whose weights, are held at once; with 8 ranks the weights of one block of each rank.
  static constexpr int kSlots = kRanks == 8 ? 3 : 2, kWeightSlots = kRanks == 8 ? 8 : kRanks == 4 ? 6 : 3;
  // The copies of values that are under way, and the half blocks that they are; the last rank makes one more copy for
  // each half block. A whole block of the rank's own keys is under way, too.
  static constexpr int kValueRing = kRanks == 8 ? 8 : kRanks == 4 ? 12 : 10;
  static constexpr int kAhead = kValueRing / kMine, kLastAhead = kValueRing / (kMine + 1);
  // Value dims of one product, and products of a rank.
  static constexpr int kWide = kMine == 1 ? 64 : 128, kParts = kMine * 64 / kWide;
  static constexpr int kExtra = 0x100;  // added to `largest` if a scale is not is_plain()
  // Registers of a thread of each group.
  static constexpr int kScoreRegisters = kRanks == 2 ? 208 : 216, kValueRegisters = kRanks == 2 ? 160 : 120;
  static constexpr int kLoadRegisters = kRanks == 2 ? 72 : 88;
  static_assert(kScoreRegisters + kValueRegisters + 2 * kLoadRegisters <= 512);
  AttendLaunch launch;

  struct Weights {
    std::byte tile[kTileBytes];
    float alpha[kGroupHeads], sums[kGroupHeads], most[kGroupHeads];
  };
  static constexpr int kWeightBytes = sizeof(Weights);
  struct Shared {
    std::byte keys[kTiles * kTileBytes];
    std::byte values[kSlots][kMine * kTileBytes];
    struct alignas(1024) Slot : Weights {
    } weights[kWeightSlots];
    std::byte key_ring[2 * Codes::kCopies * kCopyBytes], value_ring[kValueRing * kCopyBytes];
    // Results of find_rows(): for all keys, and for the rank's own keys.
    std::int32_t rows[kSegmentKeys], key_rows[kSegmentKeys / kRanks];
    std::uint32_t scales[kSegmentKeys];  // the scales of all keys, for the rank's value dims
    float maxima[kMostBlocks][kGroupHeads / 2][2];                     // for heads h and h + 8
    float query_powers[kGroupHeads];
    int largest[kMostBlocks][2], exponents[kMostBlocks], key_exponents[kMostBlocks], key_largest[4];
    ClusterBarrier maxima_there[kMostBlocks], weights_there[kMostBlocks], slot_free[kMostBlocks];
    SharedBarrier q_there, q_taken, keys_full[2], keys_empty[2], values_full[kSlots], values_empty[kSlots];
    RowSpan span;
  };
  static_assert(sizeof(Shared) <= 232448);
  // Queries on their way to registers, 64 KiB, end where the weights end; some slots of values may lie before them.
  static constexpr int kSlotBytes = kMine * kTileBytes;
  static constexpr int kBeforeQueries =
      kSlots * kSlotBytes + kWeightSlots * static_cast<int>(sizeof(typename Shared::Slot)) - kTiles * kTileBytes;
  static constexpr int kUntouched = kBeforeQueries / kSlotBytes;
  static_assert(kBeforeQueries >= 0);
  static SLUICE_DEVICE std::byte* query_tile(Shared& shared, int tile) {
    return &shared.values[0][0] + kBeforeQueries + tile * kTileBytes;
  }

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    extern __shared__ __align__(1024) std::byte memory[];
    auto& shared = *reinterpret_cast<Shared*>(memory);
    const int index = team.index / kRanks, rank = team.index % kRanks;
    const AttendItem place = place_of(launch, index);
    begin(shared, place.row, rank);
    if (launch.segments > 1) {
      const AttendItem item = with_keys(launch, shared.span, place);
      if (item.begin >= item.end) return;  // no such segment, for any rank of the cluster
    }
    AttendItem item = place;  // each group finds its own keys, because there are too few registers to keep them
    const int group = __shfl_sync(0xFFFFFFFFU, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
    if (group == 3) {
      leave_registers<kLoadRegisters>();
      arrive_in_cluster();
      item.list = window_keys(launch, shared.span, item.row);
      load_values(shared, item, rank);
      wait_for_cluster();
    } else if (group == 2) {
      leave_registers<kLoadRegisters>();
      arrive_in_cluster();
      item.list = window_keys(launch, shared.span, item.row);
      load_keys(shared, item, rank);
      wait_for_cluster();
    } else if (group == 1) {
      take_registers<kScoreRegisters>();
      take_queries(shared, item);
      weigh(shared, with_keys(launch, shared.span, item).keys(), rank);
    } else {
      if constexpr (kValueRegisters > 128) {
        take_registers<kValueRegisters>();
      } else {
        leave_registers<kValueRegisters>();
      }
      arrive_in_cluster();
      take_queries(shared, item);
      add_values(shared, with_keys(launch, shared.span, item), rank);
    }
    arrive_in_cluster();
    wait_for_cluster();
  }

  SLUICE_DEVICE void begin(Shared& shared, int row, int rank) const {
    find_span(launch, row, &shared.span);
    static_assert(kThreads == 32 * kMostBlocks && kSlots <= 13);
    if (threadIdx.x % 32 == 0) {  // one lane after the other in a warp
      const int warp = static_cast<int>(threadIdx.x) / 32;
      shared.maxima_there[warp].init_for_bytes(kGroupHeads * sizeof(float));
      if (warp % kRanks == rank) {
        shared.weights_there[warp].init(kGroupThreads);
      } else {
        shared.weights_there[warp].init_for_bytes(kWeightBytes);
      }
      shared.slot_free[warp].init(kRanks * 4);
      if (warp < kSlots) {
        shared.values_full[warp].init(kGroupThreads);
        shared.values_empty[warp].init(kGroupThreads);
      } else if (warp >= 14) {
        shared.keys_full[warp - 14].init(kGroupThreads);
        shared.keys_empty[warp - 14].init(kGroupThreads);
      } else if (warp == 13) {
        shared.q_there.init(2 * kGroupThreads);
        shared.q_taken.init(kGroupThreads);
      }
      show_barriers();
    }
    __syncthreads();
    cuda_ops::wait_for_kernels();
  }

  SLUICE_DEVICE void take_queries(Shared& shared, const AttendItem& item) const {
    load_queries<kDims, 8>(launch, item, shared.query_powers, [&](int tile) { return query_tile(shared, tile); });
    shared.q_there.arrive();
  }

  // Loads blocks rank, rank + kRanks, ..; halves of the dims one after the other, so that products with the first begin
  // before the second is there.
  SLUICE_DEVICE void load_keys(Shared& shared, AttendItem item, int rank) const {
    const int t = static_cast<int>(threadIdx.x) % kGroupThreads, quad = t / 4, part = t % 4;
    const auto in_segment = [&](int i) { return (i / kBlockKeys * kRanks + rank) * kBlockKeys + i % kBlockKeys; };
    std::int32_t of_list[kSegmentKeys / kRanks / kGroupThreads];
    find_keys(launch, item, of_list, in_segment);
    count_keys(launch, shared.span, &item);
    find_rows(launch, shared.span, item, of_list, shared.key_rows, in_segment);
    meet_group<kKeyLoaders>();
    const int owned = (item.blocks() - rank + kRanks - 1) / kRanks;
    const auto row_of = [&](int own, int key) {
      const int first = (own * kRanks + rank) * kBlockKeys;
      key = min(key, item.keys() - first - 1);
      return Codes::row_of(launch, item, first + key, shared.key_rows[own * kBlockKeys + key]);
    };
    std::byte* raw = shared.key_ring + t * 16;
    // Starts the copies of half of the dims, for half of the keys.
    const auto start = [&](int own, int half, int keys) {
      if (own < owned) {
        const int key = keys * kHalfKeys + quad;
        const std::byte* from = row_of(own, key).data() + part * 16;
        const bool there = (own * kRanks + rank) * kBlockKeys + key < item.keys();
#pragma unroll
        for (int c = 0; c < Codes::kCopies; ++c) {
          if (c / 4 - c / 8 != half) continue;
          cuda_ops::copy_16_or_zeros(raw + (keys * Codes::kCopies + c) * kCopyBytes, from + c * 64, there);
        }
      }
      cuda_ops::commit_copies();
    };
#pragma unroll
    for (int i = 0; i < 4; ++i) start(0, i / 2, i % 2);
    uint2 next[2]{};
    const auto scales = [&](int own) {
      if (own >= owned) return;
      next[0] = row_of(own, quad).scales(), next[1] = row_of(own, kHalfKeys + quad).scales();
    };
    scales(0);
    for (int own = 0; own < owned; ++own) {
      const uint2 now[2] = {next[0], next[1]};
      scales(own + 1);
      const bool plain = !any_of_group<kKeyLoaders>(!Codes::is_plain(now[0]) || !Codes::is_plain(now[1]));
      const int exponent = plain ? 0 : find_exponent<kKeyLoaders, Codes>(shared.key_largest, now);
      if (t == 0) shared.key_exponents[own] = exponent;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (own > 0) shared.keys_empty[half].wait(own - 1);
#pragma unroll 1
        for (int keys = 0; keys < 2; ++keys) {
          cuda_ops::wait_copies<3>();
          const std::byte* from = raw + keys * Codes::kCopies * kCopyBytes;
          const int key = keys * kHalfKeys + quad;
          const uint2 of_row = keys == 0 ? now[0] : now[1];
          if (plain) {
            store_half<true>(shared.keys, key, part, from, half, of_row, 0);
          } else {
            store_half<false>(shared.keys, key, part, from, half, of_row, exponent);
          }
          start(own + 1, half, keys);
        }
        show_tensor_cores();
        shared.keys_full[half].arrive();
      }
    }
    cuda_ops::wait_copies<0>();
  }
  // Converts four tiles of a key.
  template <bool kPlain>
  static SLUICE_DEVICE void store_half(std::byte* tiles, int key, int part, const std::byte* raw, int half,
                                       const uint2& scales, int exponent) {
    const auto copy = [&](int c) { return *reinterpret_cast<const uint4*>(raw + c * kCopyBytes); };
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int c = 4 * half + i;
      if (c < Codes::kCodeCopies) {
        store_codes<kPlain>(tiles + c * kTileBytes, key, part, copy(c),
                            (half == 0 ? scales.x : scales.y) >> (8 * i) & 0xFFU, exponent);
      } else {
        store_rotary<kPlain>(tiles + c * kTileBytes, key, part, copy(c), exponent);
        store_rotary<kPlain>(tiles + c * kTileBytes, key, 4 + part, copy(c + 1), exponent);
      }
    }
  }

  // Loads the rank's dims of all blocks. The exponents of all blocks are found first.
  SLUICE_DEVICE void load_values(Shared& shared, AttendItem item, int rank) const {
    const int t = static_cast<int>(threadIdx.x) % kGroupThreads, quad = t / 4, part = t % 4;
    const int first = rank * kMine;
    const bool last = rank == kRanks - 1;
    const int copies = last ? kMine + 1 : kMine, ahead = last ? kLastAhead : kAhead;
    const auto in_segment = [](int i) { return i; };
    std::int32_t of_list[kSegmentKeys / kGroupThreads];
    find_keys(launch, item, of_list, in_segment);
    count_keys(launch, shared.span, &item);
    find_rows(launch, shared.span, item, of_list, shared.rows, in_segment);
    meet_group<kValueLoaders>();
    const int blocks = item.blocks(), keys = item.keys();
    const auto row_of = [&](int i) { return Codes::row_of(launch, item, i, shared.rows[i]); };
    std::byte* raw = shared.value_ring + t * 16;
    const auto start = [&](int half, int slot) {  // starts the copies of a half block
      if (half < 2 * blocks) {
        const int i = half * kHalfKeys + quad;
        const std::byte* from = row_of(min(i, keys - 1)).data() + first * 64 + part * 16;
#pragma unroll
        for (int c = 0; c <= kMine; ++c) {
          if (c < copies) cuda_ops::copy_16_or_zeros(raw + (slot * copies + c) * kCopyBytes, from + c * 64, i < keys);
        }
      }
      cuda_ops::commit_copies();
    };
    for (int half = 0; half < ahead; ++half) start(half, half);
    find_scales(shared, item, first);
    meet_group<kValueLoaders>();
    int ring = 0;
    for (int block = 0; block < blocks; ++block) {
      const int slot = block % kSlots, largest = shared.largest[block][0], other = shared.largest[block][1];
      const bool plain = ((largest | other) & kExtra) == 0;
      const int exponent = plain ? 0 : block_exponent(max(largest & 0xFF, other & 0xFF));
      if (block == kUntouched && kUntouched < kSlots) shared.q_taken.wait(0);
      if (block >= kSlots) shared.values_empty[slot].wait(block / kSlots - 1);
#pragma unroll 1
      for (int half = 0; half < 2; ++half) {
        if (last) {
          cuda_ops::wait_copies<kLastAhead - 1>();
        } else {
          cuda_ops::wait_copies<kAhead - 1>();
        }
        const int key = half * kHalfKeys + quad;
        const std::byte* from = raw + ring * copies * kCopyBytes;
        const std::uint32_t scales = shared.scales[block * kBlockKeys + key];
        if (plain) {
          store_part<true>(shared.values[slot], key, part, from, scales, 0, last);
        } else {
          store_part<false>(shared.values[slot], key, part, from, scales, exponent, last);
        }
        start(2 * block + half + ahead, ring);
        ring = ring + 1 == ahead ? 0 : ring + 1;
      }
      if (t == 0) shared.exponents[block] = exponent;
      show_tensor_cores();
      shared.values_full[slot].arrive();
    }
    cuda_ops::wait_copies<0>();
  }
  // Finds the scales of all keys, and the largest of each half block.
  SLUICE_DEVICE void find_scales(Shared& shared, const AttendItem& item, int first) const {
    const int t = static_cast<int>(threadIdx.x) % kGroupThreads;
    constexpr int kCount = kSegmentKeys / kGroupThreads;
    uint2 scales[kCount];
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
      const int i = t + n * kGroupThreads;
      scales[n] = {0x7F7F7F7FU, 0x7F7F7F7FU};
      if (i < item.keys()) scales[n] = Codes::row_of(launch, item, i, shared.rows[i]).scales();
    }
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
      const int i = t + n * kGroupThreads;
      if (n * kGroupThreads >= item.keys()) break;
      shared.scales[i] = (first < 4 ? scales[n].x : scales[n].y) >> (8 * (first % 4));
      const bool plain = __all_sync(0xFFFFFFFFU, Codes::is_plain(scales[n]));
      const std::uint32_t mine = i < item.keys() ? Codes::largest(scales[n], 0) : 0;
      const std::uint32_t most = __reduce_max_sync(0xFFFFFFFFU, mine);
      if (t % 32 == 0)
        shared.largest[i / kBlockKeys][i / kHalfKeys % 2] = static_cast<int>(most) | (plain ? 0 : kExtra);
    }
  }
  template <bool kPlain>
  static SLUICE_DEVICE void store_part(std::byte* tiles, int key, int part, const std::byte* raw, std::uint32_t scales,
                                       int exponent, bool last) {
    const auto copy = [&](int c) { return *reinterpret_cast<const uint4*>(raw + c * kCopyBytes); };
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      std::byte* tile = tiles + i * kTileBytes;
      if (i == kMine - 1 && last) {
        store_rotary<kPlain>(tile, key, part, copy(i), exponent);
        store_rotary<kPlain>(tile, key, 4 + part, copy(i + 1), exponent);
      } else {
        store_codes<kPlain>(tile, key, part, copy(i), scales >> (8 * i) & 0xFFU, exponent);
      }
    }
  }

  // Computes scores and weights of the rank's blocks; a thread has two heads, `low` and low + 8, and every fourth pair
  // of keys.
  SLUICE_DEVICE void weigh(Shared& shared, int count, int rank) const {
    const int t = static_cast<int>(threadIdx.x) % kGroupThreads, warp = t / 32, lane = t % 32;
    const int low = warp * 16 + lane / 4, pair = warp * 8 + lane / 4;
    shared.q_there.wait(0);
    std::uint32_t q[kDims / 16][4];
#pragma unroll
    for (int step = 0; step < kDims / 16; ++step) {
      load_matrices(
          shared_address(query_tile(shared, step / 4)) + tile_piece(warp * 16 + lane % 16, step % 4 * 2 + lane / 16),
          q[step]);
    }
    show_tensor_cores();
    shared.q_taken.arrive();
    arrive_in_cluster();  // it now may write weights
    const float factor[2] = {launch.score_factor * shared.query_powers[low],
                             launch.score_factor * shared.query_powers[low + 8]};
    float m[2] = {-INFINITY, -INFINITY};
    const GroupOperand keys = inner_operand(shared.keys);
    for (int own = 0, block = rank; block * kBlockKeys < count; ++own, block += kRanks) {
      float s[32];
#pragma unroll
      for (float& value : s) value = 0.0F;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        shared.keys_full[half].wait(own);
        hold(s);
        begin_products();
#pragma unroll
        for (int i = 0; i < kDims / 32; ++i) {
          const int step = half * (kDims / 32) + i;
          multiply_group(s, q[step], further(keys, step / 4 * kTileBytes + step % 4 * 32));
        }
        commit_products();
      }
      wait_products<1>();
      shared.keys_empty[0].arrive();
      wait_products<0>();
      hold(s);
      shared.keys_empty[1].arrive();
      finish_scores(s, shared.key_exponents[own], count - block * kBlockKeys);
      const float largest[2] = {largest_score(s, 0, -INFINITY), largest_score(s, 1, -INFINITY)};
      if (own == 0) wait_for_cluster();
#pragma unroll
      for (int i = 0; i < kRanks - 1; i += 4) {  // sends to the ranks that have a later block and wait for these values
        const int ahead = i + 1 + lane % 4;
        if (ahead >= kRanks || (block + ahead) * kBlockKeys >= count) continue;
        store_at((rank + ahead) % kRanks, shared.maxima[block][pair], largest[0], largest[1],
                 &shared.maxima_there[block]);
      }
      // Takes the maxima since the last block of its own; a lane waits for one.
      const int others = own == 0 ? rank : kRanks - 1, since = block - others;
      if (lane < others) shared.maxima_there[since + lane].wait_once();
      __syncwarp();
#pragma unroll
      for (int i = 0; i < kRanks - 1; ++i) {
        if (i >= others) break;
        m[0] = fmaxf(m[0], shared.maxima[since + i][pair][0]);
        m[1] = fmaxf(m[1], shared.maxima[since + i][pair][1]);
      }
      float alpha[2], sum[2];
      std::uint32_t weights[2][8];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float most = fmaxf(m[h], largest[h]);
        alpha[h] = exp2_fast((m[h] - most) * factor[h]);
        m[h] = most;
        sum[h] = weigh_scores(s, h, factor[h], most, weights[h]);
      }
      if (block >= kWeightSlots) shared.slot_free[block].wait_once();
      Weights& slot = shared.weights[block % kWeightSlots];
      store_weights(slot.tile, low, weights);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if (lane % 4 != 0) continue;
        slot.alpha[low + 8 * h] = alpha[h], slot.sums[low + 8 * h] = sum[h], slot.most[low + 8 * h] = m[h];
      }
      show_tensor_cores();
      shared.weights_there[block].arrive();
      meet_group<kScorers>();
      if (lane == 0) {
#pragma unroll 1
        for (int i = 1 + warp; i < kRanks; i += 4) {
          copy_to((rank + i) % kRanks, &slot, kWeightBytes, &shared.weights_there[block]);
        }
      }
      __syncwarp();
    }
    if (rank * kBlockKeys >= count) wait_for_cluster();
  }

  // Adds the rank's value dims. The slot of a block's weights becomes that of the block kWeightSlots further, whose
  // owner waits until all ranks have read them.
  SLUICE_DEVICE void add_values(Shared& shared, const AttendItem& item, int rank) const {
    const int t = static_cast<int>(threadIdx.x) % kGroupThreads, lane = t % 32, low = t / 32 * 16 + lane / 4;
    const int blocks = item.blocks(), heads = heads_of(launch, item);
    float sink[2] = {};
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (launch.args.sink != nullptr && low + 8 * h < heads) sink[h] = launch.args.sink[item.first_head + low + 8 * h];
    }
    float v[kParts][kWide / 2], l[2] = {}, m[2] = {};
#pragma unroll
    for (auto& part : v) {
#pragma unroll
      for (float& value : part) value = 0.0F;
    }
    int exponent = 0;
    wait_for_cluster();
    for (int block = 0; block < blocks; ++block) {
      const int slot = block % kSlots;
      shared.values_full[slot].wait(block / kSlots);
      shared.weights_there[block].wait_once();
      const Weights& of_block = shared.weights[block % kWeightSlots];
      float alpha[2];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        alpha[h] = of_block.alpha[low + 8 * h], m[h] = of_block.most[low + 8 * h];
        l[h] = std::fma(l[h], alpha[h], of_block.sums[low + 8 * h]);
      }
      const int before = block == 0 ? shared.exponents[0] : exponent;
      exponent = shared.exponents[block];
      scale_values(v, alpha, before, exponent);
      const GroupOperand weights = inner_operand(of_block.tile), values = outer_operand(shared.values[slot]);
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
      shared.values_empty[slot].arrive();
      const int next = block + kWeightSlots;
      __syncwarp();
      if (next < blocks && lane == 0) shared.slot_free[next].arrive_at(next % kRanks);
      __syncwarp();
    }
    shared.q_there.wait(0);  // before query_powers are read
    const float* turns = rank == kRanks - 1 ? turns_of(launch, cuda_ops::position_of(shared.span, item.row)) : nullptr;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int head = low + 8 * h, dim = rank * kMine * 64 + lane % 4 * 2;
      if (head >= heads) continue;
      const float most = m[h] * shared.query_powers[head], power = power_of_two(exponent);
      if (item.alone()) {
        const float sum = launch.args.sink == nullptr ? l[h] : add_sink(launch, sink[h], most, l[h]);
        store_outputs(launch, item.row, item.first_head + head, kDims, dim, v, h, 1.0F / sum * power, turns);
        continue;
      }
      float* partial = launch.partials + item.partial(kDims);
      store_values(partial + kPartialSums + head * kDims + dim, v, h, power);
      if (rank == 0 && lane % 4 == 0) partial[head] = most, partial[kGroupHeads + head] = l[h];
    }
  }
};

template <int kRanks>
void launch_clusters(const Exec& exec, const AttendLaunch& launch, std::int64_t teams) {
  cuda_ops::launch(exec, teams * kRanks, AttendCluster<kRanks>{launch}, sizeof(typename AttendCluster<kRanks>::Shared),
                   kRanks);
}

}  // namespace

void attend_in_clusters(const Exec& exec, const AttendLaunch& launch, std::int64_t teams) {
  SLUICE_CHECK(launch.args.dims == kDims, "clusters have rows of 512 dims");
  if (launch.cluster == 8) return launch_clusters<8>(exec, launch, teams);
  if (launch.cluster == 4) return launch_clusters<4>(exec, launch, teams);
  launch_clusters<2>(exec, launch, teams);
}

}  // namespace sluice::cuda_sm90
