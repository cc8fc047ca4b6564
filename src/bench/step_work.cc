// Used by speed_case.h and step_kernels.h.
#include "bench/step_work.h"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

void add_work(const StageWork& from, double bytes_times, double rows, StageWork& to) {
  to.bytes += from.bytes * bytes_times;
  to.used_bytes += from.used_bytes * bytes_times;
  for (std::size_t form = 0; form < to.multiply_adds.size(); ++form) {
    to.multiply_adds[form] += from.multiply_adds[form] * rows;
  }
}

// Returns whether the indexer chooses in this step: some row sees more entries than it selects.
bool scores_index(const CacheLayout& layout, const StepShape& shape) {
  Position end = 0;
  for (const StepShape::Span& span : shape.spans) end = std::max(end, span.position + span.rows);
  return std::any_of(layout.planes.begin(), layout.planes.end(), [&](const PlaneSpec& plane) {
    return plane.read_beyond > 0 && end / plane.tokens_per_row > plane.read_beyond;
  });
}

}  // namespace

double floor_seconds(const StageWork& stage, const MachineSpeed& speed) {
  double arithmetic = 0;
  for (std::size_t form = 0; form < stage.multiply_adds.size(); ++form) {
    const double peak = speed.peak(static_cast<InputForm>(form));
    if (peak > 0) arithmetic += 2e-9 * stage.multiply_adds[form] / peak;
  }
  return std::max(speed.read_gbytes > 0 ? 1e-9 * stage.bytes / speed.read_gbytes : 0, arithmetic);
}

double floor_seconds(const StepWork& step, const MachineSpeed& speed) {
  return floor_seconds(step.dense, speed) + floor_seconds(step.experts, speed) + floor_seconds(step.head, speed) +
         floor_seconds(step.cache, speed);
}

int StepShape::rows() const {
  int rows = 0;
  for (const Span& span : spans) rows += span.rows;
  return rows;
}

ModelWork::ModelWork(const std::vector<BoundWeight>& weights, const CacheLayout& layout, const MoeConfig& moe)
    : layout_(layout), experts_(moe.n_routed_experts), slots_(moe.num_experts_per_tok) {
  constexpr int kMatricesOfExpert = 3;
  int matrices = 0;
  for (const BoundWeight& weight : weights) {
    matrices += weight.role == WeightRole::kRoutedExpert;
    add(weight);
  }
  if (matrices == 0) return;
  expert_layers_ = matrices / kMatricesOfExpert / experts_;
  const double experts = static_cast<double>(matrices) / kMatricesOfExpert;
  StageWork one;  // the average
  add_work(expert_, 1 / experts, 1 / experts, one);
  expert_ = one;
}

void ModelWork::add(const BoundWeight& weight) {
  StageWork work{.bytes = static_cast<double>(weight.stored_bytes),
                 .used_bytes = static_cast<double>(weight.used_bytes)};
  work.multiply_adds[static_cast<std::size_t>(weight.inputs)] =
      static_cast<double>(weight.out) * static_cast<double>(weight.in);
  switch (weight.role) {
    case WeightRole::kEveryRow:
      return add_work(work, 1, 1, dense_);
    case WeightRole::kLookedUp:
      return add_work(work, 1 / static_cast<double>(std::max<std::int64_t>(weight.out, 1)), 0, looked_up_);
    case WeightRole::kRoutedExpert:
      return add_work(work, 1, 1, expert_);
    case WeightRole::kLogits:
      return add_work(work, 1, 1, head_);
    case WeightRole::kIndexScores:
      return add_work(work, 1, 1, scores_);
    case WeightRole::kDrafted:
    case WeightRole::kNotUsed:
      return;
  }
}

double ModelWork::expected_experts(int rows) const {
  if (expert_layers_ == 0) return 0;
  return expert_layers_ * experts_ * (1 - std::pow(1 - static_cast<double>(slots_) / experts_, rows));
}

StepWork ModelWork::of(const StepShape& shape) const {
  const double rows = shape.rows();
  StepWork step;
  add_work(dense_, 1, rows, step.dense);
  add_work(looked_up_, rows, 0, step.dense);
  if (scores_index(layout_, shape)) add_work(scores_, 1, rows, step.dense);
  add_work(expert_, shape.experts_chosen, rows * slots_ * expert_layers_, step.experts);
  if (shape.logit_rows > 0) add_work(head_, 1, shape.logit_rows, step.head);
  for (const StepShape::Span& span : shape.spans) {
    step.cache.bytes += static_cast<double>(layout_.read_bytes(span.position, span.rows));
  }
  step.cache.used_bytes = step.cache.bytes;
  return step;
}

}  // namespace sluice
