// The logits of all rows of a long span would be hundreds of megabytes, so they exist a tile at a time. Only the
// sampler's result is kept of a row.
// Used by runner.h.
#include "engine/runner/step_results.h"

#include <algorithm>
#include <cmath>

#include "engine/runner/device_choice.h"
#include "kernels/common/math.h"
#include "kernels/device/isa.h"

namespace sluice {
namespace {

// 1 + the tokens that stand before it: higher logits, and equal ones of lower ids.
int rank_of(TokenId token, std::span<const float> logits) {
  const float own = logits[static_cast<std::size_t>(token)];
  int before = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    before += static_cast<int>(logits[i] > own || (logits[i] == own && i < static_cast<std::size_t>(token)));
  }
  return 1 + before;
}

// log-softmax in the sampler's words (kernels/ops/sample.h).
std::vector<float> distribution_of(std::span<const float> logits) {
  const float highest = *std::ranges::max_element(logits);
  std::uint64_t sum = 0;
  for (const float logit : logits) {
    sum += static_cast<std::uint64_t>(std::llrint(exp_f32(logit - highest) * kWeightUnits));
  }
  const float log_sum = log_f32(static_cast<float>(sum) * (1.0F / kWeightUnits));
  std::vector<float> out(logits.begin(), logits.end());
  for (float& logit : out) logit = ((logit - highest) - log_sum) + 0.0F;  // a zero is +0, as the sampler tells it
  return out;
}

}  // namespace

Status StepResults::begin(std::span<const StepSpan> spans, std::size_t vocab) {
  vocab_size_ = vocab;
  SLUICE_RETURN_IF_ERROR(plan_scores(spans));
  plan_exports(spans);
  return {};
}

Status StepResults::plan_scores(std::span<const StepSpan> spans) {
  wanted_.clear();
  scores_.clear();
  for (const StepSpan& span : spans) wanted_.insert(wanted_.end(), span.scores.begin(), span.scores.end());
  exports_.on_tile = nullptr;
  if (wanted_.empty()) return {};
  const std::size_t row_bytes = vocab_size_ * sizeof(float);
  std::size_t rows = std::clamp<std::size_t>(kScoreBytes / row_bytes, 1, wanted_.size());
  if (score_rows_limit_ > 0) rows = std::min(rows, static_cast<std::size_t>(score_rows_limit_));
  if (rows * row_bytes > tile_.size()) {
    exec_.device->wait();
    tile_ = DeviceMemory();
    SLUICE_ASSIGN_OR_RETURN(tile_, exec_.device->map(rows * row_bytes, "logits of a tile of scored rows"));
  }
  if (computes_later(exec_)) host_tile_.resize(std::max(host_tile_.size(), rows * vocab_size_));
  exports_.tile_rows = static_cast<int>(rows);
  exports_.tile = reinterpret_cast<float*>(tile_.data());
  exports_.on_tile = [this](int first, int count) { score_tile(first, count); };
  scores_.resize(wanted_.size());
  return {};
}

// There when the device is waited for.
void StepResults::fetch_ints(const std::int32_t* from, std::size_t count, std::vector<std::int32_t>* to) {
  to->resize(count);
  exec_.device->download({reinterpret_cast<std::byte*>(to->data()), reinterpret_cast<const std::byte*>(from),
                          count * sizeof(std::int32_t)});
}

void StepResults::plan_exports(std::span<const StepSpan> spans) {
  experts_count_ = entries_count_ = 0;
  exports_.on_experts = nullptr;
  exports_.on_entries = nullptr;
  std::size_t rows = 0;
  bool experts = false, entries = false;
  for (const StepSpan& span : spans) {
    rows += static_cast<std::size_t>(span.rows());
    experts |= span.options != nullptr && span.options->return_routed_experts;
    entries |= span.options != nullptr && span.options->return_sparse_indices;
  }
  const auto next = [](std::vector<ExportedLayer>& layers, std::size_t* count) -> ExportedLayer& {
    if (*count == layers.size()) layers.emplace_back();
    return layers[(*count)++];
  };
  if (experts) {
    exports_.on_experts = [this, rows, next](int layer, const std::int32_t* ids, int slots) {
      ExportedLayer& of = next(experts_, &experts_count_);
      of.layer = layer, of.width = slots;
      fetch_ints(ids, rows * static_cast<std::size_t>(slots), &of.values);
    };
  }
  if (entries) {
    exports_.on_entries = [this, rows, next](int layer, int tokens_per_row, int most, const std::int32_t* chosen,
                                             const std::int32_t* counts) {
      ExportedLayer& of = next(entries_, &entries_count_);
      of.layer = layer, of.width = most, of.tokens_per_row = tokens_per_row, of.all = chosen == nullptr;
      if (of.all) return;
      fetch_ints(chosen, rows * static_cast<std::size_t>(most), &of.values);
      fetch_ints(counts, rows, &of.counts);
    };
  }
}

const float* StepResults::tile_on_host(int rows) {
  if (!computes_later(exec_)) return exports_.tile;
  exec_.device->download({reinterpret_cast<std::byte*>(host_tile_.data()), tile_.data(),
                          static_cast<std::size_t>(rows) * vocab_size_ * sizeof(float)});
  exec_.device->wait();
  return host_tile_.data();
}

// Scores a row by a draw in which only the one token is allowed: log-probabilities are those of the raw logits whatever
// is allowed. It runs on the CPU, with the kernels of every draw there; a device's kernels give the same bits.
void StepResults::score_tile(int first, int rows) {
  const float* logits = tile_on_host(rows);
  const auto count = static_cast<std::size_t>(rows);
  const std::size_t words = (vocab_size_ + 31) / 32;
  masks_.assign(count * words, 0);
  rows_.clear();
  for (int i = 0; i < rows; ++i) {
    const ScoreRequest& request = wanted_[static_cast<std::size_t>(first + i)];
    std::uint32_t* mask = &masks_[static_cast<std::size_t>(i) * words];
    mask[request.token / 32] = 1U << (request.token % 32);
    rows_.push_back({.row = i, .temperature = 0, .top_logprobs = request.top_logprobs, .allowed = mask});
  }
  scored_.resize(count);
  const Exec own{.pool = exec_.pool, .kernels = exec_.kernels != nullptr ? exec_.kernels : &scalar_kernels()};
  sample(own, {.rows = rows,
               .vocab = static_cast<int>(vocab_size_),
               .logits = logits,
               .params = rows_.data(),
               .out = scored_.data()});
  exec_.pool->run(rows, [&](int i, int) {
    const auto row = static_cast<std::size_t>(i);
    const std::span<const float> of_row(logits + row * vocab_size_, vocab_size_);
    const std::size_t score = static_cast<std::size_t>(first) + row;
    const ScoreRequest& request = wanted_[score];
    scores_[score] = {scored_[row], rank_of(request.token, of_row)};
    if (request.distribution) scores_[score].distribution = distribution_of(of_row);
  });
}

}  // namespace sluice
