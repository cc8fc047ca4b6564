// Used by cli/commands/simulate_command.cc and report.h.
#include "sim/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <ranges>
#include <utility>

#include "base/philox.h"
#include "engine/runner/runner.h"
#include "engine/step/stepper.h"
#include "sim/arrivals.h"
#include "sim/null_model.h"

namespace sluice {
namespace {

// Keeps every stride-th point, and every second one of them when they become too many.
class MemorySeries {
 public:
  void add(const Stepper& stepper, double now) {
    if (seen_++ % stride_ != 0) return;
    EngineStats stats;
    stepper.fill(&stats);
    points_.push_back({.time = now,
                       .running = stepper.counts().running,
                       .waiting = stepper.counts().waiting,
                       .latent_used = stats.cache.latent_pages_used,
                       .latent_cached = stats.cache.latent_pages_cached,
                       .window_used = stats.cache.window_pages_used,
                       .window_cached = stats.cache.window_pages_cached});
    if (points_.size() < kMostPoints) return;
    for (std::size_t i = 0; i < kMostPoints / 2; ++i) points_[i] = points_[2 * i];
    points_.resize(kMostPoints / 2);
    stride_ *= 2;
  }
  std::vector<MemoryPoint> take() { return std::move(points_); }

 private:
  static constexpr std::size_t kMostPoints = 4096;
  std::vector<MemoryPoint> points_;
  std::size_t stride_ = 1, seen_ = 0;
};

class Simulation {
 public:
  Simulation(const Trace& trace, const SimulationOptions& options, Runner* runner, const EngineSetup& engine)
      : trace_(trace), options_(options), stepper_(runner, engine), arrivals_(trace, options.concurrency) {
    result_.requests.resize(trace.requests.size());
    // Only the number of drafts matters here.
    stepper_.draft_by([](SequenceId, std::span<TokenId> to) {
      std::ranges::fill(to, 0);
      return static_cast<int>(to.size());
    });
  }

  Result<SimulationResult> run() {
    if (options_.by_steps) SLUICE_RETURN_IF_ERROR(run_by_steps());
    while (done_ < trace_.requests.size()) {
      take_arrivals();
      if (stepper_.idle()) {
        const std::optional<double> next = arrivals_.next_time(now_);
        if (!next) break;  // the last request was refused
        now_ = *next;
        continue;
      }
      SLUICE_RETURN_IF_ERROR(step());
    }
    result_.seconds = now_;
    stepper_.fill(&result_.stats);
    result_.memory = memory_.take();
    if (options_.audit_at_end) SLUICE_RETURN_IF_ERROR(stepper_.audit());
    return std::move(result_);
  }

 private:
  // A request that waits or runs.
  struct Live {
    std::size_t request = 0;
    double last_token = 0;
    int generated = 0;
    bool admitted = false, paused = false;
  };

  RequestRecord& record(const Live& live) { return result_.requests[live.request]; }
  Live& live(SequenceId id) { return live_[static_cast<std::size_t>(id.value)]; }

  // Before each step come its arrivals and then its cancellations.
  Status run_by_steps() {
    const std::vector<TraceRequest>& requests = trace_.requests;
    ids_.resize(requests.size());
    begun_.resize(requests.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (requests[i].step < 0) {
        return invalid_argument(fmt::format("the trace's request {} has no 'step', which a replay by steps needs", i));
      }
      if (requests[i].end_step >= 0) ends_.emplace(requests[i].end_step, i);
      for (std::size_t p = 0; p < requests[i].pauses.size(); p += 2) {
        pauses_.emplace(std::pair(requests[i].pauses[p], requests[i].pauses[p + 1]), i);
      }
    }
    for (; done_ < requests.size(); ++step_) {
      for (; next < requests.size() && requests[next].fork_of < 0 && requests[next].step <= step_; ++next) {
        arrive(next, now_);
      }
      for (; !ends_.empty() && ends_.begin()->first <= step_; ends_.erase(ends_.begin())) cancel(ends_.begin()->second);
      pause_before_step();
      if (done_ == requests.size()) break;
      const bool over = next == requests.size() && ends_.empty() && pauses_.empty();
      if (stepper_.idle() && over) go_on();
      if (stepper_.idle() && over) {
        return invalid_argument(
            "the trace's forks begin where their parents have ended: it is not a record of this engine");
      }
      SLUICE_RETURN_IF_ERROR(step());
      // Requests that fork in the step have begun. If the parent was not there by then (other options), they are left
      // out.
      for (; next < requests.size() && requests[next].fork_of >= 0 && requests[next].step <= step_; ++next) {
        if (!begun_[next]) ++done_;
      }
    }
    return {};
  }

  void pause_before_step() {
    for (; !pauses_.empty() && pauses_.begin()->first.first <= step_; pauses_.erase(pauses_.begin())) {
      const SequenceId id = ids_[pauses_.begin()->second];
      if (id) set_paused(id, !live(id).paused);
    }
  }

  // Lets paused requests go on after the end of the record.
  void go_on() {
    for (const SequenceId id : ids_) {
      if (id && live(id).paused) set_paused(id, false);
    }
  }

  void set_paused(SequenceId id, bool paused) {
    live(id).paused = paused;
    stepper_.set_paused(id, paused);
  }

  void cancel(std::size_t request) {
    const SequenceId id = ids_[request];
    if (!id) return;
    stepper_.end(id);
    ids_[request] = {};
    ended(request);
  }

  // The choices of a request that go on from where its prompt ends.
  void fork_from(SequenceId parent) {
    const std::size_t request = live(parent).request;
    for (std::size_t i = request + 1; i < trace_.requests.size() && trace_.requests[i].step <= step_; ++i) {
      if (trace_.requests[i].fork_of != static_cast<int>(request) || begun_[i]) continue;
      if (const SequenceId id = stepper_.fork(parent)) {
        begin(id, i, now_);
        forked_.push_back(id);
      }
    }
  }

  int most_tokens(std::size_t request) const {
    return std::max(trace_.requests[request].max_tokens, trace_.requests[request].output_length);
  }

  void begin(SequenceId id, std::size_t request, double time) {
    RequestRecord& record = result_.requests[request];
    record.arrival = time;
    record.input_tokens = trace_.requests[request].input_length;
    record.output_tokens = trace_.requests[request].output_length;
    if (static_cast<std::size_t>(id.value) >= live_.size()) live_.resize(static_cast<std::size_t>(id.value) + 1);
    live(id) = {.request = request};
    if (!options_.by_steps) return;
    ids_[request] = id;
    begun_[request] = true;
    if (trace_.requests[request].end_step >= 0)
      record.output_tokens = most_tokens(request);  // the answer ends at end_step
  }

  void take_arrivals() {
    while (const auto arrival = arrivals_.take(now_)) arrive(arrival->first, arrival->second);
  }

  void arrive(std::size_t request, double time) {
    const TraceRequest& asked = trace_.requests[request];
    RequestRecord& record = result_.requests[request];
    record.arrival = time;
    record.input_tokens = asked.input_length;
    record.output_tokens = asked.output_length;
    if (!stepper_.check(asked.input_length, asked.output_length).ok()) {
      record.refused = true;
      return ended(request);
    }
    NewSequence sequence;
    sequence.prompt = trace_prompt(trace_, request);
    sequence.options = share({.max_tokens = options_.by_steps ? most_tokens(request) : asked.output_length,
                              .priority = asked.priority,
                              .message_starts = asked.message_starts});
    begin(stepper_.add(std::move(sequence)), request, time);
  }

  void ended(std::size_t request) {
    ++done_;
    arrivals_.ended(request, now_);
    if (options_.on_progress && (done_ % 256 == 0 || done_ == trace_.requests.size())) {
      options_.on_progress(done_, trace_.requests.size());
    }
  }

  Status step() {
    const double began = now_;
    SLUICE_ASSIGN_OR_RETURN(ComputedStep computed, stepper_.begin().commit());
    const StepPlan& plan = stepper_.plan();
    const bool waits_for_event = !pauses_.empty() || !ends_.empty();  // in a replay by steps
    if (plan.empty() && !waits_for_event && ++idle_steps_ > kMostIdleSteps) {
      return internal_error(
          fmt::format("the simulation stands still at {:.3f} s: {} sequences run, {} wait, and the "
                      "scheduler plans nothing",
                      now_, stepper_.counts().running, stepper_.counts().waiting));
    }
    if (!plan.empty()) idle_steps_ = 0;
    const double seconds = options_.cost.step_seconds(plan);
    now_ += seconds;
    ++result_.steps;
    result_.rows += static_cast<std::uint64_t>(plan.rows);
    result_.longest_step = std::max(result_.longest_step, seconds);
    for (const Admission& admission : plan.admissions) {
      Live& one = live(admission.sequence);
      if (!std::exchange(one.admitted, true)) record(one).admitted = began;
    }
    if (options_.on_plan) options_.on_plan(plan);
    forked_.clear();
    for (const SequenceId id : computed.sampled()) {
      if (options_.by_steps && live(id).generated == 0) fork_from(id);
    }
    for (const SequenceId id : forked_) take_token(id);
    for (const SequenceId id : computed.sampled()) take_tokens(id, computed.draft_count(id));
    std::move(computed).end();
    memory_.add(stepper_, now_);
    return {};
  }

  // The newest token, and those of the drafts that are right.
  void take_tokens(SequenceId id, int drafts) {
    const std::size_t request = live(id).request;
    int right = 0;
    while (right < drafts && is_right(request, live(id).generated + right)) ++right;
    for (int i = 0; i <= right; ++i) take_token(id);
  }

  // A function of the request and the place in its answer: the same under every policy.
  bool is_right(std::size_t request, int token) const {
    const PhiloxCounter words =
        philox4x32({static_cast<std::uint32_t>(request), static_cast<std::uint32_t>(token)}, {});
    return static_cast<double>(words[0]) * 0x1p-32 < options_.acceptance;
  }

  void take_token(SequenceId id) {
    Live& one = live(id);
    RequestRecord& r = record(one);
    if (one.generated == 0) {
      r.first_token = now_;
    } else {
      const double gap = now_ - one.last_token;
      result_.token_gaps.add(gap);
      r.longest_gap = std::max(r.longest_gap, gap);
    }
    one.last_token = now_;
    if (++one.generated < r.output_tokens) {
      return stepper_.append(id, trace_token(trace_, one.request, r.input_tokens + one.generated - 1));
    }
    r.end = now_;
    r.cached_tokens = stepper_.sequences()[id].cached_tokens;
    stepper_.end(id);
    if (options_.by_steps) ids_[one.request] = {};
    ended(one.request);
  }

  static constexpr int kMostIdleSteps = 1000;

  const Trace& trace_;
  const SimulationOptions& options_;
  Stepper stepper_;
  Arrivals arrivals_;
  std::vector<Live> live_;                // by SequenceId
  std::vector<SequenceId> ids_;           // by request, while they live; in replays by steps
  std::vector<bool> begun_;               // requests that have begun, in a replay by steps
  std::multimap<int, std::size_t> ends_;  // in a replay: requests to cancel, by step
  std::multimap<std::pair<int, int>, std::size_t>
      pauses_;                      // in a replay: requests to pause or go on, by step and place
  std::vector<SequenceId> forked_;  // forked in this step
  int step_ = 0;                    // the step of a replay by steps
  double now_ = 0;
  std::size_t done_ = 0;
  int idle_steps_ = 0;
  MemorySeries memory_;
  SimulationResult result_;
};

}  // namespace

namespace {

EngineSetup drafting_options(const SimulationOptions& options) {
  EngineSetup engine = options.engine;
  engine.speculation.speculative = options.acceptance > 0 ? Speculative::kNgram : Speculative::kOff;
  engine.scheduler.async_scheduling = AsyncScheduling::kOff;
  return engine;
}

}  // namespace

Result<SimulationResult> simulate(const Trace& trace, const SimulatedModel& model, const SimulationOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(
      const EngineSetup engine,
      null_model_options(model.cache_layout, model.max_position_embeddings, drafting_options(options)));
  SLUICE_ASSIGN_OR_RETURN(
      std::unique_ptr<Runner> runner,
      Runner::create(make_null_model(model.cache_layout, model.max_position_embeddings), nullptr, engine));
  runner->cache().prefix_cache().set_retention(options.retention);
  constexpr int kMostRows = 512;
  std::vector<double> seconds;
  for (int rows = 1; rows <= kMostRows; ++rows) seconds.push_back(options.cost.rows_seconds(rows));
  runner->draft_times().rows = std::move(seconds);
  return Simulation(trace, options, runner.get(), engine).run();
}

}  // namespace sluice
