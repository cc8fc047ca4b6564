#include "engine/model_drafts.h"

#include <algorithm>

#include "engine/sampler.h"
#include "kernels/device.h"
#include "kernels/isa.h"

namespace sluice {

Status ModelDrafts::reserve(Device& device, const TableShape& shape, int sequences, int drafts, std::size_t pages) {
  device_ = &device;
  slots_ = 1 + drafts;
  drafter_.assign(1, Drafter(shape));
  for (DeviceMemory* memory : {&tokens_, &params_, &sampled_}) *memory = DeviceMemory();
  const auto count = static_cast<std::size_t>(sequences);
  host_tokens_.assign(count * static_cast<std::size_t>(slots_), -1);
  SLUICE_ASSIGN_OR_RETURN(tokens_, device.map(host_tokens_.size() * sizeof(TokenId), "drafted tokens"));
  if (&device == &cpu_device()) return {};
  SLUICE_ASSIGN_OR_RETURN(params_, device.map(host_tokens_.size() * sizeof(SampleRow), "parameters of drafts"));
  SLUICE_ASSIGN_OR_RETURN(sampled_, device.map(count * sizeof(SampledRow), "drawn drafts"));
  return tables_.reserve(device, shape,
                         {.rows = sequences, .latent_pages = count * pages, .window_pages = count * pages});
}

void ModelDrafts::make(const Exec& exec, Model& model, const CacheView& cache, std::span<const DraftWish> wishes,
                       float* logits) {
  sequences_.clear();
  for (const DraftWish& wish : wishes) {
    const auto slot = static_cast<std::int32_t>(sequences_.size()) * slots_;
    sequences_.push_back({.span = wish.span, .drafts = wish.drafts, .newest = wish.newest, .slot = slot});
  }
  const auto vocab = static_cast<std::size_t>(model.config().vocab_size);
  const bool on_cpu = device_ == &cpu_device();
  rows_.clear();
  rows_.reserve(host_tokens_.size());  // what is enqueued reads them later
  drafter_.front().run(exec, model, cache, sequences_, reinterpret_cast<const TokenId*>(tokens_.data()), logits,
                       on_cpu ? nullptr : &tables_,
                       [&](int depth, std::span<const int> rows) { draw(exec, wishes, depth, rows, logits, vocab); });
  const std::size_t bytes = wishes.size() * static_cast<std::size_t>(slots_) * sizeof(TokenId);
  device_->download({reinterpret_cast<std::byte*>(host_tokens_.data()), tokens_.data(), bytes});
  device_->wait();
}

// The next draft of sequence rows[i] from row i of the logits.
void ModelDrafts::draw(const Exec& exec, std::span<const DraftWish> wishes, int depth, std::span<const int> rows,
                       const float* logits, std::size_t vocab) {
  const std::size_t begin = rows_.size();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto of = static_cast<std::size_t>(rows[i]);
    rows_.push_back(
        sample_row(*wishes[of].sampling, i, wishes[of].span.first_position + depth, sequences_[of].slot + depth));
    rows_.back().top_logprobs = -1;
  }
  const std::span<const SampleRow> own = std::span(rows_).subspan(begin);
  Exec with_kernels = exec;
  if (with_kernels.kernels == nullptr) with_kernels.kernels = &scalar_kernels();
  drawn_.resize(own.size());
  SampleArgs args{.rows = static_cast<int>(own.size()),
                  .vocab = static_cast<int>(vocab),
                  .logits = logits,
                  .params = own.data(),
                  .out = drawn_.data(),
                  .newest = reinterpret_cast<TokenId*>(tokens_.data()),
                  .greedy = std::ranges::all_of(own, is_greedy)};
  if (device_ != &cpu_device()) {
    std::byte* params = params_.data() + begin * sizeof(SampleRow);
    device_->upload({params, reinterpret_cast<const std::byte*>(own.data()), own.size_bytes()});
    args.params = reinterpret_cast<const SampleRow*>(params);
    args.out = reinterpret_cast<SampledRow*>(sampled_.data());
  }
  sample(with_kernels, args);
}

std::span<const TokenId> ModelDrafts::of(std::size_t wish) const {
  const auto first = static_cast<std::size_t>(sequences_[wish].slot) + 1;
  return std::span(host_tokens_).subspan(first, static_cast<std::size_t>(sequences_[wish].drafts));
}

}  // namespace sluice
