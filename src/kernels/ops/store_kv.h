// store_kv: writes a step's rows to the cache for one layer, before the layer attends through it. There are up to three
// kinds of rows: keys and values of a token; compressed entries; an indexer's keys. Per kind:
//   x         with ratio > 1 the windows that close in the step, pooled (kernels/ops/compressor.h); else x is given, a
//             row per token
//   norm      of the first norm.dims values of each head: RMS norm, or layer norm with a bias, as in
//             kernels/ops/elementwise.h
//   rope      rotation at the row's position, or that of its window's first token
//   hadamard  of each head (kernels/ops/elementwise.h)
//   rounding  simulate_rows() by the codec `simulation` (kernels/ops/plane.h)
//   values    with values, the row is (key, zeros, value at value_offset), made in `joined`; else it is the key
//   coding    encode_rows() to the slots that the step has for the plane: window_slots with ratio 0, else those of
//             closed_by(ratio); without planes, as for queries, nothing is coded
// x becomes the keys that were coded, `joined` the rows with values. The kinds are independent of each other.
// Used by model/decoder/attention.cc, model/deepseek_mla/attention.cc, model/deepseek_v4/attention.cc and
// model/deepseek_v4/mtp.cc.
#pragma once

#include <array>

#include "base/check.h"
#include "kernels/ops/compressor.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/plane.h"

namespace sluice {

struct KvNorm {
  const float* weight = nullptr;  // [dims]; null: none
  const float* bias = nullptr;    // [dims]; null: an RMS norm
  float eps = 0.0F;
  int dims = 0;
};

struct KvRows {
  const PlaneView* planes = nullptr;  // [heads]; null: the rows are made but not coded
  int ratio = 0;                      // tokens per row; 0: a Window plane, one row per token
  int heads = 1, dims = 0;
  float* x = nullptr;            // [rows, heads, dims]; with ratio > 1 [closed windows, dims], which the op fills
  CompressArgs compressor = {};  // with ratio > 1: all fields but dim, ratio, step and pooled
  KvNorm norm = {};
  Rotation rope = {};
  bool hadamard = false;
  RowCodec simulation = RowCodec::kF32;
  int simulated_rope_dims = 0;           // rotary dims that are left as they are
  const float* values = nullptr;         // [rows, heads, value_dims]; null: there are no separate values
  int value_dims = 0, value_offset = 0;  // value_offset >= dims
  float* joined = nullptr;               // [rows, heads, value_offset + value_dims], with values
  bool codes_only = false;               // x and joined are not read afterwards, so their values need not be valid then
};

struct StoreKvArgs {
  static constexpr int kMostKinds = 3;

  const StepTables* step = nullptr;
  int count = 0;
  std::array<KvRows, kMostKinds> kinds{};
  // This op touches nothing that the op called just before it writes, nor that op what this one writes: a device may do
  // both at once.
  bool beside_last = false;

  StoreKvArgs& add(const KvRows& rows) {
    SLUICE_CHECK(count < kMostKinds, "more kinds of cached rows than a layer has");
    kinds[static_cast<std::size_t>(count++)] = rows;
    return *this;
  }
};
void store_kv(const Exec& exec, const StoreKvArgs& args);

}  // namespace sluice
