// Stage: a Stepper over a FakeModel, driven by hand: requests are added by name, step() takes greedy tokens, ends what
// is complete and audits everything. For tests that have to know in which step something happens.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/fake_model_testing.h"
#include "engine/runner/runner.h"
#include "engine/step/stepper.h"
#include "model/engine_setup.h"

namespace sluice {

inline std::vector<TokenId> random_tokens(int n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> result(static_cast<std::size_t>(n));
  for (auto& id : result) id = static_cast<TokenId>(random() % 64);
  return result;
}

// `head` and then `tail`.
inline std::vector<TokenId> joined(std::vector<TokenId> head, const std::vector<TokenId>& tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

// The same tests run on another device, and with asynchronous steps.
inline const char* test_device() {
  const char* device = std::getenv("SLUICE_TEST_DEVICE");
  return device != nullptr ? device : "cpu";
}
inline bool tests_asynchronous() {
  return std::getenv("SLUICE_TEST_ASYNC") != nullptr;
}

inline EngineSetup small_options() {
  EngineSetup options;
  options.machine.device = test_device();
  options.scheduler.async_scheduling = tests_asynchronous() ? AsyncScheduling::kOn : AsyncScheduling::kOff;
  options.machine.threads = 1;
  options.speculation.speculative = Speculative::kOff;
  options.scheduler.max_num_seqs = 4;
  options.scheduler.max_num_batched_tokens = 64;
  options.cache.kv_cache_memory = 4 << 20;
  options.audit = true;
  return options;
}

class Stage {
 public:
  explicit Stage(const EngineSetup& options = small_options(), FakeModel::Settings settings = {})
      : runner_(Runner::create(std::make_unique<FakeModel>(std::move(settings)), nullptr, options).value()),
        stepper_(std::make_unique<Stepper>(runner_.get(), options)) {}

  SequenceId add(const std::string& name, std::vector<TokenId> prompt, int max_tokens, int priority = 0,
                 std::string salt = "") {
    NewSequence given;
    given.prompt = std::move(prompt);
    given.options = share({.max_tokens = max_tokens, .priority = priority, .cache_salt = std::move(salt)});
    EXPECT_TRUE(stepper_->check(static_cast<int>(given.prompt.size()), max_tokens).ok());
    const SequenceId id = stepper_->add(std::move(given));
    live_[id.value] = {name, max_tokens};
    return id;
  }

  // The spans that the step computed, by the names of the sequences: {name, {first position, rows}}.
  using Computed = std::map<std::string, std::pair<Position, int>>;
  Computed step() {
    Computed computed;
    Result<ComputedStep> step = stepper_->begin().commit();
    EXPECT_TRUE(step.ok()) << step.status().message();
    if (!step.ok()) return computed;
    for (const Span& span : stepper_->plan().spans) {
      const auto [_, first] =
          computed.emplace(live_.at(span.sequence.value).name, std::pair(span.first_position, span.rows));
      EXPECT_TRUE(first) << "two spans of one sequence";
    }
    sampled_.assign(step->sampled().begin(), step->sampled().end());
    for (std::size_t row = 0; row < sampled_.size(); ++row) take(sampled_[row], row);
    std::move(*step).end();
    const Status sound = stepper_->audit();
    EXPECT_TRUE(sound.ok()) << sound.message();
    return computed;
  }

  void run(int most_steps = 100000) {
    for (int i = 0; i < most_steps && !stepper_->idle(); ++i) step();
    EXPECT_TRUE(stepper_->idle()) << "not done in " << most_steps << " steps";
  }

  void end(SequenceId id) {
    stepper_->end(id);
    live_.erase(id.value);
  }

  // A choice of `parent`, which was just sampled; it takes its first token from the same row.
  void fork(SequenceId parent, const std::string& name) {
    const SequenceId id = stepper_->fork(parent);
    ASSERT_TRUE(id);
    live_[id.value] = {name, live_.at(parent.value).max_tokens};
    take(id, 0);
  }
  // The token that row `row` of the logits chooses.
  void take(SequenceId id, std::size_t row) {
    const auto logits = runner_->logits().at_row(row);
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    std::vector<TokenId>& answer = answers_[live_.at(id.value).name];
    answer.push_back(static_cast<TokenId>(best));
    stepper_->append(id, answer.back());
    if (static_cast<int>(answer.size()) == live_.at(id.value).max_tokens) end(id);
  }

  // The sequences that got a token from the last step().
  const std::vector<SequenceId>& sampled() const { return sampled_; }
  const std::vector<TokenId>& answer(const std::string& name) { return answers_[name]; }
  EngineStats stats() const {
    EngineStats stats;
    stepper_->fill(&stats);
    return stats;
  }
  Stepper& stepper() { return *stepper_; }
  Runner& runner() { return *runner_; }

 private:
  struct Live {
    std::string name;
    int max_tokens = 0;
  };

  std::unique_ptr<Runner> runner_;
  std::unique_ptr<Stepper> stepper_;
  std::vector<SequenceId> sampled_;
  std::map<std::int32_t, Live> live_;  // by SequenceId
  std::map<std::string, std::vector<TokenId>> answers_;
};

// Returns the answer to a greedy request when nothing else runs and nothing is cached.
inline std::vector<TokenId> greedy_alone(const std::vector<TokenId>& prompt, int max_tokens,
                                         FakeModel::Settings settings = {}) {
  EngineSetup options = small_options();
  options.cache.enable_prefix_caching = false;
  Stage stage(options, std::move(settings));
  stage.add("alone", prompt, max_tokens);
  stage.run();
  return stage.answer("alone");
}

}  // namespace sluice
