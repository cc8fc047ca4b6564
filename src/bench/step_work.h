// StepWork: the bytes that one step of a model has to read, its multiply-adds, and the least time that a machine needs
// for them.
//
// Counted from the model: the weights that loading bound (model/weights/bound_weight.h), the experts that the router
// chose, the cached rows that are read according to the layout. The floor is a sum over stages, for each the larger of
//   bytes / read bandwidth   and   sum over forms of inputs of 2 * multiply-adds / peak of that form
// Weights count as the checkpoint stores them, whatever the kernels read. Attention, norms and hyper-connections count
// as if they took no time.
// Thread safety: plain values and pure functions.
// Used by speed_case.h and step_kernels.h.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "base/index_types.h"
#include "bench/machine_probe.h"
#include "model/model.h"

namespace sluice {

struct StageWork {
  double bytes = 0, used_bytes = 0;                 // weights as stored, and as the kernels read them; or the cache's
  std::array<double, kInputForms> multiply_adds{};  // by InputForm
};

struct StepWork {
  StageWork dense, experts, head, cache;

  double bytes() const { return dense.bytes + experts.bytes + head.bytes + cache.bytes; }
  double used_bytes() const { return dense.used_bytes + experts.used_bytes + head.used_bytes + cache.used_bytes; }
};

double floor_seconds(const StageWork& stage, const MachineSpeed& speed);
double floor_seconds(const StepWork& step, const MachineSpeed& speed);

// The rows of a step.
struct StepShape {
  struct Span {
    Position position = 0;
    int rows = 0;
  };
  std::vector<Span> spans;
  int logit_rows = 0;
  double experts_chosen = 0;  // different experts, summed over the layers
  int rows() const;
};

// The cost of a loaded model, prepared once.
class ModelWork {
 public:
  ModelWork(const std::vector<BoundWeight>& weights, const CacheLayout& layout, const MoeConfig& moe);

  StepWork of(const StepShape& shape) const;
  int expert_layers() const { return expert_layers_; }
  // The expected number of different experts that `rows` rows choose in all layers together, if each chooses at random.
  double expected_experts(int rows) const;

 private:
  void add(const BoundWeight& weight);

  // The bytes and multiply-adds of one row, or of one expert.
  StageWork dense_, scores_, head_, expert_, looked_up_;
  const CacheLayout& layout_;
  int experts_ = 0, slots_ = 0, expert_layers_ = 0;
};

}  // namespace sluice
