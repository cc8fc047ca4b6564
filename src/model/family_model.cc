// Used by model/decoder/model.h, model/deepseek_mla/model.h and model/deepseek_v4/model.h.
#include "model/family_model.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/device/counting_device.h"

namespace sluice {

Status FamilyModel::prepare(Device& device, int rows, Position positions) {
  if (device_ == &device && rows <= rows_ && positions <= positions_) return {};
  device_ = &device;
  rows_ = std::max(rows, rows_);
  positions_ = std::max(positions, positions_);
  const auto most = static_cast<std::size_t>(rows_);
  reserve(scratch_, most);
  reserve_own(most);
  SLUICE_RETURN_IF_ERROR(scratch_.take(device));
  for (RopeTable& rope : ropes_) SLUICE_RETURN_IF_ERROR(rope.reserve(device, positions_));
  return {};
}

void FamilyModel::reserve_own(std::size_t rows) {
  if (group_.ranks == 1) return;
  const auto dealt = [&](std::int64_t outputs) {
    return deals_outputs(group_, outputs) ? outputs / group_.ranks : std::int64_t{0};
  };
  scratch_.add(rows, own_heads_, &own_.heads, InputForms::of_profile(profile_.inputs));
  scratch_.add(rows, dealt(config_.hidden_size), &own_.y);
  scratch_.add(std::min(rows, OwnColumns::kLogitRows), dealt(config_.vocab_size), &own_.logits);
}

std::size_t FamilyModel::step_bytes(int rows, Position positions) {
  CountingDevice device;
  SLUICE_CHECK(prepare(device, rows, positions).ok(), "counting does not fail");
  const std::size_t bytes = device.bytes();
  scratch_ = Scratch();  // these have memory of the device
  for (RopeTable& rope : ropes_) rope = RopeTable(rope.frequencies());
  return bytes;
}

void Model::draft(const Exec&, const StepTables&, const CacheView&, int, float*, const Observer*) {
  SLUICE_CHECK(false, "only models that draft are asked to");
}

void FamilyModel::begin(const StepTables& step) {
  for (RopeTable& rope : ropes_) rope.ensure(step.end);
}

}  // namespace sluice
