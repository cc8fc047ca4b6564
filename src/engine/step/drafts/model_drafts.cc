// Used by engine/runner/runner.h.
#include "engine/step/drafts/model_drafts.h"

#include <algorithm>
#include <numeric>

#include "engine/step/sampler.h"
#include "kernels/device/device.h"
#include "kernels/device/isa.h"

namespace sluice {

Status ModelDrafts::reserve(Device& device, const TableShape& shape, int sequences, int drafts, std::size_t pages) {
  finish();
  device_ = &device;
  slots_ = 1 + drafts;
  drafter_.assign(1, Drafter(shape));
  for (DeviceMemory* memory : {&params_, &sampled_}) *memory = DeviceMemory();
  const auto count = static_cast<std::size_t>(sequences);
  host_tokens_.assign(static_cast<std::size_t>(slots(sequences, drafts)), -1);
  if (&device == &cpu_device()) return {};
  SLUICE_ASSIGN_OR_RETURN(params_, device.map(host_tokens_.size() * sizeof(SampleRow), "parameters of drafts"));
  SLUICE_ASSIGN_OR_RETURN(sampled_, device.map(count * sizeof(SampledRow), "drawn drafts"));
  return tables_.reserve(device, shape,
                         {.rows = sequences, .latent_pages = count * pages, .window_pages = count * pages});
}

void ModelDrafts::make(const Exec& exec, Model& model, const CacheView& cache, std::span<const DraftRequest> requests,
                       float* logits, TokenId* tokens, std::int32_t first_slot) {
  finish();  // the last download may still be writing to host_tokens_
  first_slot_ = first_slot;
  prepare(requests);
  const bool on_cpu = device_ == &cpu_device();
  drafter_.front().run(
      exec, model, cache, sequences_, tokens, logits, on_cpu ? nullptr : &tables_,
      [&](int, std::span<const int> rows) { draw(exec, rows, model.config().vocab_size, logits, tokens); });
  const std::size_t bytes = requests.size() * static_cast<std::size_t>(slots_) * sizeof(TokenId);
  const auto* from = reinterpret_cast<const std::byte*>(tokens + first_slot);
  device_->download({reinterpret_cast<std::byte*>(host_tokens_.data()), from, bytes});
  mark_ = device_->mark();
  arriving_ = true;
}

// Makes the rows for the draws of all depths and uploads them at once, so that no upload is needed between depths.
void ModelDrafts::prepare(std::span<const DraftRequest> requests) {
  order_.resize(requests.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::ranges::stable_sort(order_, std::greater(), [&](int i) { return requests[static_cast<std::size_t>(i)].drafts; });
  sequences_.clear();
  counts_.clear();
  for (const DraftRequest& request : requests) counts_.push_back(request.drafts);
  for (const int i : order_) {
    const DraftRequest& request = requests[static_cast<std::size_t>(i)];
    const std::int32_t slot = first_slot_ + i * slots_;
    sequences_.push_back({.span = request.span, .drafts = request.drafts, .newest = request.newest, .slot = slot});
  }
  rows_.clear();
  drawn_rows_ = 0;
  for (int depth = 1; depth < slots_; ++depth) {
    for (std::size_t i = 0; i < sequences_.size() && sequences_[i].drafts >= depth; ++i) {
      const SamplingParams& sampling = *requests[static_cast<std::size_t>(order_[i])].sampling;
      const Position position = sequences_[i].span.first_position + depth;
      rows_.push_back(sample_row(sampling, i, position, sequences_[i].slot + depth));
      rows_.back().top_logprobs = -1;
    }
  }
  if (device_ == &cpu_device()) return;
  device_->upload({params_.data(), reinterpret_cast<const std::byte*>(rows_.data()), rows_.size() * sizeof(SampleRow)});
}

// Draws the next draft of each of the first sequences in order_, from its row of the logits.
void ModelDrafts::draw(const Exec& exec, std::span<const int> rows, int vocab, const float* logits, TokenId* tokens) {
  const std::span<const SampleRow> own = std::span(rows_).subspan(drawn_rows_, rows.size());
  Exec with_kernels = exec;
  if (with_kernels.kernels == nullptr) with_kernels.kernels = &scalar_kernels();
  SampleArgs args{.rows = static_cast<int>(own.size()),
                  .vocab = vocab,
                  .logits = logits,
                  .params = own.data(),
                  .newest = tokens,
                  .greedy = std::ranges::all_of(own, is_greedy)};
  if (device_ != &cpu_device()) {
    args.params = reinterpret_cast<const SampleRow*>(params_.data()) + drawn_rows_;
    args.out = reinterpret_cast<SampledRow*>(sampled_.data());
  } else {
    drawn_.resize(own.size());
    args.out = drawn_.data();
  }
  drawn_rows_ += rows.size();
  sample(with_kernels, args);
}

void ModelDrafts::finish() {
  if (std::exchange(arriving_, false)) device_->wait_for(mark_);
}

std::span<const TokenId> ModelDrafts::of(std::size_t request) {
  finish();
  const auto first = request * static_cast<std::size_t>(slots_) + 1;
  return std::span(host_tokens_).subspan(first, static_cast<std::size_t>(counts_[request]));
}

}  // namespace sluice
