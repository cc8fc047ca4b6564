#include "kernels/ops.h"

namespace sluice {
namespace {

const OpTable& table_of(const Exec& exec) {
  return exec.ops != nullptr ? *exec.ops : cpu_op_table();
}

}  // namespace

#define SLUICE_OP(op, Args)                     \
  void op(const Exec& exec, const Args& args) { \
    table_of(exec).op(exec, args);              \
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
