// encode_rows, decode_rows, simulate_rows (kernels/ops/plane.h): sixteen threads for each unit of a row.
// Called through the table of ops (kernels/ops/ops.h).
#include "kernels/ops/attention.h"
#include "kernels/cuda/shared/row_codec.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

struct EncodeRows {
  static constexpr int kThreads = 16;
  PlaneView plane;
  UnitCoder coder;
  const float* x;
  std::ptrdiff_t ldx;
  const RowSlot* slots;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int i = team.index / coder.units.count(), unit = team.index % coder.units.count();
    if (slots[i].value < 0) return;
    const RowRef row = plane.row(slots[i]);
    PerThread<float, kThreads> largest;
    team.each([&](int t) { largest[t] = coder.largest(x + i * ldx, unit, t); });
    max16(team, largest);
    team.each([&](int t) { coder.store(row, x + i * ldx, unit, t, coder.scale_of(largest[t])); });
  }
};

struct DecodeRows {
  static constexpr int kThreads = 1;
  StepTables step;
  RowSpan span;
  PlaneView plane;
  std::int32_t first;
  float* x;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int dims = plane.format.dims;
    const RowRef row = latent_row(step, span, plane, first + team.index / dims);
    x[team.index] = decode_value(plane.format, row, team.index % dims);
  }
};

struct SimulateRows {
  static constexpr int kThreads = 16;
  UnitCoder coder;
  float* x;
  std::ptrdiff_t ldx;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int unit = team.index % coder.units.count();
    float* row = x + team.index / coder.units.count() * ldx;
    PerThread<float, kThreads> largest;
    team.each([&](int t) { largest[t] = coder.largest(row, unit, t); });
    max16(team, largest);
    team.each([&](int t) { coder.simulate(row, unit, t, coder.scale_of(largest[t])); });
  }
};

}  // namespace

void encode_rows(const Exec& exec, const EncodeRowsArgs& args) {
  const UnitCoder coder = unit_coder(args.plane->format);
  launch(exec, std::int64_t{args.count} * coder.units.count(),
         EncodeRows{*args.plane, coder, args.x, args.ldx, args.slots});
}

void decode_rows(const Exec& exec, const DecodeRowsArgs& args) {
  launch(exec, std::int64_t{args.count} * args.plane->format.dims,
         DecodeRows{*args.step, args.span, *args.plane, args.first, args.x});
}

void simulate_rows(const Exec& exec, const SimulateRowsArgs& args) {
  const UnitCoder coder = simulating_coder(args.codec, args.dims, args.rope_dims);
  if (coder.codec.values == RowValues::kF32) return;
  launch(exec, std::int64_t{args.count} * coder.units.count(), SimulateRows{coder, args.x, args.ldx});
}

}  // namespace sluice::SLUICE_CUDA_OPS
