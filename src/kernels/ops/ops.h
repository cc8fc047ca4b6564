// OpTable: every whole op, for one device. The header of an op is its specification and gives the function that models
// call, which hands its arguments to exec.ops. cpu_op_table() cuts the arguments into tiles for the kernels of an
// instruction set and the threads of exec.pool. ref_op_table() follows the headers in plain scalar loops and is the
// oracle of every device.
//
// Ops are as large as a device can fuse. A composed op is its parts (kernels/ops/parts.h) one after the
// other, unless the device has something better: composed::OP calls the parts of exec.ops. So a new device has all ops
// as soon as it has the parts, and replaces an entry if one kernel can do the work of several.
//
// Arguments are plain values: numbers, and addresses of memory that outlives the step (weights, scratch, tables, the
// pools' planes). So an op may be computed after the call has returned.
// Used by engine, kernels and model.
#pragma once

#include "kernels/ops/all_gather.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/expand_and_attend.h"
#include "kernels/ops/experts.h"
#include "kernels/ops/hyper_connection.h"
#include "kernels/ops/indexer.h"
#include "kernels/ops/parts.h"
#include "kernels/ops/previous_rows.h"
#include "kernels/ops/project.h"
#include "kernels/ops/router.h"
#include "kernels/ops/sample.h"
#include "kernels/ops/store_kv.h"

namespace sluice {

// name of the op, type of its arguments
#define SLUICE_COMPOSED_OPS(X)              \
  X(hc_leave_enter, HcLeaveEnterArgs)       \
  X(add_norm, AddNormArgs)                  \
  X(project, ProjectArgs)                   \
  X(store_kv, StoreKvArgs)                  \
  X(index_select, IndexSelectArgs)          \
  X(attend, AttendArgs)                     \
  X(expand_and_attend, ExpandAndAttendArgs) \
  X(route, RouteArgs)                       \
  X(all_gather, AllGatherArgs)
#define SLUICE_WHOLE_OPS(X)          \
  X(embed, EmbedArgs)                \
  X(experts, ExpertsArgs)            \
  X(previous_rows, PreviousRowsArgs) \
  X(sample, SampleArgs)              \
  X(take_ids, TakeIdsArgs)
#define SLUICE_OPS(X) SLUICE_COMPOSED_OPS(X) SLUICE_WHOLE_OPS(X)

struct OpTable {
  const char* device;
  const PartTable* parts;  // null: another table, which has the parts, does the composed ops
  ExpertsSupport experts_support = {};
#define SLUICE_OP(op, Args) void (*op)(const Exec& exec, const Args& args);
  SLUICE_OPS(SLUICE_OP)
#undef SLUICE_OP
};

const OpTable& cpu_op_table();
const OpTable& ref_op_table();

namespace composed {
#define SLUICE_OP(op, Args) void op(const Exec& exec, const Args& args);
SLUICE_COMPOSED_OPS(SLUICE_OP)
#undef SLUICE_OP
}  // namespace composed

}  // namespace sluice
