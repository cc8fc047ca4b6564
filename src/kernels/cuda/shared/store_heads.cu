// store_heads() as one kernel: a warp has a head of a row of one of the kinds, and brings it from its projection to its
// codes.
// Used by store_kv.cu.
#include <algorithm>
#include <span>

#include "kernels/cuda/shared/rotate.h"
#include "kernels/cuda/shared/row_codec.h"
#include "kernels/cuda/shared/row_sums.h"
#include "kernels/cuda/shared/store_heads.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

constexpr int kMostPlanes = 128, kMostRowDims = 1024;

// With few rows a team rehearses: it forms a head once, from whatever shared memory holds and without a store, while
// the kernels ahead still work. That loads the instructions and the head's line of the rotation table.
struct StoreHeads {
  static constexpr int kThreads = 32;
  static constexpr bool kWaits = true;
  struct Kind {
    int begin;  // the kind's first team
    int heads, dims, norm_dims;
    float norm_eps;
    const float* norm;
    Rotation rope;
    float* x;
    const Position* positions;
    int first_base;  // the index in `bases` of its first head; -1: nothing is coded
    bool codes_only, in_pairs;
    const RowSlot* slots;
    PlaneView plane;  // the plane of its heads, except the base
    UnitCoder coder;
    const float* values;
    int value_dims, value_offset;
    float* joined;
    SLUICE_DEVICE int row_dims() const { return values != nullptr ? value_offset + value_dims : dims; }
  };
  int count = 0;
  bool rehearses = false;
  Kind kinds[StoreKvArgs::kMostKinds];
  std::byte* bases[kMostPlanes];

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    int of = 0;
    while (of + 1 < count && team.index >= kinds[of + 1].begin) ++of;
    const Kind& kind = kinds[of];
    const int head = (team.index - kind.begin) % kind.heads, i = (team.index - kind.begin) / kind.heads;
    const Position position = kind.positions[i];
    const RowSlot slot = kind.first_base < 0 ? RowSlot(-1) : kind.slots[i];
    float* row = reinterpret_cast<float*>(team.shared);
    SLUICE_ROLLED
    for (int run = rehearses ? 0 : 1; run < 2; ++run) {
      const bool real = run == 1;
      if (real) {
        wait_for_kernels();
        load(team, kind, row, i * kind.heads + head);
      }
      if (kind.norm != nullptr) norm(team, kind, row);
      if (kind.rope.table != nullptr) rotate(team, kind, row, position);
      if (real && !kind.codes_only) leave(team, kind, row, i * kind.heads + head);
      if (slot.value < 0) continue;
      PlaneView plane = kind.plane;
      plane.base = bases[kind.first_base + head];
      if (kind.in_pairs) {
        store_pairs(team, row, kind.row_dims(), plane.row(slot), real);
      } else if (real) {
        store(team, kind.coder, row, plane.row(slot));
      }
    }
  }

 private:
  SLUICE_DEVICE void load(const Team<kThreads>& team, const Kind& kind, float* row, std::ptrdiff_t at) const {
    const float *x = kind.x + at * kind.dims, *values = kind.values + at * kind.value_dims;
    const bool apart = kind.values != nullptr;
    team.each([&](int t) {
      SLUICE_UNROLL_4
      for (int d = t; d < kind.dims; d += kThreads) row[d] = x[d];
      if (!apart) return;
      SLUICE_UNROLL_4
      for (int d = t; d < kind.value_dims; d += kThreads) row[kind.value_offset + d] = values[d];
      for (int d = kind.dims + t; d < kind.value_offset; d += kThreads) row[d] = 0.0F;
    });
    team.sync();
  }

  SLUICE_DEVICE void norm(const Team<kThreads>& team, const Kind& kind, float* row) const {
    PerThread<float, kThreads> squares;  // both halves of the warp compute the same sums
    team.each([&](int t) {
      float lane = 0.0F;
      SLUICE_UNROLL_8
      for (int d = t % 16; d < kind.norm_dims; d += 16) lane = std::fma(row[d], row[d], lane);
      squares[t] = lane;
    });
    tree_sum16(team, squares);
    team.sync();
    team.each([&](int t) {
      const float r = reciprocal_rms(squares[t], kind.norm_dims, kind.norm_eps);
      SLUICE_UNROLL_4
      for (int d = t; d < kind.norm_dims; d += kThreads) row[d] = (row[d] * r) * kind.norm[d];
    });
    team.sync();
  }

  SLUICE_DEVICE void rotate(const Team<kThreads>& team, const Kind& kind, float* row, Position position) const {
    const Rotation& rope = kind.rope;
    const float* table = rope.table + static_cast<std::ptrdiff_t>(position) * rope.dims;
    team.each([&](int t) {
      SLUICE_UNROLL_4
      for (int i = t; i < rope.dims / 2; i += kThreads) {
        rotate_pair(row + rope.offset, i, rope.dims / 2, rope.half_split, table[2 * i], table[2 * i + 1]);
      }
    });
    team.sync();
  }

  SLUICE_DEVICE void leave(const Team<kThreads>& team, const Kind& kind, const float* row, std::ptrdiff_t at) const {
    float *x = kind.x + at * kind.dims, *joined = kind.joined + at * kind.row_dims();
    team.each([&](int t) {
      SLUICE_UNROLL_4
      for (int d = t; d < kind.dims; d += kThreads) x[d] = row[d];
      if (kind.values == nullptr) return;
      for (int d = t; d < kind.row_dims(); d += kThreads) joined[d] = row[d];
    });
  }

  // Stores a row in bf16, with an even number of values, at a multiple of 4 bytes.
  SLUICE_DEVICE void store_pairs(const Team<kThreads>& team, const float* row, int dims, const RowRef& to,
                                 bool real) const {
    team.each([&](int t) {
      SLUICE_UNROLL_4
      for (int pair = t; pair < dims / 2; pair += kThreads) {
        const std::uint32_t low = to_bf16(row[2 * pair]).bits, high = to_bf16(row[2 * pair + 1]).bits;
        if (real) reinterpret_cast<std::uint32_t*>(to.data)[pair] = low | high << 16;
      }
    });
  }

  SLUICE_DEVICE void store(const Team<kThreads>& team, const UnitCoder& coder, const float* row,
                           const RowRef& to) const {
    for (int first = 0; first < coder.units.count(); first += 2) {
      PerThread<float, kThreads> largest;
      team.each([&](int t) { largest[t] = coder.largest(row, first + t / 16, t % 16); });
      max16(team, largest);
      team.each([&](int t) {
        const int unit = first + t / 16;
        if (unit < coder.units.count()) coder.store(to, row, unit, t % 16, coder.scale_of(largest[t]));
      });
    }
  }
};

int row_dims(const KvRows& kind) {
  return kind.values != nullptr ? kind.value_offset + kind.value_dims : kind.dims;
}

bool alike(const PlaneView& a, const PlaneView& b) {
  return a.page_bytes == b.page_bytes && a.rows_per_page == b.rows_per_page && a.format.codec == b.format.codec &&
         a.format.dims == b.format.dims && a.format.rope_dims == b.format.rope_dims &&
         a.format.data_bytes == b.format.data_bytes && a.format.scale_bytes == b.format.scale_bytes;
}

bool takes_heads(const KvRows& kind) {
  const bool formed = kind.ratio <= 1 && kind.norm.bias == nullptr && kind.norm.dims <= kind.dims && !kind.hadamard &&
                      kind.simulation == RowCodec::kF32 && row_dims(kind) <= kMostRowDims;
  if (!formed || kind.planes == nullptr) return formed && kind.values == nullptr;
  return std::ranges::all_of(std::span(kind.planes, static_cast<std::size_t>(kind.heads)),
                             [&](const PlaneView& plane) { return alike(plane, *kind.planes); });
}

// True if rows of bf16 can be written two values at a time.
bool in_pairs(const KvRows& kind) {
  const PlaneView& plane = *kind.planes;
  const auto even = [&](const PlaneView& of) { return reinterpret_cast<std::uintptr_t>(of.base) % 4 == 0; };
  return plane.format.codec == RowCodec::kBf16 && plane.format.dims % 2 == 0 && plane.page_bytes % 4 == 0 &&
         std::ranges::all_of(std::span(kind.planes, static_cast<std::size_t>(kind.heads)), even);
}

}  // namespace

bool stores_heads(const StoreKvArgs& args) {
  int planes = 0;
  for (const KvRows& kind : std::span(args.kinds).first(static_cast<std::size_t>(args.count))) {
    if (!takes_heads(kind)) return false;
    planes += kind.planes != nullptr ? kind.heads : 0;
  }
  return planes <= kMostPlanes;
}

void store_heads(const Exec& exec, const StoreKvArgs& args) {
  constexpr int kRehearsed = 8;  // at most this many rows are rehearsed
  const StepTables& step = *args.step;
  StoreHeads kernel{};
  kernel.rehearses = step.rows() <= kRehearsed;
  std::int64_t teams = 0;
  int bases = 0, most_dims = 0;
  for (const KvRows& rows : std::span(args.kinds).first(static_cast<std::size_t>(args.count))) {
    StoreHeads::Kind& kind = kernel.kinds[kernel.count++];
    const bool latent = rows.ratio > 0;
    kind = {.begin = static_cast<int>(teams),
            .heads = rows.heads,
            .dims = rows.dims,
            .norm_dims = rows.norm.dims,
            .norm_eps = rows.norm.eps,
            .norm = rows.norm.weight,
            .rope = rows.rope,
            .x = rows.x,
            .positions = latent ? step.closed_by(rows.ratio).positions : step.positions.data(),
            .first_base = -1,
            .codes_only = rows.codes_only && rows.planes != nullptr,
            .in_pairs = false,
            .slots = latent ? step.closed_by(rows.ratio).slots : step.window_slots,
            .plane = {},
            .coder = {},
            .values = rows.values,
            .value_dims = rows.value_dims,
            .value_offset = rows.value_offset,
            .joined = rows.joined};
    if (rows.planes != nullptr) {
      kind.first_base = bases, kind.in_pairs = in_pairs(rows);
      kind.plane = *rows.planes, kind.coder = unit_coder(rows.planes->format);
      for (int head = 0; head < rows.heads; ++head) kernel.bases[bases++] = rows.planes[head].base;
    }
    teams += std::int64_t{rows.heads} * (latent ? step.closed_by(rows.ratio).count : step.rows());
    most_dims = std::max(most_dims, row_dims(rows));
  }
  const std::size_t shared = static_cast<std::size_t>(most_dims) * sizeof(float);
  SLUICE_CHECK(teams <= INT32_MAX, "as many teams as an index can tell apart");
  launch(exec, teams, kernel, shared);
}

}  // namespace sluice::SLUICE_CUDA_OPS
