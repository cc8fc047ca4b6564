// Used by engine, kernels and model.
#include "kernels/ops/ops.h"

#include <type_traits>

#include "base/threads/pool_meter.h"

namespace sluice {
namespace {

const OpTable& table_of(const Exec& exec) {
  return exec.ops != nullptr ? *exec.ops : cpu_op_table();
}

// The stage of a step that an op belongs to.
template <class Args>
StepStage stage_of(const Args& /*args*/) {
  constexpr bool kOfExperts = std::is_same_v<Args, ExpertsArgs> || std::is_same_v<Args, RouteArgs>;
  constexpr bool kOfAttention = std::is_same_v<Args, AttendArgs> || std::is_same_v<Args, ExpandAndAttendArgs> ||
                                std::is_same_v<Args, IndexSelectArgs> || std::is_same_v<Args, StoreKvArgs>;
  return kOfExperts ? StepStage::kExperts : kOfAttention ? StepStage::kAttention : StepStage::kRest;
}
StepStage stage_of(const ProjectArgs& args) {
  return args.stage;
}

template <class Args>
void measured(PoolMeter& meter, void (*op)(const Exec&, const Args&), const Exec& exec, const Args& args) {
  const StepStage before = meter.enter(stage_of(args));
  op(exec, args);
  meter.enter(before);
}

}  // namespace

#define SLUICE_OP(op, Args)                                                   \
  void op(const Exec& exec, const Args& args) {                               \
    PoolMeter* meter = exec.pool != nullptr ? exec.pool->meter() : nullptr;   \
    const auto call = table_of(exec).op;                                      \
    meter == nullptr ? call(exec, args) : measured(*meter, call, exec, args); \
  }
SLUICE_OPS(SLUICE_OP)
#undef SLUICE_OP

#define SLUICE_PART(part, Args)                   \
  void part(const Exec& exec, const Args& args) { \
    table_of(exec).parts->part(exec, args);       \
  }
SLUICE_PARTS(SLUICE_PART)
#undef SLUICE_PART

}  // namespace sluice
