// encode_rows, decode_rows, simulate_rows (kernels/plane.h): sixteen threads a unit of a row.
#include "kernels/attention.h"
#include "kernels/cuda/shared/row_codec.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

struct EncodeRows {
  static constexpr int kThreads = 16;
  PlaneView plane;
  RowUnits units;
  const float* x;
  std::ptrdiff_t ldx;
  const RowSlot* slots;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int i = team.index / units.count(), unit = team.index % units.count();
    if (slots[i].value < 0) return;
    const RowRef row = plane.row(slots[i]);
    const bool whole = plane.format.codec == RowCodec::kIndexFp8 || plane.format.codec == RowCodec::kIndexFp4;
    const int plain = units.coded == 0 ? 0 : whole ? plane.format.dims : plane.format.dims - plane.format.rope_dims;
    if (unit < units.coded) {
      encode(team, row, x + i * ldx, unit, plain);
    } else {
      copy(team, row, x + i * ldx, plain, plain + (unit - units.coded) * units.rest_values);
    }
  }

  SLUICE_DEVICE void encode(const Team<kThreads>& team, const RowRef& row, const float* from, int unit,
                            int plain) const {
    const RowCodec codec = plane.format.codec;
    const int first = unit * units.coded_values, left = plain - first;
    const int n = left < units.coded_values ? left : units.coded_values;
    const float scale = unit_scale(team, codec, n, [&](int d) { return from[first + d]; });
    team.each([&](int t) {
      if (codec == RowCodec::kIndexFp4) {
        for (int d = first + 2 * t; d < first + n; d += 2 * kThreads) {
          const int low = float_to_e2m1(from[d] / scale), high = float_to_e2m1(from[d + 1] / scale);
          row.data[d / 2] = static_cast<std::byte>(low | (high << 4));
        }
      } else {
        for (int d = first + t; d < first + n; d += kThreads) {
          row.data[d] = static_cast<std::byte>(float_to_e4m3(from[d] / scale));
        }
      }
      if (t > 0) return;
      if (codec == RowCodec::kMlaFp8 || codec == RowCodec::kIndexFp8) {
        store_f32(row.scales + 4 * unit, scale);
      } else {
        row.scales[unit] = static_cast<std::byte>(pow2_to_e8m0(scale));
      }
      if (codec != RowCodec::kV4Fp8 || unit > 0) return;
      for (int pad = units.coded; pad < plane.format.scale_bytes; ++pad) row.scales[pad] = std::byte{0};
    });
  }

  // Values from `begin` on, as f32 or bf16, behind `plain` bytes of codes.
  SLUICE_DEVICE void copy(const Team<kThreads>& team, const RowRef& row, const float* from, int plain,
                          int begin) const {
    team.each([&](int t) {
      for (int d = begin + t; d < begin + units.rest_values && d < plane.format.dims; d += kThreads) {
        if (plane.format.codec == RowCodec::kF32) {
          store_f32(row.data + 4 * d, from[d]);
        } else {
          store_u16(row.data + plain + 2 * (d - plain), to_bf16(from[d]).bits);
        }
      }
    });
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
  RowCodec codec;
  RowUnits units;
  int dims, plain;
  float* x;
  std::ptrdiff_t ldx;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int unit = team.index % units.count(), of_unit = units.coded > 0 ? units.coded_values : units.rest_values;
    float* values = x + team.index / units.count() * ldx + unit * of_unit;
    const int left = (units.coded > 0 ? plain : dims) - unit * of_unit, n = left < of_unit ? left : of_unit;
    if (codec == RowCodec::kBf16) {
      team.each([&](int t) {
        for (int d = t; d < n; d += kThreads) values[d] = round_to_bf16(values[d]);
      });
      return;
    }
    const float scale = unit_scale(team, codec, n, [&](int d) { return values[d]; });
    team.each([&](int t) {
      for (int d = t; d < n; d += kThreads) {
        const float scaled = values[d] / scale;
        values[d] = (codec == RowCodec::kIndexFp4 ? e2m1_to_float(float_to_e2m1(scaled))
                                                  : e4m3_to_float(float_to_e4m3(scaled))) *
                    scale;
      }
    });
  }
};

}  // namespace

void encode_rows(const Exec& exec, const EncodeRowsArgs& args) {
  const RowFormat& format = args.plane->format;
  const RowUnits units = row_units(format.codec, format.dims, format.rope_dims);
  launch(exec, std::int64_t{args.count} * units.count(), EncodeRows{*args.plane, units, args.x, args.ldx, args.slots});
}

void decode_rows(const Exec& exec, const DecodeRowsArgs& args) {
  launch(exec, std::int64_t{args.count} * args.plane->format.dims,
         DecodeRows{*args.step, args.span, *args.plane, args.first, args.x});
}

void simulate_rows(const Exec& exec, const SimulateRowsArgs& args) {
  if (args.codec == RowCodec::kF32) return;
  RowUnits units = row_units(args.codec, args.dims, args.rope_dims);
  const bool coded = units.coded > 0;
  if (coded) units.rest = 0;  // rotary dims stay as they are
  const int plain =
      args.codec == RowCodec::kIndexFp8 || args.codec == RowCodec::kIndexFp4 ? args.dims : args.dims - args.rope_dims;
  launch(exec, std::int64_t{args.count} * units.count(),
         SimulateRows{args.codec, units, args.dims, plain, args.x, args.ldx});
}

}  // namespace sluice::SLUICE_CUDA_OPS
