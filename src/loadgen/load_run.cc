// Used by cli/bench/bench_serve_command.cc, determinism.h, traffic_report.h and word_scale.h.
#include "loadgen/load_run.h"

#include <deque>
#include <memory>
#include <utility>

#include "base/threads/clocks.h"
#include "sim/arrivals.h"

namespace sluice {
namespace {

constexpr auto kTick = std::chrono::milliseconds(100);

class Run {
 public:
  Run(HttpClient& client, LoadPlan& plan, const BodyOptions& body, const LoadRunOptions& options)
      : client_(client), plan_(plan), body_(body), options_(options), arrivals_(plan.trace, options.concurrency) {}

  LoadRun run() {
    const double cpu = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
    run_.start = LoadClock::now();
    run_.requests.reserve(total());
    pump();
    tick();
    client_.run();
    run_.end = LoadClock::now();
    run_.client_cpu_seconds = clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    return std::move(run_);
  }

 private:
  std::size_t total() const { return plan_.trace.requests.size(); }
  double now() const { return std::chrono::duration<double>(LoadClock::now() - run_.start).count(); }
  LoadClock::time_point time_of(double seconds) const {
    return run_.start + std::chrono::duration_cast<LoadClock::duration>(std::chrono::duration<double>(seconds));
  }

  // Sends what is due and sets a timer for what comes next.
  void pump() {
    while (const auto next = arrivals_.take(now())) send(next->first, time_of(next->second));
    const std::optional<double> time = arrivals_.next_time(now());
    if (!time || (armed_ && *armed_ <= *time)) return;
    armed_ = time;
    client_.at(time_of(*time), [this] {
      armed_.reset();
      if (!run_.interrupted) pump();
    });
  }

  void send(std::size_t request, LoadClock::time_point due) {
    HttpCall call{.method = "POST",
                  .path = endpoint_path(body_.endpoint),
                  .body = request_body(plan_, request, body_),
                  .authorization = options_.authorization};
    auto reader = std::make_unique<AnswerReader>();
    auto* const events = reader.get();
    readers_.push_back(std::move(reader));  // a run's readers live as long as it does: their texts are moved out
    SentRequest sent;
    sent.request = request;
    sent.due = due;
    sent.sent = LoadClock::now();
    sent.asked_tokens = plan_.trace.requests[request].output_length;
    client_.send(std::move(call), events->events([this, sent = std::move(sent)](AnswerRecord answer) mutable {
      sent.answer = std::move(answer);
      ended(std::move(sent));
    }));
  }

  void ended(SentRequest sent) {
    const std::size_t request = sent.request;
    plan_.prompts->answered(request, sent.answer.text);
    if (!options_.keep_text) {
      sent.answer.text = {};
      sent.answer.pieces = {};
      sent.answer.logprobs = {};
    }
    run_.requests.push_back(std::move(sent));
    if (run_.interrupted) return;
    arrivals_.ended(request, now());
    pump();
  }

  void tick() {
    if (options_.on_progress) options_.on_progress(run_.requests.size(), total());
    if (options_.interrupted && options_.interrupted()) {
      run_.interrupted = true;
      client_.stop();
      return;
    }
    if (run_.requests.size() < total()) client_.at(LoadClock::now() + kTick, [this] { tick(); });
  }

  HttpClient& client_;
  LoadPlan& plan_;
  const BodyOptions& body_;
  const LoadRunOptions& options_;
  Arrivals arrivals_;
  std::optional<double> armed_;
  std::deque<std::unique_ptr<AnswerReader>> readers_;
  LoadRun run_;
};

}  // namespace

LoadRun run_load(HttpClient& client, LoadPlan& plan, const BodyOptions& body, const LoadRunOptions& options) {
  return Run(client, plan, body, options).run();
}

}  // namespace sluice
