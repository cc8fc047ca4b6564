// Used by cli/commands, engine, engine/runner, engine/step and verify.
#include "engine/step/sampler.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "kernels/device/device.h"
#include "kernels/device/isa.h"
#include "sluice/sampling.h"

namespace sluice {

static_assert(kSampledTop >= kMaxTopLogprobs && kSampledIds >= kMaxLogprobIds);

SampleRow sample_row(const SamplingParams& params, std::size_t row, Position position, std::int32_t slot) {
  SampleRow out{.row = static_cast<int>(row),
                .temperature = params.temperature,
                .top_k = params.top_k,
                .top_p = params.top_p,
                .min_p = params.min_p,
                .seed = params.seed,
                .position = position,
                .top_logprobs = params.top_logprobs,
                .slot = slot,
                .processed = params.processed_logprobs,
                .id_count = static_cast<int>(params.logprob_ids.size())};
  std::ranges::copy(params.logprob_ids, out.ids.begin());
  return out;
}

Status read_sample(const SampledRow& row, Position position, Sampled* out) {
  out->top.clear();
  if (row.status != SampleStatus::kOk) {
    return internal_error(fmt::format("the logits of position {} are {}", position - 1,
                                      row.status == SampleStatus::kNotNumbers ? "not numbers" : "all -infinity"));
  }
  out->token = row.token;
  out->logprob = row.logprob;
  for (std::size_t t = 0; t < static_cast<std::size_t>(row.top_count); ++t) {
    out->top.push_back({row.top_ids[t], row.top_logprobs[t]});
  }
  return {};
}

Status sample_one(const Exec& exec, std::span<const float> logits, const SamplingParams& params, Position position,
                  Sampled* out, const std::uint32_t* allowed, const float* bias) {
  // On the CPU, whose threads a device may be using.
  if (exec.device != nullptr) exec.device->wait();
  const Exec own{.pool = exec.pool, .kernels = exec.kernels != nullptr ? exec.kernels : &scalar_kernels()};
  SampleRow row = sample_row(params, 0, position);
  row.allowed = allowed;
  row.bias = bias;
  SampledRow sampled;
  sluice::sample(
      own,
      {.rows = 1, .vocab = static_cast<int>(logits.size()), .logits = logits.data(), .params = &row, .out = &sampled});
  return read_sample(sampled, position, out);
}

Status TokenDraws::reserve(Device& device, int sequences, std::size_t vocab, int draws, int more_slots) {
  const auto count = static_cast<std::size_t>(sequences);
  most_rows_ = count * static_cast<std::size_t>(draws);
  device_ = &device;
  for (DeviceMemory* memory : {&newest_, &params_, &sampled_, &masks_}) *memory = DeviceMemory();
  SLUICE_ASSIGN_OR_RETURN(
      newest_, device.map((count + static_cast<std::size_t>(more_slots)) * sizeof(TokenId), "the newest tokens"));
  if (&device == &cpu_device()) return {};
  SLUICE_ASSIGN_OR_RETURN(params_, device.map(most_rows_ * sizeof(SampleRow), "sampling parameters"));
  SLUICE_ASSIGN_OR_RETURN(sampled_, device.map(most_rows_ * sizeof(SampledRow), "sampled tokens"));
  SLUICE_ASSIGN_OR_RETURN(masks_,
                          device.map(most_rows_ * ((vocab + 31) / 32) * sizeof(std::uint32_t), "masks of tokens"));
  return {};
}

void TokenDraws::send(const Exec& exec, const float* logits, std::size_t vocab, std::span<const SampleRow> rows) {
  SLUICE_CHECK(!outstanding_, "what was sent before was taken");
  SLUICE_CHECK(rows.size() <= most_rows_, "each sequence draws for its newest token and its drafts");
  outstanding_ = true;
  rows_.resize(rows.size());
  if (rows.empty()) return;
  Exec own = exec;
  if (own.kernels == nullptr) own.kernels = &scalar_kernels();  // the model uses no CPU kernels
  SampleArgs args{.rows = static_cast<int>(rows.size()),
                  .vocab = static_cast<int>(vocab),
                  .logits = logits,
                  .params = rows.data(),
                  .out = rows_.data(),
                  .newest = newest(),
                  .greedy = std::ranges::all_of(rows, is_greedy)};
  if (device_ == &cpu_device()) return sample(own, args);
  placed_.assign(rows.begin(), rows.end());
  const std::size_t bytes = (vocab + 31) / 32 * sizeof(std::uint32_t);
  args.masks = reinterpret_cast<const std::uint32_t*>(masks_.data());
  std::int32_t masks = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].allowed == nullptr) continue;
    device_->upload({masks_.data() + static_cast<std::size_t>(masks) * bytes,
                     reinterpret_cast<const std::byte*>(rows[i].allowed), bytes});
    placed_[i].mask = masks++;
  }
  device_->upload({params_.data(), reinterpret_cast<const std::byte*>(placed_.data()), rows.size_bytes()});
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

namespace {

Status out_of_range(const char* field, const char* range, double found) {
  return invalid_argument(fmt::format("{}: expected {}, found {}", field, range, found));
}

}  // namespace

Status validate(const SamplingParams& p) {
  if (!kTemperatures.contains(p.temperature)) {
    return out_of_range("temperature", "0 to 100", static_cast<double>(p.temperature));
  }
  if (!kTopPs.contains(p.top_p)) {
    return out_of_range("top_p", "more than 0 and at most 1", static_cast<double>(p.top_p));
  }
  if (!kTopKs.contains(p.top_k)) return out_of_range("top_k", "-1 or 0 (off) or a count", p.top_k);
  if (!kMinPs.contains(p.min_p)) return out_of_range("min_p", "0 to 1", static_cast<double>(p.min_p));
  if (p.top_logprobs < -1 || p.top_logprobs > kMaxTopLogprobs) {
    return out_of_range("top_logprobs", fmt::format("-1 (off) to {}", kMaxTopLogprobs).c_str(), p.top_logprobs);
  }
  if (p.logprob_ids.size() > static_cast<std::size_t>(kMaxLogprobIds)) {
    return out_of_range("logprob_ids", fmt::format("at most {} token ids", kMaxLogprobIds).c_str(),
                        static_cast<double>(p.logprob_ids.size()));
  }
  if (!p.logprob_ids.empty() && p.top_logprobs < 0) {
    return invalid_argument("logprob_ids: expected top_logprobs of 0 or more with it, found -1");
  }
  return {};
}

}  // namespace sluice
