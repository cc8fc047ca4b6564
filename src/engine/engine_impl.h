// Engine::Impl: the inbox (any thread) and the step loop (one thread of its own).
//
// A step: take arrivals, cancellations and tasks, let the stepper plan and compute, sample, report. Everything below
// "engine thread only" is touched by that thread alone; callbacks run without any lock held.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/runner.h"
#include "engine/sampler.h"
#include "engine/stepper.h"
#include "sluice/engine.h"

namespace sluice {

class Engine::Impl {
 public:
  Impl(std::unique_ptr<Runner> runner, const EngineOptions& options, std::vector<std::int32_t> end_token_ids);
  ~Impl();  // cancels what still runs

  Result<RequestId> submit(Request request);
  void cancel(RequestId id, int choice);  // choice kAllChoices: the request
  EngineStats stats() const;
  bool probe(double seconds);
  bool reset_prefix_cache(double seconds);

  const Runner& runner() const { return *runner_; }
  const std::vector<std::int32_t>& end_token_ids() const { return end_token_ids_; }

  static constexpr int kAllChoices = -1;
  static constexpr int kMaxChoices = 1024;  // of a request

 private:
  using Clock = std::chrono::steady_clock;

  struct Arrival {
    RequestId id = 0;
    Request request;
  };
  struct Cancel {
    RequestId id = 0;
    int choice = kAllChoices;
  };
  // Something to be done between two steps, that somebody waits for.
  struct Task {
    std::function<void()> work;
    bool done = false;
  };
  struct Pending {  // a request with choices that have not ended
    RequestId id = 0;
    Request request;
    std::vector<SequenceId> choices;  // none: not begun (waiting for the prompt, which choice 0 computes), or ended
    std::vector<bool> ended;
    int unfinished = 0;
  };
  struct Answer {  // one choice, by SequenceId
    Pending* request = nullptr;
    int choice = 0;
    int generated = 0;
    SamplingParams sampling;
  };
  struct Sample {
    Sampled sampled;
    Status status;
  };

  Status check(const Request& request) const;
  bool run_task(std::function<void()> work, double seconds);

  // Engine thread only.
  void run();
  bool take_inbox();  // waits while there is nothing to do; false: stop
  void run_tasks();
  void arrive(Arrival arrival);
  void begin_choice(Pending& pending, int choice);
  void adopt(SequenceId id, Pending& pending, int choice);
  void cancel_now(const Cancel& cancel);
  void cancel_choice(Pending& pending, int choice);
  void run_probe();
  void step();
  void sample_all();
  void fork_choices(SequenceId first, std::size_t row);
  void deliver(SequenceId id, Sample& sample);
  void fail_step(const Status& status);
  void audit() const;
  void finish(SequenceId id, Output output);
  // One choice has ended; the last one ends the request. The pending request may be gone afterwards.
  void end_choice(Pending& pending, int choice, Output output);
  void report(const Request& request, Output output);
  void publish_stats();
  Answer& answer(SequenceId id) { return answers_[static_cast<std::size_t>(id.value)]; }

  std::unique_ptr<Runner> runner_;
  Stepper stepper_;
  const bool audit_;
  const std::vector<std::int32_t> end_token_ids_;

  mutable std::mutex mutex_;  // guards this block
  std::condition_variable wake_, task_done_;
  std::vector<Arrival> arrivals_;
  std::vector<Cancel> cancels_;
  std::vector<std::shared_ptr<Task>> tasks_;
  RequestId last_request_id_ = 0;
  bool stop_ = false;
  EngineStats stats_;  // without seconds_since_last_token
  Clock::time_point last_token_;
  bool any_token_ = false;

  // Engine thread only.
  std::vector<Arrival> taken_arrivals_;
  std::vector<Cancel> taken_cancels_;
  std::vector<std::shared_ptr<Task>> taken_tasks_;
  std::unordered_map<RequestId, Pending> pending_;  // only looked up, never iterated on the way to a plan
  std::vector<Answer> answers_;                     // by SequenceId
  std::vector<SequenceId> in_step_;                 // whose tokens were chosen in this step
  std::vector<Sample> samples_;
  Sampler sampler_;
  std::uint64_t generated_tokens_ = 0, finished_requests_ = 0, cancelled_requests_ = 0;
  bool made_token_ = false;  // since the last publish_stats

  std::thread thread_;  // last: it starts when the rest is there
};

}  // namespace sluice
