// PartTable: the parts of which a device's composed ops (kernels/ops/ops.h) are made. Each part is one pass over rows
// and has its specification in its header. Drivers of devices, their composed ops and tests call parts; models call
// whole ops.
// Used by ops.h.
#pragma once

#include "kernels/ops/attend_expanded.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/compressor.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/hyper_connection.h"
#include "kernels/ops/indexer.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/plane.h"
#include "kernels/ops/residual.h"
#include "kernels/ops/router.h"

namespace sluice {

// name of the part, type of its arguments
#define SLUICE_PARTS(X)                  \
  X(rms_norm, RmsNormArgs)               \
  X(layer_norm, LayerNormArgs)           \
  X(rope_heads, RopeHeadsArgs)           \
  X(hadamard, HadamardArgs)              \
  X(add, AddArgs)                        \
  X(add_bias, AddBiasArgs)               \
  X(scale, ScaleArgs)                    \
  X(gather_rows, GatherRowsArgs)         \
  X(copy_heads, CopyHeadsArgs)           \
  X(prepare_rows, PrepareRowsArgs)       \
  X(norm_inputs, NormInputsArgs)         \
  X(linear, LinearArgs)                  \
  X(hc_mix, HcMixArgs)                   \
  X(hc_collapse, HcCollapseArgs)         \
  X(hc_expand, HcExpandArgs)             \
  X(choose_experts, RouteArgs)           \
  X(encode_rows, EncodeRowsArgs)         \
  X(decode_rows, DecodeRowsArgs)         \
  X(simulate_rows, SimulateRowsArgs)     \
  X(compress, CompressArgs)              \
  X(select_entries, IndexSelectArgs)     \
  X(attend_keys, AttendArgs)             \
  X(attend_expanded, AttendExpandedArgs) \
  X(merge_attention, MergeAttentionArgs)

struct PartTable {
#define SLUICE_PART(part, Args) void (*part)(const Exec& exec, const Args& args);
  SLUICE_PARTS(SLUICE_PART)
#undef SLUICE_PART
};

}  // namespace sluice
