// encode_rows, decode_rows, simulate_rows (kernels/plane.h): sixteen threads a unit of a row.
#include "kernels/attention.h"
#include "kernels/cuda/shared/row_codec.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

struct EncodeRows {
  static constexpr int kThreads = 16;
  PlaneView plane;
  RowCodecInfo codec;
  RowUnits units;
  const float* x;
  std::ptrdiff_t ldx;
  const RowSlot* slots;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int i = team.index / units.count(), unit = team.index % units.count();
    if (slots[i].value < 0) return;
    const RowRef row = plane.row(slots[i]);
    const int in_blocks = codec.in_blocks(plane.format.dims, plane.format.rope_dims);
    if (unit < units.coded) {
      encode(team, row, x + i * ldx, unit, in_blocks);
    } else {
      copy(team, row, x + i * ldx, in_blocks, in_blocks + (unit - units.coded) * units.rest_values);
    }
  }

  SLUICE_DEVICE void encode(const Team<kThreads>& team, const RowRef& row, const float* from, int unit,
                            int in_blocks) const {
    const int first = unit * units.coded_values, left = in_blocks - first;
    const int n = left < units.coded_values ? left : units.coded_values;
    const float scale = unit_scale(team, codec.values, n, [&](int d) { return from[first + d]; });
    team.each([&](int t) {
      if (codec.values == RowValues::kE2m1) {
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
      if (codec.scales == RowScales::kF32) {
        store_f32(row.scales + 4 * unit, scale);
      } else {
        row.scales[unit] = static_cast<std::byte>(pow2_to_e8m0(scale));
      }
      if (unit > 0) return;
      for (int pad = units.coded * codec.bytes_of_scale(); pad < plane.format.scale_bytes; ++pad) {
        row.scales[pad] = std::byte{0};
      }
    });
  }

  // Values from `begin` on, as f32 or bf16, behind the codes.
  SLUICE_DEVICE void copy(const Team<kThreads>& team, const RowRef& row, const float* from, int in_blocks,
                          int begin) const {
    std::byte* rest = row.data + codec.code_bytes(in_blocks);
    team.each([&](int t) {
      for (int d = begin + t; d < begin + units.rest_values && d < plane.format.dims; d += kThreads) {
        if (codec.values == RowValues::kF32) {
          store_f32(rest + 4 * d, from[d]);
        } else {
          store_u16(rest + 2 * (d - in_blocks), to_bf16(from[d]).bits);
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
  RowValues values;
  RowUnits units;
  int dims, in_blocks;
  float* x;
  std::ptrdiff_t ldx;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int unit = team.index % units.count(), of_unit = units.coded > 0 ? units.coded_values : units.rest_values;
    float* block = x + team.index / units.count() * ldx + unit * of_unit;
    const int left = (units.coded > 0 ? in_blocks : dims) - unit * of_unit, n = left < of_unit ? left : of_unit;
    if (values == RowValues::kBf16) {
      team.each([&](int t) {
        for (int d = t; d < n; d += kThreads) block[d] = round_to_bf16(block[d]);
      });
      return;
    }
    const float scale = unit_scale(team, values, n, [&](int d) { return block[d]; });
    team.each([&](int t) {
      for (int d = t; d < n; d += kThreads) {
        const float scaled = block[d] / scale;
        block[d] =
            (values == RowValues::kE2m1 ? e2m1_to_float(float_to_e2m1(scaled)) : e4m3_to_float(float_to_e4m3(scaled))) *
            scale;
      }
    });
  }
};

}  // namespace

void encode_rows(const Exec& exec, const EncodeRowsArgs& args) {
  const RowFormat& format = args.plane->format;
  const RowUnits units = row_units(format.codec, format.dims, format.rope_dims);
  launch(exec, std::int64_t{args.count} * units.count(),
         EncodeRows{*args.plane, row_codec(format.codec), units, args.x, args.ldx, args.slots});
}

void decode_rows(const Exec& exec, const DecodeRowsArgs& args) {
  launch(exec, std::int64_t{args.count} * args.plane->format.dims,
         DecodeRows{*args.step, args.span, *args.plane, args.first, args.x});
}

void simulate_rows(const Exec& exec, const SimulateRowsArgs& args) {
  const RowCodecInfo& info = row_codec(args.codec);
  if (info.values == RowValues::kF32) return;
  RowUnits units = row_units(args.codec, args.dims, args.rope_dims);
  if (info.quantised()) units.rest = 0;  // dims that are not in blocks stay as they are
  launch(exec, std::int64_t{args.count} * units.count(),
         SimulateRows{info.values, units, args.dims, info.in_blocks(args.dims, args.rope_dims), args.x, args.ldx});
}

}  // namespace sluice::SLUICE_CUDA_OPS
