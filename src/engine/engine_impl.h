// EngineImpl: the Engine over a Runner. It has an inbox (any thread) and the step loop (one thread of its own).
//
// A step: take arrivals, cancellations and tasks, let the stepper plan and compute, draw tokens, and report them (with
// asynchronous steps, those of the step before). Everything below "engine thread only" is used by that thread alone;
// callbacks run with no lock held.
// Used by cli and engine.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/threads/mutex.h"
#include "config/generation_config.h"
#include "engine/runner/runner.h"
#include "engine/step/sampler.h"
#include "engine/step/stepper.h"
#include "model/engine_setup.h"
#include "sluice/engine.h"

namespace sluice {

class EngineImpl final : public Engine {
 public:
  // The options are valid, and the runner was made with them.
  EngineImpl(std::unique_ptr<Runner> runner, const EngineSetup& options, std::vector<std::int32_t> end_token_ids);
  ~EngineImpl() override;

  Result<RequestId> submit(Request request) override;
  void cancel(RequestId id) override { cancel(id, kAllChoices); }
  void cancel(RequestId id, int choice) override;
  void set_paused(RequestId id, bool paused) override;
  EngineStats stats() const override;
  Status health() const override;
  bool self_test(double seconds) override;
  bool ping(double seconds) override;
  bool reset_prefix_cache(double seconds) override;
  std::vector<StepRecord> steps(std::uint64_t number, std::size_t most) const override {
    return recorder_.read(number, most);
  }
  std::uint64_t steps_recorded() const override { return recorder_.closed(); }
  bool snapshot(double seconds, EngineSnapshot* snapshot) override;

  Result<std::string> reload_weights(const std::string& folder, ReloadMode mode) override;  // reload.cc
  std::string weights_version() const override;

  int vocab_size() const override { return static_cast<int>(runner_->limits().vocab_size); }
  int max_model_len() const override { return runner_->limits().max_model_len; }
  int most_tokens(int prompt_tokens) const override { return stepper_.most_tokens(prompt_tokens); }
  std::vector<std::int32_t> end_token_ids() const override { return end_token_ids_; }
  bool takes_penalties() const override;
  std::string profile_name() const override { return profile_; }
  std::string isa_name() const override { return sluice::isa_name(runner_->exec()); }

 private:
  static constexpr int kAllChoices = -1;
  using Clock = std::chrono::steady_clock;

  struct Arrival {
    RequestId id = 0;
    std::vector<TokenId> prompt;
    std::shared_ptr<const RequestOptions> options;
    std::function<void(Output)> on_output;
  };
  struct Cancel {
    RequestId id = 0;
    int choice = kAllChoices;
  };
  struct Pause {
    RequestId id = 0;
    bool paused = false;
  };
  // A task to be done between two steps; a caller waits for it.
  struct Task {
    std::function<void()> work;
    bool done = false;  // under mutex_
  };

  // Another model that waits for the running requests to end.
  struct Swap {
    std::unique_ptr<Model> model;
    std::string version;
    bool aborts = false, done = false;
  };

  Status check(const Request& request) const;
  bool is_broken() const;
  Status check_rules(const TokenRules& rules) const;
  Status check_exports(const RequestOptions& options) const;
  Status check_ids(const char* field, const std::vector<std::int32_t>& ids) const;
  bool run_task(std::function<void()> work, double seconds);

  // Engine thread only.
  void run();
  bool take_inbox();  // waits while there is nothing to do; false: stop
  void run_tasks();
  void arrive_all();
  void swap_model();
  void arrive(Arrival arrival);
  SequenceAnswer answer_of(PendingRequest& pending, int choice) const;
  void begin_again(SequenceId first, int choice);
  void cancel_now(const Cancel& cancel);
  void pause_now(const Pause& pause);
  void cancel_choice(PendingRequest& pending, int choice);
  void run_self_test();
  void step();
  void count_step(Clock::duration time, double work);
  void draw_all(ComputedStep& step);
  void fork_choices(ComputedStep& step, SequenceId first, std::size_t row);
  void deliver_all();
  void deliver_all(std::span<const DrawnToken> taken);
  void deliver(const DrawnToken& drawn);
  static Status accept(const SequenceAnswer& answer, TokenId token);
  void fail_step(const Status& status);
  void fail_all(const Status& status);
  void watch_files();  // a thread of its own
  bool files_are_sound();
  void notice_files();
  void audit() const;
  void finish(SequenceId id, Output output);
  // A choice has ended; the last one ends the request. The pending request may be gone afterwards.
  void end_choice(PendingRequest& pending, int choice, Output output);
  void report(const std::function<void(Output)>& on_output, Output output);
  void publish_stats();
  const SequenceAnswer& answer(SequenceId id) const { return stepper_.sequences()[id].answer; }

  std::unique_ptr<Runner> runner_;
  StepRecorder recorder_;
  Stepper stepper_;
  const bool asynchronous_;  // steps begin before the tokens of the one before are known
  const bool audit_;
  const std::vector<std::int32_t> end_token_ids_;
  // These hold for every model that replaces this one, too, so any thread may read them.
  const std::string profile_;
  const bool has_experts_, has_indexers_;

  mutable Mutex mutex_;
  Condition wake_, task_done_, watch_;  // watch_: the end, for the thread that watches the files
  std::vector<Arrival> arrivals_ SLUICE_GUARDED_BY(mutex_);
  std::vector<Cancel> cancels_ SLUICE_GUARDED_BY(mutex_);
  std::vector<Pause> pauses_ SLUICE_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Task>> tasks_ SLUICE_GUARDED_BY(mutex_);
  std::shared_ptr<Swap> swap_ SLUICE_GUARDED_BY(mutex_);                  // null: none waits
  std::shared_ptr<const std::string> version_ SLUICE_GUARDED_BY(mutex_);  // the version of the weights
  RequestId last_request_id_ SLUICE_GUARDED_BY(mutex_) = 0;
  bool stop_ SLUICE_GUARDED_BY(mutex_) = false;
  // The reason why nothing is computed any more: the device is lost, or `changed_`; ok: it works.
  Status broken_ SLUICE_GUARDED_BY(mutex_);
  Status changed_ SLUICE_GUARDED_BY(mutex_);  // names the file of the weights that changed; ok: none
  std::shared_ptr<ServedFiles> files_ SLUICE_GUARDED_BY(mutex_);  // the model's; null: none
  EngineStats stats_ SLUICE_GUARDED_BY(mutex_);                   // without seconds_since_last_token
  Clock::time_point last_token_ SLUICE_GUARDED_BY(mutex_);
  bool any_token_ SLUICE_GUARDED_BY(mutex_) = false;

  std::mutex reloading_;  // guards no field: held while weights are loaded

  // Engine thread only.
  std::vector<Arrival> taken_arrivals_, held_;  // held: until the model is swapped
  std::vector<Cancel> taken_cancels_;
  std::vector<Pause> taken_pauses_;
  std::vector<std::shared_ptr<Task>> taken_tasks_;
  std::unordered_map<RequestId, PendingRequest> pending_;  // only looked up, never iterated on the way to a plan
  std::uint64_t generated_tokens_ = 0, finished_requests_ = 0, cancelled_requests_ = 0;
  bool made_token_ = false;  // a token was made since the last publish_stats()
  StepCounts step_counts_;
  SentStep sent_;                // the step whose tokens are on their way
  Clock::time_point stepped_{};  // the end of the last step, if the next one follows it at once

  // The time when the loop began this turn, on the clock's own scale; 0: it waits for something to do.
  std::atomic<Clock::rep> turn_began_{0};

  std::thread watcher_, thread_;  // last: they start once the rest exists
};

// Engine::start(), with hooks, a generation_config.json that was read already, and further end tokens besides those of
// the two config files. Ids outside the vocabulary are left out, with a warning.
Result<std::unique_ptr<Engine>> start_engine(const EngineSetup& options, const GenerationConfig& generation,
                                             const std::vector<std::int32_t>& more_ends);
// The same over an existing runner, which was made with these options.
Result<std::unique_ptr<Engine>> start_engine(std::unique_ptr<Runner> runner, const EngineSetup& options,
                                             std::vector<std::int32_t> end_token_ids);

}  // namespace sluice
