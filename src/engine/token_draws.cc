#include "engine/token_draws.h"

#include "base/check.h"
#include "kernels/isa.h"

namespace sluice {

Status TokenDraws::reserve(Device& device, int sequences) {
  const auto count = static_cast<std::size_t>(sequences);
  device_ = &device;
  for (DeviceMemory* memory : {&newest_, &params_, &sampled_}) *memory = DeviceMemory();
  SLUICE_ASSIGN_OR_RETURN(newest_, device.map(count * sizeof(TokenId), "the newest tokens"));
  if (&device == &cpu_device()) return {};
  SLUICE_ASSIGN_OR_RETURN(params_, device.map(count * sizeof(SampleRow), "sampling parameters"));
  SLUICE_ASSIGN_OR_RETURN(sampled_, device.map(count * sizeof(SampledRow), "sampled tokens"));
  return {};
}

void TokenDraws::send(const Exec& exec, const float* logits, std::size_t vocab, std::span<const SampleRow> rows) {
  SLUICE_CHECK(!outstanding_, "what was sent before was taken");
  SLUICE_CHECK(rows.size() * sizeof(TokenId) <= newest_.size(), "each sequence draws once in a step");
  outstanding_ = true;
  rows_.resize(rows.size());
  if (rows.empty()) return;
  Exec own = exec;
  if (own.kernels == nullptr) own.kernels = &scalar_kernels();  // a model that uses none
  SampleArgs args{.rows = static_cast<int>(rows.size()),
                  .vocab = static_cast<int>(vocab),
                  .logits = logits,
                  .params = rows.data(),
                  .out = rows_.data(),
                  .newest = newest()};
  if (device_ == &cpu_device()) return sample(own, args);
  device_->upload({params_.data(), reinterpret_cast<const std::byte*>(rows.data()), rows.size_bytes()});
  args.params = reinterpret_cast<const SampleRow*>(params_.data());
  args.out = reinterpret_cast<SampledRow*>(sampled_.data());
  sample(own, args);
  device_->download({reinterpret_cast<std::byte*>(rows_.data()), sampled_.data(), rows.size() * sizeof(SampledRow)});
  mark_ = device_->mark();
}

std::span<const SampledRow> TokenDraws::take() {
  SLUICE_CHECK(outstanding_, "what is taken was sent");
  outstanding_ = false;
  if (!rows_.empty()) device_->wait_for(mark_);
  return rows_;
}

}  // namespace sluice
