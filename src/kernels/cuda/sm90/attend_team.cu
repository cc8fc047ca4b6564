// Attention over official FP8 rows: one team of four warpgroups has a row's heads and a segment of its keys.
//   loads    looks up rows of the cache, copies them through a ring and writes them as f16 into one of two stages: keys,
//            which are the values as well, serve both products from the same bytes
//   scores   q k of a block of 64 keys, its weights, running maxima and sums; some of the queries are kept in registers
//   values   two groups: weights times values, half of the dims each
#include <algorithm>

#include "kernels/cuda/sm90/attend_rows.h"

namespace sluice::cuda_sm90 {
namespace {

using cuda_ops::Team;

constexpr int kGroupThreads = 128, kStages = 2, kHalfKeys = 32;  // keys that the loading group has at once
constexpr int kExponents = 4;                                    // blocks whose exponents are kept

// Of the loading group's threads.
SLUICE_DEVICE void meet_loaders() {
  asm volatile("bar.sync 1, 128;" ::: "memory");
}
SLUICE_DEVICE bool any_loader(bool mine) {
  int any;
  asm volatile(
      "{\n.reg .pred mine, any;\nsetp.ne.s32 mine, %1, 0;\nbar.red.or.pred any, 2, 128, mine;\n"
      "selp.s32 %0, 1, 0, any;\n}"
      : "=r"(any)
      : "r"(mine ? 1 : 0)
      : "memory");
  return any != 0;
}

template <int kDims>
struct AttendTeam {
  static constexpr int kThreads = 4 * kGroupThreads;
  static constexpr bool kWaits = true;
  static constexpr int kTiles = kDims / 64, kStageBytes = kTiles * kTileBytes;
  static constexpr int kHeldTiles = kTiles > 3 ? 3 : 1;  // of the queries, in registers of the group of scores
  // Copies of a half block, 64 bytes of each of its rows, go in threes. kAhead threes are on their way.
  static constexpr int kCodeCopies = (kDims - kRopeDims) / 64, kCopies = kCodeCopies + 2, kThrees = kCopies / 3;
  static constexpr int kAhead = kThrees == 1 ? 4 : 7, kCopyBytes = kGroupThreads * 16;
  static constexpr int kDataBytes = kCopies * 64, kScaleBytes = 8;
  static_assert(kCopies % 3 == 0);
  static constexpr int kColumns = kDims / 2;                     // value dims of a group
  static constexpr int kWide = kColumns < 128 ? kColumns : 128;  // of them in a product
  static constexpr int kParts = kColumns / kWide;
  AttendLaunch launch;

  // What a team does.
  struct Item {
    KeyList list;
    int index, row, first_head, begin, end;  // keys [begin, end) of the list
    SLUICE_DEVICE int blocks() const { return (end - begin + kBlockKeys - 1) / kBlockKeys; }
    SLUICE_DEVICE bool alone() const { return list.count <= kSegmentKeys; }  // the row has no other segment
    SLUICE_DEVICE std::int64_t partial() const { return index * segment_floats(kDims); }
  };
  struct Shared {
    std::byte q[kStageBytes - kHeldTiles * kTileBytes], keys[kStages][kStageBytes], weights[kTileBytes];
    std::byte ring[3 * kAhead * kCopyBytes];
    std::int32_t rows[kSegmentKeys];  // of the planes: rows before those of the key's page, and it in there
    float query_powers[kGroupHeads], alpha[kGroupHeads], factors[kGroupHeads];
    int exponents[kExponents], largest[4];  // E of blocks; the largest scale that a warp has
    SharedBarrier q_there, q_taken, full[kStages], empty[kStages][2], weights_there, weights_taken, sums_there;
    RowSpan span;
    Item item;  // for the groups of values, once sums are there
  };
  static_assert(sizeof(Shared) <= 232448);
  // Queries on their way to registers lie where the second block will.
  static SLUICE_DEVICE std::byte* query_tile(Shared& shared, int tile) {
    return tile < kHeldTiles ? shared.keys[1] + tile * kTileBytes : shared.q + (tile - kHeldTiles) * kTileBytes;
  }

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    extern __shared__ __align__(1024) std::byte memory[];  // team.shared, at an address that the compiler knows
    auto& shared = *reinterpret_cast<Shared*>(memory);
    begin(shared, team.index);
    const Item item = item_of(shared.span, team.index);
    if (launch.segments > 1 && item.begin >= item.end) return;  // no such segment
    const int group = __shfl_sync(0xFFFFFFFFU, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
    if (group == 3) {
      leave_registers<72>();
      load_keys(shared, item);
    } else if (group == 2) {
      leave_registers<120>();
      load_queries(shared, item);
      weigh(shared, item);
    } else {
      take_registers<160>();
      load_queries(shared, item);
      add_values(shared, item.blocks(), group);
    }
  }

  SLUICE_DEVICE void begin(Shared& shared, int index) const {
    const int row = launch.first_row + index / launch.segments / launch.groups;
    for (int i = static_cast<int>(threadIdx.x); i < launch.spans; i += kThreads) {
      const RowSpan span = launch.args.spans[static_cast<std::size_t>(i)];
      if (row >= span.row_begin && row < span.row_begin + span.rows) shared.span = span;
    }
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
  SLUICE_DEVICE Item item_of(const RowSpan& span, int index) const {
    const int of_row = index / launch.segments;
    Item item;
    item.index = index;
    item.row = launch.first_row + of_row / launch.groups;
    item.list = key_list(launch, span, item.row);
    item.begin = index % launch.segments * kSegmentKeys;
    item.end = min(item.begin + kSegmentKeys, item.list.count);
    item.first_head = of_row % launch.groups * kGroupHeads;
    return item;
  }

  SLUICE_DEVICE int heads_of(const Item& item) const { return min(kGroupHeads, launch.args.heads - item.first_head); }

  // By three groups; a warp has a few heads at once, a lane every 32nd piece of eight dims.
  SLUICE_DEVICE void load_queries(Shared& shared, const Item& item) const {
    constexpr int kWarps = 12, kAtOnce = 3, kPieces = kDims / 8, kMine = (kPieces + 31) / 32;
    const float* q = launch.args.q + (static_cast<std::ptrdiff_t>(item.row) * launch.args.heads + item.first_head) * kDims;
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int heads = heads_of(item);
    for (int first = warp; first < kGroupHeads; first += kWarps * kAtOnce) {
      float4 x[kAtOnce][2 * kMine];
#pragma unroll
      for (int h = 0; h < kAtOnce; ++h) {
        const int head = first + h * kWarps;
#pragma unroll
        for (int i = 0; i < kMine; ++i) {
          const bool there = head < heads && lane + 32 * i < kPieces;
          const auto* from = reinterpret_cast<const float4*>(q + head * kDims + (lane + 32 * i) * 8);
          x[h][2 * i] = there ? from[0] : float4{0.0F, 0.0F, 0.0F, 0.0F};
          x[h][2 * i + 1] = there ? from[1] : float4{0.0F, 0.0F, 0.0F, 0.0F};
        }
      }
#pragma unroll
      for (int h = 0; h < kAtOnce; ++h) {
        const int head = first + h * kWarps;
        std::uint32_t largest = 0;
#pragma unroll
        for (const float4& four : x[h]) largest = max(max(largest, max(bits_of(four.x), bits_of(four.y))), max(bits_of(four.z), bits_of(four.w)));
        const int exponent = query_exponent(__reduce_max_sync(0xFFFFFFFFU, largest));
        if (head >= kGroupHeads) break;
        if (lane == 0) shared.query_powers[head] = power_of_two(exponent);
        const float down = power_of_two(-exponent);
#pragma unroll
        for (int i = 0; i < kMine; ++i) {
          const int piece = lane + 32 * i;
          if (piece >= kPieces) continue;
          const float4 a = x[h][2 * i], b = x[h][2 * i + 1];
          *reinterpret_cast<uint4*>(query_tile(shared, piece / 8) + tile_piece(head, piece % 8)) = {
              half_pair(a.x * down, a.y * down), half_pair(a.z * down, a.w * down), half_pair(b.x * down, b.y * down),
              half_pair(b.z * down, b.w * down)};
        }
      }
    }
    show_tensor_cores();
    shared.q_there.arrive();
  }
  static SLUICE_DEVICE std::uint32_t bits_of(float x) {
    return __float_as_uint(x) & 0x7FFFFFFFU;
  }

  // Key `i` of the segment, for load_keys().
  SLUICE_DEVICE void find_row(Shared& shared, const Item& item, int i) const {
    const int at = item.begin + i;
    const bool of_window = at < item.list.of_window;
    if (!of_window && at >= item.end) return;
    const std::int32_t key = key_at(launch, item.list, item.row, at);
    const std::int32_t page = page_of_key(launch, shared.span, of_window, key);
    const int shift = of_window ? launch.window_shift : launch.latent_shift;
    shared.rows[i] = (page << shift) | (key & ((1 << shift) - 1));
  }
  // A key's page, and its row there.
  struct PageRow {
    const std::byte* page;
    int row, rows;
    SLUICE_DEVICE const std::byte* data() const { return page + row * kDataBytes; }
    SLUICE_DEVICE uint2 scales() const {
      return __ldcg(reinterpret_cast<const uint2*>(page + rows * kDataBytes + row * kScaleBytes));
    }
  };
  SLUICE_DEVICE PageRow row_of(const Shared& shared, const Item& item, int i) const {
    i = min(i, item.end - item.begin - 1);
    const bool of_window = item.begin + i < item.list.of_window;
    const PlaneView& plane = of_window ? launch.window : launch.latent;
    const int shift = of_window ? launch.window_shift : launch.latent_shift;
    const std::int32_t at = shared.rows[i];
    return {plane.base + static_cast<std::uint64_t>(static_cast<std::uint32_t>(at >> shift)) *
                             static_cast<std::uint32_t>(plane.page_bytes),
            at & ((1 << shift) - 1), 1 << shift};
  }

  // A quad of threads has a key of each half block. Threads read what they copied themselves.
  SLUICE_DEVICE void load_keys(Shared& shared, const Item& item) const {
    const int t = static_cast<int>(threadIdx.x) % kGroupThreads, quad = t / 4, part = t % 4;
    find_row(shared, item, t);
    meet_loaders();
    // Three copies of a half block after the other.
    std::byte* own = shared.ring + t * 16;
    const std::byte* from = nullptr;
    bool there = false;
    int half_to_start = 0, three_to_start = 0;
    const auto start = [&](int slot) {
      if (three_to_start == 0) {
        const int i = half_to_start * kHalfKeys + quad;
        from = row_of(shared, item, i).data() + part * 16;
        there = i < item.end - item.begin;
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
    const auto scales = [&](int half) { return row_of(shared, item, half * kHalfKeys + quad).scales(); };
    uint2 next[2] = {scales(0), scales(1)};
#pragma unroll 4
    for (int i = t + kGroupThreads; i < item.end - item.begin; i += kGroupThreads) find_row(shared, item, i);
    meet_loaders();
    int slot = 0;
    for (int block = 0, blocks = item.blocks(); block < blocks; ++block) {
      const int stage = block % kStages;
      const uint2 now[2] = {next[0], next[1]};
      next[0] = scales(2 * block + 2), next[1] = scales(2 * block + 3);
      const bool plain = !any_loader(!is_plain(now[0]) || !is_plain(now[1]));
      const int exponent = plain ? 0 : find_exponent(shared, now);
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

  // Whether all scales lie in 2^-14..1, as they do in nearly all rows.
  static SLUICE_DEVICE bool is_plain(const uint2& scales) {
    const auto outside = [](std::uint32_t four, std::uint32_t used) {
      const std::uint32_t above = ((four & used) | (0x7F7F7F7FU & ~used)) ^ 0x70707070U;
      return (above & 0xF0F0F0F0U) | (~(above + 0x7F7F7F7FU) & 0x80808080U);
    };
    return (outside(scales.x, kFirstScales) | outside(scales.y, kLastScales)) == 0;
  }
  static constexpr std::uint32_t kFirstScales = kCodeCopies < 4 ? 0xFFFFFFFFU >> (32 - 8 * kCodeCopies) : 0xFFFFFFFFU;
  static constexpr std::uint32_t kLastScales = kCodeCopies < 5 ? 0U : 0xFFFFFFFFU >> (64 - 8 * kCodeCopies);
  // E of a block.
  static SLUICE_DEVICE int find_exponent(Shared& shared, const uint2 (&scales)[2]) {
    std::uint32_t most = 0;
    for (const uint2& of : scales) {
#pragma unroll
      for (int i = 0; i < kCodeCopies; ++i) most = max(most, (i < 4 ? of.x : of.y) >> (8 * (i % 4)) & 0xFFU);
    }
    most = __reduce_max_sync(0xFFFFFFFFU, most);
    const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
    if (threadIdx.x % 32 == 0) shared.largest[warp] = static_cast<int>(most);
    meet_loaders();
    return block_exponent(max(max(shared.largest[0], shared.largest[1]), max(shared.largest[2], shared.largest[3])));
  }

  // Three copies of a key. kPlain: is_plain(), and `exponent`, which is E, is 0.
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
        const float down = kPlain ? 1.0F : power_of_two(-exponent);
        const std::uint32_t from[4] = {words[i].x, words[i].y, words[i].z, words[i].w};
        std::uint32_t to[4];
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          to[w] = half_pair(__uint_as_float(from[w] << 16) * down, __uint_as_float(from[w] & 0xFFFF0000U) * down);
        }
        *reinterpret_cast<uint4*>(stage + (kTiles - 1) * kTileBytes + tile_piece(key, (c - kCodeCopies) * 4 + part)) =
            {to[0], to[1], to[2], to[3]};
      }
    }
  }
  // Sixteen codes.
  template <bool kPlain>
  static SLUICE_DEVICE void store_codes(std::byte* tile, int key, int part, const uint4& codes, std::uint32_t scale,
                                        int exponent) {
    const std::uint32_t from[4] = {codes.x, codes.y, codes.z, codes.w};
    const std::uint32_t first = kPlain ? (scale - 112U) * 0x04000400U : first_factor(scale, exponent);
    std::uint32_t to[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      to[i] = multiply_halves(codes_to_halves(from[i / 2] >> (16 * (i % 2))), first);
      if (!kPlain) to[i] = multiply_halves(to[i], second_factor(scale, exponent));
    }
    *reinterpret_cast<uint4*>(tile + tile_piece(key, 2 * part)) = {to[0], to[1], to[2], to[3]};
    *reinterpret_cast<uint4*>(tile + tile_piece(key, 2 * part + 1)) = {to[4], to[5], to[6], to[7]};
  }

  // Scores and weights of every block; a thread has two heads, `low` and low + 8, and every fourth pair of keys.
  SLUICE_DEVICE void weigh(Shared& shared, const Item& item) const {
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
    for (int block = 0; block < item.blocks(); ++block) {
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
      if (const int exponent = shared.exponents[block % kExponents]; exponent != 0) {
#pragma unroll
        for (float& value : s) value *= power_of_two(exponent);
      }
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
      for (int h = 0; h < 2; ++h) alpha[h] = weigh_block(s, h, factor[h], m[h], l[h], weights[h]);
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
    if (t == 0) shared.item = item;
    shared.sums_there.arrive();
  }

  // Of head h of the two: scores to weights, four threads a head. Returns what earlier sums are multiplied by.
  static SLUICE_DEVICE float weigh_block(const float (&s)[32], int h, float factor, float& m, float& l,
                                         std::uint32_t (&weights)[8]) {
    float most = m;
#pragma unroll
    for (int i = 0; i < 16; ++i) most = fmaxf(most, s[i / 2 * 4 + h * 2 + i % 2]);
    most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, 1));
    most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, 2));
    const float alpha = exp2_fast((m - most) * factor), below = -(most * factor);
    float sum = 0.0F;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float first = exp2_fast(std::fma(s[4 * i + 2 * h], factor, below));
      const float second = exp2_fast(std::fma(s[4 * i + 2 * h + 1], factor, below));
      weights[i] = half_pair(first, second);
      sum += first;
      sum += second;
    }
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 1);
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 2);
    l = std::fma(l, alpha, sum);
    m = most;
    return alpha;
  }

  // What values are multiplied by at last.
  SLUICE_DEVICE void finish(Shared& shared, const Item& item, int head, float m, float l) const {
    const float power = power_of_two(shared.exponents[(item.blocks() - 1) % kExponents]);
    m *= shared.query_powers[head];
    if (item.alone()) {
      shared.factors[head] = head < heads_of(item) ? 1.0F / with_sink(launch, item.first_head + head, m, l) * power : 0.0F;
    } else {
      shared.factors[head] = power;
      launch.partials[item.partial() + head] = m;
      launch.partials[item.partial() + kGroupHeads + head] = l;
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
      const int before = shared.exponents[(block == 0 ? 0 : block - 1) % kExponents];
      const int exponent = shared.exponents[block % kExponents];
      if (before != exponent) {
#pragma unroll
        for (float& a : alpha) a *= exponent_step(before, exponent);
      }
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
    const Item& item = shared.item;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int head = low + 8 * h;
      if (head >= heads_of(item)) continue;
      const float factor = shared.factors[head];
      float* to = (item.alone() ? out_of(launch, item.row, item.first_head + head, kDims)
                              : launch.partials + item.partial() + kPartialSums + head * kDims) +
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
