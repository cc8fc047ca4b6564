// OpTable: every whole op, for one device. The header of an op is its specification and gives the function that models
// call, which hands its arguments to exec.ops; cpu_op_table() cuts them into tiles for the kernels of an instruction
// set and the threads of exec.pool, ref_op_table() follows the headers in plain scalar loops and is the oracle of every
// device.
//
// Arguments are plain values: numbers, and addresses of what outlives the step (weights, scratch, tables, the pools'
// streams), so that an op may be computed after the call has returned. Only the lists that a call brings itself
// (LinearArgs::jobs) may end with it: who computes later copies them.
#pragma once

#include "kernels/attend_expanded.h"
#include "kernels/attention.h"
#include "kernels/compressor.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/experts.h"
#include "kernels/hyper_connection.h"
#include "kernels/indexer.h"
#include "kernels/linear.h"
#include "kernels/router.h"
#include "kernels/sample.h"
#include "kernels/stream.h"

namespace sluice {

// op, its arguments
#define SLUICE_OPS(X)                    \
  X(embed, EmbedArgs)                    \
  X(rms_norm, RmsNormArgs)               \
  X(layer_norm, LayerNormArgs)           \
  X(rope_heads, RopeHeadsArgs)           \
  X(hadamard, HadamardArgs)              \
  X(add, AddArgs)                        \
  X(add_bias, AddBiasArgs)               \
  X(scale, ScaleArgs)                    \
  X(gather_rows, GatherRowsArgs)         \
  X(copy_heads, CopyHeadsArgs)           \
  X(linear, LinearArgs)                  \
  X(hc_mix, HcMixArgs)                   \
  X(hc_collapse, HcCollapseArgs)         \
  X(hc_expand, HcExpandArgs)             \
  X(route, RouteArgs)                    \
  X(experts, ExpertsArgs)                \
  X(encode_rows, EncodeRowsArgs)         \
  X(decode_rows, DecodeRowsArgs)         \
  X(simulate_rows, SimulateRowsArgs)     \
  X(compress, CompressArgs)              \
  X(index_select, IndexSelectArgs)       \
  X(attend, AttendArgs)                  \
  X(attend_expanded, AttendExpandedArgs) \
  X(merge_attention, MergeAttentionArgs) \
  X(sample, SampleArgs)                  \
  X(take_ids, TakeIdsArgs)

struct OpTable {
  const char* device;
#define SLUICE_OP(op, Args) void (*op)(const Exec& exec, const Args& args);
  SLUICE_OPS(SLUICE_OP)
#undef SLUICE_OP
};

const OpTable& cpu_op_table();
const OpTable& ref_op_table();

}  // namespace sluice
