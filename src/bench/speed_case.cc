// Used by rounds.h and synthetic_state.cc.
#include "bench/speed_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <ranges>

#include "base/philox.h"
#include "engine/step/stepper.h"
#include "kernels/cuda/device.h"

namespace sluice {
namespace {

// Returns whether the draft of token `at` is right. The share `acceptance` of every 20 tokens in a row is right, and
// chance (Philox) decides which ones. It is the same in every run; a few dozen free draws would be right more or less
// often than was asked.
bool is_right(double acceptance, int at) {
  constexpr int kTokens = 20;
  const auto chance = [](int token) {
    return philox4x32({static_cast<std::uint32_t>(token), 0, 0, 0x64726166}, {})[0];
  };
  const int first = at / kTokens * kTokens;
  int before = 0;
  for (int token = first; token < first + kTokens; ++token) before += chance(token) < chance(at) ? 1 : 0;
  const auto right_until = [&](int token) { return std::lround(token * acceptance); };
  return before < right_until(first + kTokens) - right_until(first);
}

}  // namespace

int right_drafts(double acceptance, int at, int drafts) {
  int right = 0;
  while (right < drafts && is_right(acceptance, at + right)) ++right;
  return right;
}

const char* SpeedCase::name() const {
  switch (kind) {
    case Kind::kPrefill:
      return "prefill";
    case Kind::kDecode:
      return "decode";
    case Kind::kSpeculative:
      return by_model ? "model drafts" : "given drafts";
    case Kind::kConcurrent:
      return "concurrent";
  }
  return "?";
}

std::string SpeedCase::text() const {
  if (kind == Kind::kConcurrent) return fmt::format("{} concurrent, {} + {}", concurrency, prompt, tokens);
  std::string text = fmt::format("{} {}", name(), tokens);
  if (kind == Kind::kSpeculative) {
    text += fmt::format(", {} {} at {}", drafts, by_model ? "by the model" : "given", acceptance);
  }
  return depth > 0 ? fmt::format("{} at {}", text, depth) : text;
}

int SpeedCase::context() const {
  constexpr int kFirstToken = 1, kHeadStart = 512;  // a sequence may decode before the last prompt is through
  return kind == Kind::kConcurrent ? prompt + tokens + kFirstToken + kHeadStart : depth + tokens + drafts;
}

SpeedCases::SpeedCases(Runner* runner, const EngineSetup& options)
    : runner_(runner),
      options_(options),
      work_(runner->load_report().weights, runner->model().cache_layout(), runner->model().config().moe) {
  options_.speculation.speculative = Speculative::kOff;  // concurrent requests are measured without
  watch_routing_ = [this](std::string_view /*name*/, const float* values, int rows, int columns) {
    std::map<float, int> rows_of;
    for (const float* id = values; id < values + rows * columns; ++id) ++rows_of[*id];
    experts_chosen_ += static_cast<double>(rows_of.size());
    ++routing_.layers;
    routing_.met += static_cast<double>(rows_of.size());
    routing_.fullest += std::ranges::max(rows_of | std::views::values);
  };
  watch_routing_.only = "router_ids";
}

std::vector<TokenId> SpeedCases::ids(int count, int seed) const {
  std::vector<TokenId> ids(static_cast<std::size_t>(count));
  const std::uint64_t first = static_cast<std::uint64_t>(seed) * 7919 + 12345;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<TokenId>(((i + first) * 2654435761U >> 3) % runner_->limits().vocab_size);
  }
  return ids;
}

void SpeedCases::count(StepShape shape, std::vector<StepWork>* steps) {
  if (steps == nullptr) return;
  shape.experts_chosen = experts_chosen_;
  experts_chosen_ = 0;
  steps->push_back(work_.of(shape));
}

Result<double> SpeedCases::run(const SpeedCase& test, std::vector<StepWork>* steps) {
  experts_chosen_ = 0;
  routing_ = {};
  runner_->watch(steps != nullptr ? &watch_routing_ : nullptr);
  Result<double> seconds =
      test.kind == SpeedCase::Kind::kConcurrent ? run_concurrent(test, steps) : run_single(test, steps);
  runner_->watch(nullptr);
  if (!seconds.ok()) return seconds.status().with_context(test.text());
  return seconds;
}

Result<std::vector<KernelTime>> SpeedCases::trace(const SpeedCase& test) {
  auto* device = dynamic_cast<CudaDevice*>(runner_->exec().device);
  if (device == nullptr) {
    return unavailable("--kernel-times: kernels are traced on NVIDIA GPUs alone; leave it out, or give --device cuda");
  }
  traces_ = true, tracing_ = {};
  const Status ran = run(test).status();
  traces_ = false;
  SLUICE_RETURN_IF_ERROR(tracing_);
  SLUICE_RETURN_IF_ERROR(ran);
  return std::move(times_);
}

SpeedCases::Clock::time_point SpeedCases::begin() {
  if (traces_) {
    runner_->exec().device->wait();
    tracing_ = dynamic_cast<CudaDevice&>(*runner_->exec().device).begin_kernel_times();
  }
  const Clock::time_point began = Clock::now();  // first, as the stages are parts of the time since then
  if (measures_stages_ || traces_) {
    runner_->exec().pool->watch(&meter_);
    meter_.begin();
  }
  return began;
}

// The seconds until the device has finished its work. A device that has broken down is quick.
Result<double> SpeedCases::seconds_since(Clock::time_point begin) {
  runner_->exec().device->wait();
  if (traces_) times_ = dynamic_cast<CudaDevice&>(*runner_->exec().device).end_kernel_times();
  if (measures_stages_) stages_ = meter_.take();
  runner_->exec().pool->watch(nullptr);
  SLUICE_RETURN_IF_ERROR(runner_->exec().device->status());
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Result<double> SpeedCases::run_single(const SpeedCase& test, std::vector<StepWork>* steps) {
  SLUICE_ASSIGN_OR_RETURN(const StateSlot sequence, runner_->sequences().open());
  const Status filled = fill_with_random_state(*runner_, sequence, test.depth);
  const bool drafts = test.kind == SpeedCase::Kind::kSpeculative;
  Result<double> seconds = !filled.ok() ? Result<double>(filled)
                           : drafts     ? run_speculative(test, sequence, steps)
                                        : run_steps(test, sequence, steps);
  runner_->sequences().close(sequence);
  return seconds;
}

Result<double> SpeedCases::run_steps(const SpeedCase& test, StateSlot sequence, std::vector<StepWork>* steps) {
  const bool decode = test.kind == SpeedCase::Kind::kDecode;
  const std::vector<TokenId> ids = this->ids(test.tokens, test.depth);
  const int step_rows = decode ? 1 : runner_->limits().step_rows;
  const auto start = begin();
  for (int begin = 0; begin < test.tokens; begin += step_rows) {
    const int rows = std::min(step_rows, test.tokens - begin), last = rows - 1;
    StepSpan span{.sequence = sequence,
                  .ids = std::span(ids).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(rows)),
                  .logit_rows = {}};
    if (begin + rows == test.tokens || decode) span.logit_rows = {&last, 1};
    SLUICE_RETURN_IF_ERROR(runner_->run_step({&span, 1}));
    count({.spans = {{test.depth + begin, rows}}, .logit_rows = static_cast<int>(span.logit_rows.size())}, steps);
  }
  return seconds_since(start);
}

Result<double> SpeedCases::run_speculative(const SpeedCase& test, StateSlot sequence, std::vector<StepWork>* steps) {
  const std::vector<TokenId> ids = this->ids(test.context(), test.depth);
  const SamplingParams greedy{.temperature = 0};
  std::vector<int> rows(static_cast<std::size_t>(1 + test.drafts));
  std::iota(rows.begin(), rows.end(), 0);
  const auto start = begin();
  for (int done = 0; done < test.tokens;) {
    const auto at = static_cast<std::size_t>(done);
    const int drafts = std::min(test.drafts, test.tokens - done - 1);  // none beyond the last token, as when serving
    const std::span<const int> logit_rows = std::span(rows).first(static_cast<std::size_t>(1 + drafts));
    StepSpan span{.sequence = sequence, .ids = std::span(ids).subspan(at, 1), .logit_rows = logit_rows};
    if (test.by_model && drafts > 0) {
      span.model_drafts = drafts, span.sampling = &greedy;
    } else {
      span.drafts = std::span(ids).subspan(at + 1, static_cast<std::size_t>(drafts));
    }
    SLUICE_RETURN_IF_ERROR(runner_->begin({&span, 1}));
    runner_->exec().device->wait();  // it is known then which rows stay
    const int kept = 1 + right_drafts(test.acceptance, done, drafts);
    runner_->sequences().commit(sequence, kept);
    count({.spans = {{test.depth + done, span.rows()}}, .logit_rows = span.rows()}, steps);
    done += kept;
  }
  return seconds_since(start);
}

Result<double> SpeedCases::run_concurrent(const SpeedCase& test, std::vector<StepWork>* steps) {
  const int places = runner_->cache().pools().plan().sequences;
  if (places < test.concurrency) {
    return resource_exhausted(
        fmt::format("the cache has places for {} sequences at once, not for {}; give more --kv-cache-memory, or less "
                    "--concurrency",
                    places, test.concurrency));
  }
  Stepper stepper(runner_, options_);
  SLUICE_RETURN_IF_ERROR(stepper.check(test.prompt, test.context() - test.prompt));
  for (int i = 0; i < test.concurrency; ++i) {
    stepper.add({.prompt = ids(test.prompt, i), .options = share({.max_tokens = test.context() - test.prompt})});
  }
  int sampled_last = 0;  // by the last step
  const auto step = [&](StepShape* shape) -> Status {
    SLUICE_ASSIGN_OR_RETURN(ComputedStep computed, stepper.begin().commit());
    const std::vector<SequenceId> sampled(computed.sampled().begin(), computed.sampled().end());
    for (const SequenceId id : sampled) {
      const auto length = static_cast<int>(stepper.sequences()[id].tokens.size());
      if (length + 1 >= test.context()) {
        return resource_exhausted(
            fmt::format("the first sequences had {} tokens before all {} of them decoded; give more "
                        "--max-num-batched-tokens (steps have {} rows), or a shorter --concurrent-prompt",
                        length - test.prompt, test.concurrency, runner_->limits().step_rows));
      }
      if (shape != nullptr) shape->spans.push_back({length - 1, 1});
      stepper.append(id, ids(1, length * test.concurrency + id.value).front());
    }
    std::move(computed).end();
    sampled_last = static_cast<int>(sampled.size());
    if (shape != nullptr) shape->logit_rows = sampled_last;
    return {};
  };
  for (int decoding = 0; decoding < test.concurrency;) {  // the prompts
    SLUICE_RETURN_IF_ERROR(step(nullptr));
    decoding = stepper.counts().waiting > 0 ? 0 : sampled_last;
  }
  runner_->exec().device->wait();  // a device still computes the last prompts, which do not count
  experts_chosen_ = 0;
  routing_ = {};
  const auto start = begin();
  for (int i = 0; i < test.tokens; ++i) {
    StepShape shape;
    SLUICE_RETURN_IF_ERROR(step(&shape));
    if (shape.logit_rows != test.concurrency) {
      return resource_exhausted(
          fmt::format("only {} of {} sequences decoded in a step, as the cache had no pages for the others; give more "
                      "--kv-cache-memory, or less --concurrency",
                      shape.logit_rows, test.concurrency));
    }
    count(std::move(shape), steps);
  }
  return seconds_since(start);
}

}  // namespace sluice
