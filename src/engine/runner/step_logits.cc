// Used by device_plan.cc and runner.h.
#include "engine/runner/step_logits.h"

#include "base/check.h"
#include "engine/runner/device_choice.h"

namespace sluice {

Status StepLogits::reserve(std::size_t vocab, int sequences, int draws, int more_slots) {
  vocab_size_ = vocab;
  return draws_.reserve(*exec_.device, sequences, vocab, draws, more_slots);
}

Status StepLogits::make_room(std::size_t rows) {
  fetched_ = false;
  const std::size_t bytes = rows * vocab_size_ * sizeof(float);
  if (bytes <= memory_.size()) return {};
  memory_ = DeviceMemory();
  SLUICE_ASSIGN_OR_RETURN(memory_, exec_.device->map(bytes + bytes / 4, "logits"));
  return {};
}

void StepLogits::draw(std::span<const SampleRow> rows) {
  draws_.send(exec_, data(), vocab_size_, rows);
}

void StepLogits::fetch(std::span<float> to) const {
  SLUICE_CHECK(to.size() >= count_ * vocab_size_, "there is room for the logits");
  if (count_ == 0) return;
  exec_.device->download(
      {reinterpret_cast<std::byte*>(to.data()), memory_.data(), count_ * vocab_size_ * sizeof(float)});
}

std::span<const float> StepLogits::all() const {
  const auto* on_device = reinterpret_cast<const float*>(memory_.data());
  const std::size_t count = count_ * vocab_size_;
  if (!computes_later(exec_)) return {on_device, count};
  if (!fetched_ && count > 0) {
    on_host_.resize(count);
    fetch(on_host_);
    exec_.device->wait();
    fetched_ = true;
  }
  return {on_host_.data(), count};
}

}  // namespace sluice
