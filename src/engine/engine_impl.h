// Engine::Impl: the inbox (any thread) and the step loop (one thread of its own).
//
// A step: take arrivals and cancellations, plan, run the rows, sample, report. Everything below "engine thread only" is
// touched by that thread alone; callbacks run without any lock held.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/runner.h"
#include "engine/sampler.h"
#include "sched/scheduler.h"
#include "sluice/engine.h"

namespace sluice {

class Engine::Impl {
 public:
  Impl(std::unique_ptr<Runner> runner, const EngineOptions& options, std::vector<std::int32_t> end_token_ids);
  ~Impl();  // cancels what still runs

  Result<RequestId> submit(Request request);
  void cancel(RequestId id);
  EngineStats stats() const;
  bool probe(double seconds);

  const Runner& runner() const { return *runner_; }
  const std::vector<std::int32_t>& end_token_ids() const { return end_token_ids_; }

 private:
  using Clock = std::chrono::steady_clock;

  struct Arrival {
    RequestId id = 0;
    Request request;
  };
  struct Sequence {
    RequestId id = 0;
    Request request;              // its prompt moved to `tokens`
    std::vector<TokenId> tokens;  // prompt and answer
    int prompt_tokens = 0;
    StateSlot state;  // while running
    int generated() const { return static_cast<int>(tokens.size()) - prompt_tokens; }
  };
  struct Sample {
    SequenceId sequence;
    Sampled sampled;
    Status status;
  };

  Status check(const Request& request) const;

  // Engine thread only.
  void run();
  bool take_inbox();  // waits while there is nothing to do; false: stop
  void arrive(Arrival arrival);
  void cancel_now(RequestId id);
  void run_probe();
  void step();
  void build_step(const StepPlan& plan);
  void sample_all();
  void deliver(Sample& sample);
  void fail_step(const Status& status);
  void finish(SequenceId id, Output output);
  void report(const Request& request, Output output);
  void publish_stats();
  Sequence& sequence(SequenceId id) { return sequences_[static_cast<std::size_t>(id.value)]; }

  std::unique_ptr<Runner> runner_;
  Scheduler scheduler_;
  const std::vector<std::int32_t> end_token_ids_;

  mutable std::mutex mutex_;  // guards this block
  std::condition_variable wake_, probed_;
  std::vector<Arrival> arrivals_;
  std::vector<RequestId> cancels_;
  RequestId last_request_id_ = 0;
  bool stop_ = false;
  std::uint64_t probes_wanted_ = 0, probes_done_ = 0;
  EngineStats stats_;  // without seconds_since_last_token
  Clock::time_point last_token_;
  bool any_token_ = false;

  // Engine thread only.
  std::vector<Arrival> taken_arrivals_;
  std::vector<RequestId> taken_cancels_;
  std::uint64_t taken_probes_ = 0;
  std::vector<Sequence> sequences_;  // by SequenceId
  std::vector<SequenceId> free_sequences_;
  std::unordered_map<RequestId, SequenceId> by_request_;  // only looked up, never iterated
  std::vector<StepSpan> step_spans_;
  std::vector<int> last_rows_;   // what step_spans_' logit_rows point into
  std::vector<Sample> samples_;  // of this step; the first sample_count_ are in use
  std::size_t sample_count_ = 0;
  std::vector<Sampler> samplers_;  // by thread
  EngineStats counters_;
  bool made_token_ = false;  // since the last publish_stats

  std::thread thread_;  // last: it starts when the rest is there
};

}  // namespace sluice
