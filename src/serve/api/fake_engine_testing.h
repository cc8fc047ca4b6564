// FakeEngine: an engine for tests that "generates" what the test tells it to.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sluice/engine.h"

namespace sluice {

class FakeEngine final : public Engine {
 public:
  FakeEngine() : thread_([this] { run(); }) {}
  ~FakeEngine() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  // The tokens that answer a request, the end token (1) left out; after them it stops.
  std::function<std::vector<std::int32_t>(const Request&)> script;
  std::function<std::vector<std::int32_t>(const Request&, int choice)> script_of_choice;  // instead of `script`
  std::function<float(int choice)> logprob_of_choice;  // the log-probability of every token; -0.5 without
  std::function<Status(const Request&)> refuse;        // why submit fails, if it does
  std::chrono::milliseconds step{0};                   // between two tokens of a request
  std::function<void()> before_output;                 // called on the engine's thread, before each one
  std::function<void()> submitted;                     // called by submit when the engine has the request
  bool endless = false;                                // repeats the script until max_tokens or cancel
  int context_tokens = 4096;
  int cache_tokens = 1 << 20;  // what prompt and answer have room for
  bool turns = true;           // what ping says
  bool alive = true;           // what self_test says
  Status failed;               // what health says
  bool resets = true;          // what reset_prefix_cache says
  int cached_tokens = 0;
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  std::chrono::milliseconds admitted_after{0};  // when requests get memory, after they came
  std::size_t begins_with = 1;                  // nothing is generated before this many answers have been asked for
  int fails_after = -1;                         // an answer fails after this many tokens; -1: never
  EngineStats counters;                         // the values of stats(), except for those that the fake counts itself
  double idle_seconds = 1e9;
  std::vector<StepRecord> recorded;  // what steps() says
  EngineSnapshot where;

  Result<RequestId> submit(Request request) override {
    if (refuse) {
      if (Status status = refuse(request); !status.ok()) return status;
    }
    std::unique_lock lock(mutex_);
    const RequestId id = next_id_++;
    seen_.push_back(request);
    seen_.back().on_output = nullptr;
    for (int choice = 0; choice < request.n; ++choice) {
      auto tokens = script_of_choice ? script_of_choice(request, choice)
                    : script         ? script(request)
                                     : std::vector<std::int32_t>{};
      running_[{id, choice}] = {.request = request, .choice = choice, .tokens = std::move(tokens), .came = now()};
    }
    changed_.notify_all();
    lock.unlock();
    if (submitted) submitted();
    return id;
  }

  void cancel(RequestId id) override {
    const std::lock_guard lock(mutex_);
    for (auto& [key, running] : running_) running.cancelled |= key.first == id;
    changed_.notify_all();
  }
  void cancel(RequestId id, int choice) override {
    const std::lock_guard lock(mutex_);
    if (const auto found = running_.find({id, choice}); found != running_.end()) found->second.cancelled = true;
    changed_.notify_all();
  }

  void set_paused(RequestId id, bool paused) override {
    const std::lock_guard lock(mutex_);
    for (auto& [key, running] : running_) {
      if (key.first == id) running.paused = paused;
    }
    pauses_ += paused;
    changed_.notify_all();
  }

  EngineStats stats() const override {
    const std::lock_guard lock(mutex_);
    ++readings_;
    EngineStats stats = counters;
    stats.running = static_cast<int>(running_.size());
    for (const auto& [key, running] : running_) stats.paused += running.paused;
    stats.cancelled_requests = cancelled_;
    stats.seconds_since_last_token = idle_seconds;
    stats.cache_bytes_total = 1000;
    stats.cache_bytes_used = 10 * static_cast<std::int64_t>(running_.size());
    return stats;
  }
  bool self_test(double) override {
    const std::lock_guard lock(mutex_);
    ++self_tests_;
    return alive;
  }
  Status health() const override { return failed; }
  bool ping(double seconds) override { return turns && seconds > 0; }
  bool reset_prefix_cache(double) override {
    const std::lock_guard lock(mutex_);
    ++resets_;
    return resets;
  }
  std::vector<StepRecord> steps(std::uint64_t number, std::size_t most) const override {
    const std::size_t first = std::min<std::size_t>(number, recorded.size());
    const std::size_t count = std::min(most, recorded.size() - first);
    return {recorded.begin() + static_cast<std::ptrdiff_t>(first),
            recorded.begin() + static_cast<std::ptrdiff_t>(first + count)};
  }
  std::uint64_t steps_recorded() const override { return recorded.size(); }
  bool snapshot(double /*seconds*/, EngineSnapshot* snapshot) override {
    *snapshot = where;
    return true;
  }
  Result<std::string> reload_weights(const std::string& folder, ReloadMode /*mode*/) override {
    return invalid_argument("weights: this engine cannot reload them from " + folder);
  }
  std::string weights_version() const override { return {}; }
  bool takes_penalties() const override { return true; }
  int vocab_size() const override { return 4096; }
  int max_model_len() const override { return context_tokens; }
  int most_tokens(int prompt_tokens) const override {
    return std::max(0, std::min(context_tokens, cache_tokens) - prompt_tokens);
  }
  std::vector<std::int32_t> end_token_ids() const override { return {1}; }
  std::string profile_name() const override { return "fake"; }
  std::string isa_name() const override { return "none"; }

  std::vector<Request> seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
  }
  int self_tests() const {
    const std::lock_guard lock(mutex_);
    return self_tests_;
  }
  int reset_calls() const {
    const std::lock_guard lock(mutex_);
    return resets_;
  }
  // Returns how often a request was paused.
  int pauses() const {
    const std::lock_guard lock(mutex_);
    return pauses_;
  }
  // Returns whether anything that runs is to end.
  bool is_cancelled() const {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(running_, [](const auto& running) { return running.second.cancelled; });
  }
  // Returns how often stats() was called.
  int readings() const {
    const std::lock_guard lock(mutex_);
    return readings_;
  }
  // Waits up to a minute until no request runs and all have been notified of their end; returns whether that came.
  bool wait_idle() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [this] { return running_.empty() && !is_telling_; });
  }

 private:
  struct Running {
    Request request;
    int choice = 0;
    std::vector<std::int32_t> tokens;
    std::size_t next = 0;
    bool cancelled = false, paused = false;
    std::chrono::steady_clock::time_point came{};
  };

  void run() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      if (running_.empty() || running_.size() < begins_with) {
        changed_.wait(lock);
        continue;
      }
      begins_with = 1;
      if (std::ranges::all_of(running_, [](const auto& r) { return r.second.paused && !r.second.cancelled; })) {
        changed_.wait(lock);
        continue;
      }
      std::vector<std::pair<std::function<void(Output)>, Output>> calls;
      for (auto it = running_.begin(); it != running_.end();) {
        if (it->second.paused && !it->second.cancelled) {
          ++it;
          continue;
        }
        calls.emplace_back(it->second.request.on_output, next_output(it->second));
        it = calls.back().second.finished ? running_.erase(it) : std::next(it);
      }
      is_telling_ = true;
      lock.unlock();
      for (auto& [on_output, output] : calls) {
        if (before_output) before_output();
        on_output(std::move(output));
      }
      calls.clear();
      lock.lock();
      is_telling_ = false;
      changed_.notify_all();
      if (step.count() > 0) changed_.wait_for(lock, step, [this] { return stopping_; });
    }
  }

  Output next_output(Running& running) {
    Output output;
    output.choice = running.choice;
    output.cached_tokens = cached_tokens;
    if (running.request.max_tokens > 0) output.admitted = running.came + admitted_after;
    output.finished = true;
    if (running.cancelled) {
      ++cancelled_;
      output.reason = FinishReason::kCancelled;
      return output;
    }
    if (running.request.max_tokens == 0) {
      output.reason = FinishReason::kLength;
      return output;
    }
    if (static_cast<int>(running.next) == fails_after) {
      output.reason = FinishReason::kError;
      output.status = internal_error("it was told to fail");
      return output;
    }
    const bool more = running.next < running.tokens.size() || (endless && !running.tokens.empty());
    const bool last = static_cast<int>(running.next) + 1 >= running.request.max_tokens;
    output.token = more ? running.tokens[running.next % running.tokens.size()] : 1;
    output.reason = more ? FinishReason::kLength : FinishReason::kStop;
    output.finished = !more || last;
    const int wanted = running.request.sampling.top_logprobs;
    if (wanted >= 0) output.logprob = logprob_of_choice ? logprob_of_choice(running.choice) : -0.5F;
    for (int i = 0; i < wanted; ++i) output.top.push_back({*output.token + i, output.logprob - static_cast<float>(i)});
    ++running.next;
    return output;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<RequestId, int>, Running> running_;  // by request and choice
  std::vector<Request> seen_;
  RequestId next_id_ = 1;
  std::uint64_t cancelled_ = 0;
  int self_tests_ = 0, resets_ = 0, pauses_ = 0;
  mutable int readings_ = 0;
  bool stopping_ = false, is_telling_ = false;
  std::thread thread_;
};

}  // namespace sluice
