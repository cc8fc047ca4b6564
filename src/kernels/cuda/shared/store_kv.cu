// store_kv (kernels/ops/store_kv.h) as one kernel: a team has a row of one of the kinds, and brings it from its
// projection, or from the window that it closes, to its codes in the cache. store_heads.h does rows of several heads.
// Other rows, as with a layer norm, are made by the parts one after the other.
// Used by kernels/cuda/shared and kernels/cuda/sm90.
#include <algorithm>
#include <span>

#include "kernels/cuda/shared/shared_ops.h"
#include "kernels/cuda/shared/rotate.h"
#include "kernels/cuda/shared/row_codec.h"
#include "kernels/cuda/shared/row_sums.h"
#include "kernels/cuda/shared/store_heads.h"
#include "kernels/cuda/shared/window_pool.h"
#include "kernels/ops/ops.h"
#include "kernels/ops/store_kv.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

struct StoreRows {
  static constexpr int kThreads = 256, kUnits = kThreads / 16;  // units of a row that are coded at once
  struct Kind {
    int begin;  // the kind's first team
    int dims, norm_dims;
    float norm_eps, hadamard_scale;  // hadamard_scale 0: no Hadamard transform
    const float* norm;
    Rotation rope;
    float* x;
    bool pools;
    WindowPool pool;
    const Position* positions;
    const RowSlot* slots;
    UnitCoder simulation, coder;
    PlaneView plane;
  };
  int count = 0;
  Kind kinds[StoreKvArgs::kMostKinds];

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    int of = 0;
    while (of + 1 < count && team.index >= kinds[of + 1].begin) ++of;
    const Kind& kind = kinds[of];
    float* row = reinterpret_cast<float*>(team.shared);
    int i = team.index - kind.begin;
    if (kind.pools) {
      const WindowPool::Ended ended = kind.pool.ended_by(i);
      if (!ended.any) return;
      team.each([&](int t) {
        for (int d = t; d < kind.dims; d += kThreads) {
          kind.pool.add_channel(ended, d, [&](float value) { row[d] = value; });
        }
      });
      if (!ended.window) return;
      i = ended.closed;
    } else {
      const float* x = kind.x + static_cast<std::ptrdiff_t>(i) * kind.dims;
      team.each([&](int t) {
        for (int d = t; d < kind.dims; d += kThreads) row[d] = x[d];
      });
    }
    team.sync();
    if (kind.norm != nullptr) norm(team, kind, row);
    if (kind.rope.table != nullptr) rotate(team, kind, row, kind.positions[i]);
    if (kind.hadamard_scale != 0.0F) transform(team, kind, row);
    simulate(team, kind, row);
    team.each([&](int t) {
      float* x = kind.x + static_cast<std::ptrdiff_t>(i) * kind.dims;
      for (int d = t; d < kind.dims; d += kThreads) x[d] = row[d];
    });
    if (kind.slots[i].value >= 0) encode(team, kind, row, kind.plane.row(kind.slots[i]));
  }

 private:
  SLUICE_DEVICE void norm(const Team<kThreads>& team, const Kind& kind, float* row) const {
    PerThread<float, kThreads> squares;
    team.each([&](int t) {
      squares[t] = 0.0F;
      if (t >= 16) return;
      float lane = 0.0F;
      SLUICE_UNROLL_8
      for (int d = t; d < kind.norm_dims; d += 16) lane = std::fma(row[d], row[d], lane);
      squares[t] = lane;
    });
    tree_sum16(team, squares);
    float* sum = row + kind.dims;
    team.each([&](int t) {
      if (t == 0) *sum = squares[t];
    });
    team.sync();
    const float r = reciprocal_rms(*sum, kind.norm_dims, kind.norm_eps);
    team.each([&](int t) {
      for (int d = t; d < kind.norm_dims; d += kThreads) row[d] = (row[d] * r) * kind.norm[d];
    });
    team.sync();
  }

  SLUICE_DEVICE void rotate(const Team<kThreads>& team, const Kind& kind, float* row, Position position) const {
    const Rotation& rope = kind.rope;
    const float* table = rope.table + static_cast<std::ptrdiff_t>(position) * rope.dims;
    team.each([&](int t) {
      for (int i = t; i < rope.dims / 2; i += kThreads) {
        rotate_pair(row + rope.offset, i, rope.dims / 2, rope.half_split, table[2 * i], table[2 * i + 1]);
      }
    });
    team.sync();
  }

  SLUICE_DEVICE void transform(const Team<kThreads>& team, const Kind& kind, float* row) const {
    for (int distance = 1; distance < kind.dims; distance *= 2) {
      team.each([&](int t) {
        for (int pair = t; pair < kind.dims / 2; pair += kThreads) butterfly(row, distance, pair);
      });
      team.sync();
    }
    team.each([&](int t) {
      for (int d = t; d < kind.dims; d += kThreads) row[d] = row[d] * kind.hadamard_scale;
    });
    team.sync();
  }

  SLUICE_DEVICE void simulate(const Team<kThreads>& team, const Kind& kind, float* row) const {
    const UnitCoder& coder = kind.simulation;
    if (coder.codec.values == RowValues::kF32) return;
    each_unit(team, coder, row, [&](int unit, int lane, float scale) { coder.simulate(row, unit, lane, scale); });
    team.sync();
  }

  SLUICE_DEVICE void encode(const Team<kThreads>& team, const Kind& kind, const float* row, const RowRef& to) const {
    const UnitCoder& coder = kind.coder;
    each_unit(team, coder, row, [&](int unit, int lane, float scale) { coder.store(to, row, unit, lane, scale); });
  }

  template <class Use>
  SLUICE_DEVICE void each_unit(const Team<kThreads>& team, const UnitCoder& coder, const float* row,
                               const Use& use) const {
    for (int first = 0; first < coder.units.count(); first += kUnits) {
      PerThread<float, kThreads> largest;
      team.each([&](int t) { largest[t] = coder.largest(row, first + t / 16, t % 16); });
      max16(team, largest);
      team.each([&](int t) {
        if (first + t / 16 < coder.units.count()) use(first + t / 16, t % 16, coder.scale_of(largest[t]));
      });
    }
  }
};

bool takes(const KvRows& kind) {
  const int dims = kind.dims;
  const bool transforms = !kind.hadamard || (dims > 0 && (dims & (dims - 1)) == 0);
  return kind.planes != nullptr && kind.heads == 1 && kind.values == nullptr && kind.norm.bias == nullptr &&
         kind.norm.dims <= dims && transforms;
}

}  // namespace

void store_kv(const Exec& exec, const StoreKvArgs& args) {
  if (!std::ranges::all_of(std::span(args.kinds).first(static_cast<std::size_t>(args.count)), takes)) {
    return stores_heads(args) ? store_heads(exec, args) : composed::store_kv(exec, args);
  }
  const StepTables& step = *args.step;
  StoreRows kernel{};
  std::int64_t teams = 0;
  int most_dims = 0;
  for (int i = 0; i < args.count; ++i) {
    const KvRows& rows = args.kinds[static_cast<std::size_t>(i)];
    StoreRows::Kind& kind = kernel.kinds[kernel.count++];
    kind = {.begin = static_cast<int>(teams),
            .dims = rows.dims,
            .norm_dims = rows.norm.dims,
            .norm_eps = rows.norm.eps,
            .hadamard_scale = rows.hadamard ? hadamard_scale(rows.dims) : 0.0F,
            .norm = rows.norm.weight,
            .rope = rows.rope,
            .x = rows.x,
            .pools = rows.ratio > 1,
            .pool = {},
            .positions = step.positions.data(),
            .slots = step.window_slots,
            .simulation = simulating_coder(rows.simulation, rows.dims, rows.simulated_rope_dims),
            .coder = unit_coder(rows.planes->format),
            .plane = *rows.planes};
    int of_kind = step.rows();
    if (rows.ratio > 0) {
      const ClosedWindows& closed = step.closed_by(rows.ratio);
      kind.positions = closed.positions, kind.slots = closed.slots;
      if (!kind.pools) of_kind = closed.count;
    }
    if (kind.pools) {
      CompressArgs compressor = rows.compressor;
      compressor.dim = rows.dims, compressor.ratio = rows.ratio, compressor.step = args.step;
      kind.pool = window_pool(compressor);
    }
    teams += of_kind;
    most_dims = rows.dims > most_dims ? rows.dims : most_dims;
  }
  const std::size_t shared = static_cast<std::size_t>(most_dims + 4) * sizeof(float);
  args.beside_last ? launch_beside(exec, teams, kernel, shared) : launch(exec, teams, kernel, shared);
}

}  // namespace sluice::SLUICE_CUDA_OPS
