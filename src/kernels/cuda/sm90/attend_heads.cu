// Attention in the order of attend_list_parts.h over rows of up to 128 dims, as grouped-query attention has them. A
// team has one or two tiles of 64 queries that share a key head, a group of warps each, and one more group that copies
// blocks of 64 keys and values through a ring. Weights stay in registers, and so do the segments merged so far.
// Used by attend_check.cu, attend_latent.cu, attend_list.cu and sm90_attend.cu.
#include "kernels/cuda/sm90/attend_list_parts.h"
#include "kernels/cuda/sm90/bf16_codes.h"

namespace sluice::cuda_sm90 {
namespace {

using cuda_ops::Team;

// kDims: 64 or 128, to which keys and values are padded with zeros. kCoded: rows of kMlaFp8.
template <int kDims, int kGroups, bool kCoded>
struct AttendHeads {
  static constexpr int kThreads = (kGroups + 1) * kGroupThreads, kResident = kGroups == 1 ? 2 : 1;
  static constexpr bool kWaits = true;
  // Tiles of a row; bytes of a stage: keys, then values.
  static constexpr int kTiles = kDims / 64, kStageBytes = 2 * kTiles * kTileBytes;
  static constexpr int kStages = kGroups == 1 ? (kDims == 64 ? 5 : 3) : 5;
  static constexpr int kLoadRegisters = kGroups == 1 ? (kCoded ? 48 : 40) : 56;  // registers of a loading thread
  static constexpr int kWorkRegisters = kGroups == 1 ? (kCoded ? 200 : 208) : 224;
  static constexpr int kAhead = kStages - 2;  // blocks being copied while one is awaited
  ListLaunch launch;

  struct Shared {
    std::byte q[kGroups][kTiles * kTileBytes], stages[kStages][kStageBytes];
    SharedBarrier full[kStages], empty[kStages];
    ListWork work;
  };

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    extern __shared__ __align__(1024) std::byte memory[];
    auto& shared = *reinterpret_cast<Shared*>(memory);
    if (threadIdx.x == 0) {
#pragma unroll
      for (int s = 0; s < kStages; ++s) {
        shared.full[s].init(kGroupThreads);
        shared.empty[s].init(kGroups * kGroupThreads);
      }
    }
    if (!take_work(launch, team.index, &shared.work)) return;
    const ListItem& item = shared.work.item;
    const int group = __shfl_sync(0xFFFFFFFFU, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
    if (group == kGroups) {
      leave_registers<kLoadRegisters>();
      load_keys(shared, item);
    } else {
      take_registers<kWorkRegisters>();
      attend(shared, item, group);
    }
  }

  static SLUICE_DEVICE int first_block(const ListItem& item) { return item.items.begin / kListBlock; }
  static SLUICE_DEVICE int blocks(const ListItem& item) {
    if (item.items.empty()) return 0;
    return (item.items.end - 1) / kListBlock + 1 - first_block(item);
  }

  // Loads keys; eight threads have a key's piece of 64 dims: keys t / 8, 16 further and so on.
  SLUICE_DEVICE void load_keys(Shared& shared, const ListItem& item) const {
    const int all = blocks(item);
    for (int n = 0; n < all + (kCoded ? 0 : kAhead); ++n) {
      if (n < all) {
        if (n >= kStages) shared.empty[n % kStages].wait(n / kStages - 1);
        load_block(shared.stages[n % kStages], item, (first_block(item) + n) * kListBlock);
      }
      if constexpr (kCoded) {
        show_tensor_cores();
        shared.full[n % kStages].arrive();
      } else {
        cuda_ops::commit_copies();
        if (n < kAhead) continue;
        cuda_ops::wait_copies<kAhead>();
        show_tensor_cores();
        shared.full[(n - kAhead) % kStages].arrive();
      }
    }
    cuda_ops::wait_copies<0>();
  }
  SLUICE_DEVICE void load_block(std::byte* stage, const ListItem& item, int first) const {
    const int t = static_cast<int>(threadIdx.x) % kGroupThreads, piece = t % 8;
    const AttendArgs& args = launch.args;
#pragma unroll(kCoded ? 1 : 4)
    for (int i = 0; i < 4; ++i) {
      const int key = t / 8 + 16 * i, at = first + key;
      const bool there = at >= item.items.begin && at < item.items.end;
      const RowRef row = row_of_item(launch, item, there ? at : item.items.begin);
#pragma unroll
      for (int c = 0; c < 2 * kTiles; ++c) {
        const int d = c % kTiles * 64 + piece * 8;
        const bool some = there && d < (c < kTiles ? args.dims : args.value_dims);
        std::byte* to = stage + c * kTileBytes + tile_piece(key, piece);
        const int from = some ? (c < kTiles ? d : args.value_offset + d) : 0;
        if constexpr (kCoded) {
          *reinterpret_cast<uint4*>(to) = some ? coded_piece(row, from) : uint4{0, 0, 0, 0};
        } else {
          cuda_ops::copy_16_or_zeros(to, row.data + 2 * from, some);
        }
      }
    }
  }
  SLUICE_DEVICE uint4 coded_piece(const RowRef& row, int d) const {
    const int codes = launch.plane.format.dims - launch.plane.format.rope_dims;
    if (d >= codes) return *reinterpret_cast<const uint4*>(row.data + codes + 2 * (d - codes));
    const auto scale = *reinterpret_cast<const std::uint32_t*>(row.scales + d / 128 * 4);
    return eight_codes(*reinterpret_cast<const uint2*>(row.data + d), code_factors(scale));
  }

  SLUICE_DEVICE void attend(Shared& shared, const ListItem& item, int group) const {
    const int t = static_cast<int>(threadIdx.x) % kGroupThreads, lane = t % 32, low = t / 32 * 16 + lane / 4;
    const int first_query = group * kTileQueries;
    round_queries<kTiles, kGroupThreads>(launch, item, first_query, t, shared.q[group]);
    show_tensor_cores();
    group == 0 ? meet_group<1>() : meet_group<2>();
    ItemRange seen[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int query = first_query + low + 8 * h;
      seen[h] = query < item.queries ? items_of_row(launch, item.span, item.row(launch, query)) : ItemRange{0, 0};
    }
    const GroupOperand q = inner_operand(shared.q[group]);
    float v[kDims / 2], sum[kDims / 2], m[2], l[2];
    ListTotal total[2];
#pragma unroll
    for (float& value : sum) value = 0.0F;
    const int all = blocks(item);
    for (int n = 0; n < all; ++n) {
      const int stage = n % kStages, block = first_block(item) + n;
      const int segment = segment_of(block * kListBlock);
      if (n == 0 || block * kListBlock == segment_begin(segment)) {
#pragma unroll
        for (float& value : v) value = 0.0F;
#pragma unroll
        for (int h = 0; h < 2; ++h) m[h] = -INFINITY, l[h] = 0.0F;
      }
      shared.full[stage].wait(n / kStages);
      const GroupOperand keys = inner_operand(shared.stages[stage]);
      float s[32];
#pragma unroll
      for (float& value : s) value = 0.0F;
      hold(s);
      begin_products();
#pragma unroll
      for (int step = 0; step < kDims / 16; ++step) {
        const int at = step / 4 * kTileBytes + step % 4 * 32;
        multiply_bf16<false>(s, further(q, at), further(keys, at));
      }
      commit_products();
      wait_products<0>();
      hold(s);
      mask_scores(s, block * kListBlock, seen);
      float alpha[2];
      std::uint32_t weights[2][8];
      weigh_block(s, launch.factor, m, l, alpha, weights);
      if (__any_sync(0xFFFFFFFFU, alpha[0] != 1.0F || alpha[1] != 1.0F)) {
#pragma unroll
        for (int i = 0; i < kDims / 2; ++i) v[i] *= alpha[i / 2 % 2];
      }
      const GroupOperand values = outer_operand(shared.stages[stage] + kTiles * kTileBytes);
      std::uint32_t a[4][4];
#pragma unroll
      for (int step = 0; step < 4; ++step) {
#pragma unroll
        for (int r = 0; r < 4; ++r) a[step][r] = weights[r % 2][2 * step + r / 2];
        hold(a[step]);
      }
      hold(v);
      begin_products();
#pragma unroll
      for (int step = 0; step < 4; ++step) multiply_bf16(v, a[step], further(values, step * 16 * kTileRowBytes));
      commit_products();
      wait_products<0>();
      hold(v);
      shared.empty[stage].arrive();
      if (n + 1 < all && (block + 1) * kListBlock != segment_begin(segment + 1)) continue;
      if (launch.segments > 0) {
        leave(item, low, m, l, v);
        return;
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) total[h].merge(m[h], sum_of_weights(l[h]), launch.factor);
#pragma unroll
      for (int i = 0; i < kDims / 2; ++i) {
        sum[i] = std::fma(total[i / 2 % 2].now, v[i], total[i / 2 % 2].before * sum[i]);
      }
    }
    finish(item, first_query + low, total, sum);
  }

  // Stores a segment's sums, to be merged.
  SLUICE_DEVICE void leave(const ListItem& item, int low, const float (&m)[2], const float (&l)[2],
                           const float (&v)[kDims / 2]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, dims = launch.args.value_dims;
    float* part = item.partial(launch);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int query = low + 8 * h;
      const float all = sum_of_weights(l[h]);
      if (query >= item.queries) continue;
      if (lane % 4 == 0) part[query] = m[h], part[kTileQueries + query] = all;
      store(part + 2 * kTileQueries + query * dims, v, h, 1.0F);
    }
  }
  SLUICE_DEVICE void finish(const ListItem& item, int low, const ListTotal (&total)[2],
                            const float (&sum)[kDims / 2]) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int query = low + 8 * h;
      if (query >= item.queries) continue;
      const int head = item.head(launch, query);
      const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(item.row(launch, query)) * launch.args.heads + head;
      const float factor = total[h].last_factor(launch, head);
      if (launch.values) store(launch.args.out + at * launch.args.value_dims, sum, h, factor);
      if (launch.pairs != nullptr) store_pairs(launch.pairs + at * launch.args.value_dims / 2, sum, h, factor);
    }
  }
  SLUICE_DEVICE void store_pairs(float* to, const float (&v)[kDims / 2], int h, float factor) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kDims / 8; ++i) {
      const int d = 8 * i + lane % 4 * 2;
      if (d >= launch.args.value_dims) continue;
      reinterpret_cast<std::uint32_t*>(to)[d / 2] =
          bf16_pair(v[4 * i + 2 * h] * factor + 0.0F, v[4 * i + 2 * h + 1] * factor + 0.0F);
    }
  }
  // Stores the values of head h of a thread's two.
  SLUICE_DEVICE void store(float* to, const float (&v)[kDims / 2], int h, float factor) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kDims / 8; ++i) {
      const int d = 8 * i + lane % 4 * 2;
      if (d >= launch.args.value_dims) continue;
      *reinterpret_cast<float2*>(to + d) = {v[4 * i + 2 * h] * factor + 0.0F, v[4 * i + 2 * h + 1] * factor + 0.0F};
    }
  }
};

template <int kDims, int kGroups, bool kCoded>
void start(const Exec& exec, const ListLaunch& launch, std::int64_t teams) {
  using Kernel = AttendHeads<kDims, kGroups, kCoded>;
  static_assert(sizeof(typename Kernel::Shared) * Kernel::kResident + 1024 * Kernel::kResident <= 233472);
  cuda_ops::launch(exec, teams, Kernel{launch}, sizeof(typename Kernel::Shared));
}

}  // namespace

void attend_heads(const Exec& exec, const ListLaunch& launch, std::int64_t teams) {
  const bool wide = launch.args.dims > 64 || launch.args.value_dims > 64;
  const bool both = launch.tiles.queries > kTileQueries;
  if (launch.plane.format.codec == RowCodec::kMlaFp8) return start<128, 1, true>(exec, launch, teams);
  if (wide) return both ? start<128, 2, false>(exec, launch, teams) : start<128, 1, false>(exec, launch, teams);
  both ? start<64, 2, false>(exec, launch, teams) : start<64, 1, false>(exec, launch, teams);
}

}  // namespace sluice::cuda_sm90
