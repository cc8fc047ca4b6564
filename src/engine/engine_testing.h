// Helpers of the engine's tests: small engines over FakeModel, the outcome of a request, and a gate. The gate holds the
// engine's thread at the beginning of a step, so that a test knows in which state it does something.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/engine_impl.h"
#include "engine/step/stepper_testing.h"
#include "model/engine_setup.h"
#include "sluice/engine.h"

namespace sluice {

constexpr std::chrono::seconds kTestPatience{120};

inline std::unique_ptr<Engine> make_engine(const EngineSetup& options = small_options(),
                                           FakeModel::Settings settings = {}) {
  auto runner = Runner::create(std::make_unique<FakeModel>(std::move(settings)), nullptr, options);
  EXPECT_TRUE(runner.ok()) << runner.status().message();
  return start_engine(std::move(runner).value(), options, {1, 2}).value();
}

// Collects the outputs of one request, and sees that each choice ends once. Outlives the engine.
class Answer {
 public:
  explicit Answer(int n = 1) : choices_(static_cast<std::size_t>(n)) {}

  std::function<void(Output)> sink() {
    return [this](Output output) {
      std::lock_guard lock(mutex_);
      ASSERT_TRUE(output.choice >= 0 && output.choice < static_cast<int>(choices_.size()));
      Choice& choice = choices_[static_cast<std::size_t>(output.choice)];
      EXPECT_FALSE(choice.finished) << "an output after the last one of choice " << output.choice;
      if (output.token) choice.tokens.push_back(*output.token);
      choice.outputs.push_back(output);
      if (output.finished) {
        choice.finished = true;
        choice.last = std::move(output);
        ++finished_;
      }
      changed_.notify_all();
    };
  }
  // The last output of a choice, when all have ended.
  Output wait(int choice = 0) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kTestPatience, [&] { return finished_ == choices_.size(); }));
    return at(choice).last;
  }
  void wait_for_tokens(std::size_t n, int choice = 0) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(
        changed_.wait_for(lock, kTestPatience, [&] { return at(choice).tokens.size() >= n || at(choice).finished; }));
  }
  std::vector<TokenId> tokens(int choice = 0) {
    std::lock_guard lock(mutex_);
    return at(choice).tokens;
  }
  std::vector<Output> outputs(int choice = 0) {
    std::lock_guard lock(mutex_);
    return at(choice).outputs;
  }
  bool finished(int choice = 0) {
    std::lock_guard lock(mutex_);
    return at(choice).finished;
  }

 private:
  struct Choice {
    std::vector<TokenId> tokens;
    std::vector<Output> outputs;
    bool finished = false;
    Output last;
  };
  Choice& at(int choice) { return choices_[static_cast<std::size_t>(choice)]; }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Choice> choices_;
  std::size_t finished_ = 0;
};

inline Request request(Answer& answer, std::vector<TokenId> prompt, int max_tokens,
                       SamplingParams sampling = {.temperature = 0}, int n = 1) {
  Request r;
  r.prompt = std::move(prompt);
  r.max_tokens = max_tokens;
  r.sampling = sampling;
  r.n = n;
  r.on_output = answer.sink();
  return r;
}

// Returns the answer to a request that runs alone with nothing cached.
inline std::vector<TokenId> alone(const std::vector<TokenId>& prompt, int max_tokens, SamplingParams sampling,
                                  FakeModel::Settings settings = {}) {
  EngineSetup options = small_options();
  options.cache.enable_prefix_caching = false;
  Answer answer;
  auto engine = make_engine(options, std::move(settings));
  EXPECT_TRUE(engine->submit(request(answer, prompt, max_tokens, sampling)).ok());
  answer.wait();
  return answer.tokens();
}

// Given to FakeModel as on_step. Open at first.
class StepGate {
 public:
  std::function<void(const StepTables&)> hook() {
    return [this](const StepTables&) {
      std::unique_lock lock(mutex_);
      if (!closed_) return;
      waiting_ = true;
      changed_.notify_all();
      changed_.wait(lock, [&] { return !closed_ || permits_ > 0; });
      if (permits_ > 0) --permits_;
      waiting_ = false;
      changed_.notify_all();
    };
  }
  void close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  void open() {
    std::lock_guard lock(mutex_);
    closed_ = false;
    permits_ = 0;
    changed_.notify_all();
  }
  // Waits until a step has been planned and waits to be computed.
  void wait_for_step() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kTestPatience, [&] { return waiting_ && permits_ == 0; })) << "no step began";
  }
  // The step that waits is computed; the one after it waits.
  void pass(int steps = 1) {
    for (int i = 0; i < steps; ++i) {
      wait_for_step();
      {
        std::lock_guard lock(mutex_);
        ++permits_;
        changed_.notify_all();
      }
      wait_for_step();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false, waiting_ = false;
  int permits_ = 0;
};

// An engine whose steps wait for the test; the gate closes when the engine stands. A hook that the settings bring sees
// a step before it waits.
class GatedEngine {
 public:
  explicit GatedEngine(const EngineSetup& options = small_options(), FakeModel::Settings settings = {}) {
    settings.on_step = [gate = gate_.hook(), before = std::move(settings.on_step)](const StepTables& step) {
      if (before) before(step);
      gate(step);
    };
    engine_ = make_engine(options, std::move(settings));
    gate_.close();
  }
  ~GatedEngine() { gate_.open(); }
  Engine* operator->() { return engine_.get(); }
  StepGate& gate() { return gate_; }

 private:
  StepGate gate_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace sluice
