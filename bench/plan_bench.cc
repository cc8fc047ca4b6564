// The cost of a plan alone: sequences that decode, with no drafts, with an offer of drafts each, and with two. Nothing
// is computed; of the drafts of a sequence a part of its own is right, so that adaptive plans give some of them where
// rows are cheap. A step with no drafts now and then, which shows what those take (StepTimes), counts as the others.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <vector>

#include "sched/scheduler.h"

namespace sluice {
namespace {

struct PlanOptions {
  int running = 1000, steps = 2000, drafts = 4;
};

// Of a step: the weights that all rows read, what each of the first rows brings (its experts), and each one more.
struct StepSeconds {
  double first_row, other_row;

  std::vector<double> table() const {
    constexpr int kFirst = 63;
    std::vector<double> seconds;
    for (int rows = 1; rows <= kFirst; ++rows) seconds.push_back(1 + first_row * rows);
    seconds.push_back(seconds.back() + other_row);
    return seconds;
  }
};

constexpr StepSeconds kSomePay{.first_row = 0.1, .other_row = 0.005}, kMostPay{.first_row = 1, .other_row = 0.002},
    kNonePays{.first_row = 1, .other_row = 1};

class PlanBench {
 public:
  PlanBench(const PlanOptions& options, int offers, const StepSeconds& seconds)
      : options_(options), offers_(offers), limits_(limits(options, seconds)), scheduler_(limits_) {
    computed_.resize(static_cast<std::size_t>(options.running));
    for (int i = 0; i < options.running; ++i)
      scheduler_.add(SequenceId(i), {.prompt_tokens = 1 + i % 128, .max_tokens = 1 << 20});
    while (scheduler_.decoding() < options.running) step();
    drafts_ = 0;
  }

  double measure(const char* name) {  // drafts a plan
    std::vector<double> times;
    for (int i = 0; i < options_.steps; ++i) times.push_back(step());
    std::sort(times.begin(), times.end());
    const auto at = [&](double part) { return 1e6 * times[static_cast<std::size_t>(part * (options_.steps - 1))]; };
    const double drafts = static_cast<double>(drafts_) / options_.steps;
    fmt::print("{:<24} least {:5.1f} us, median {:5.1f}, p90 {:5.1f}; {:.0f} drafts a plan\n", name, at(0), at(0.5),
               at(0.9), drafts);
    return drafts;
  }

 private:
  static constexpr PageGeometry kGeometry{.resume_pages = 1, .has_latents = true, .has_windows = true};
  static constexpr int kPages = 1 << 28;  // more than anybody takes

  static SchedulerLimits limits(const PlanOptions& options, const StepSeconds& seconds) {
    SchedulerLimits l;
    l.max_batched_tokens = 8192;
    l.max_seqs = options.running;
    l.max_model_len = 1 << 24;
    l.latent_pages = l.window_pages = kPages;
    l.geometry = kGeometry;
    l.drafts.most = options.drafts;
    l.drafts.step_seconds = seconds.table();
    return l;
  }

  // Seconds of the questions and the plan.
  double step() {
    facts_.free_latent_pages = kPages - held_;
    facts_.offers.clear();
    for (int i = 0; i < scheduler_.decoding(); ++i) {
      for (int o = 0; o < offers_; ++o) {
        facts_.offers.push_back(
            {scheduler_.decoding(i), o == 0 ? DraftSource::kMtp : DraftSource::kCopy, options_.drafts});
      }
    }
    const auto start = std::chrono::steady_clock::now();
    gather(
        &scheduler_, &facts_, [](SequenceId id) { return PrefixLookup{.sequence = id, .hit = {}}; },
        [](SequenceId id) { return Leaver{.sequence = id}; });
    const StepPlan& plan = scheduler_.plan(facts_);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    spans_ = plan.spans;
    scheduler_.took(DecodedRows::of(plan), limits_.drafts.step(plan.rows));
    scheduler_.completed();
    for (const Span& span : spans_) keep(span);
    return seconds.count();
  }

  void keep(const Span& span) {
    const int right = std::min(span.drafts, span.sequence.value % (options_.drafts + 1));
    if (span.drafts > 0) scheduler_.judged(span.sequence, span.source, span.drafts, right);
    drafts_ += span.drafts;
    Position& computed = computed_[static_cast<std::size_t>(span.sequence.value)];
    held_ -= kGeometry.latent_pages(computed);
    computed = span.first_position + span.rows - span.drafts + right;
    held_ += kGeometry.latent_pages(computed);
  }

  const PlanOptions options_;
  const int offers_;
  const SchedulerLimits limits_;
  Scheduler scheduler_;
  PlanFacts facts_;
  std::vector<Span> spans_;
  std::vector<Position> computed_;  // by sequence
  int held_ = 0;                    // latent pages
  std::int64_t drafts_ = 0;
};

// Whether all plans had the drafts that their names say.
bool measure_all(const PlanOptions& options) {
  PlanBench(options, 0, kNonePays).measure("no offers");
  bool as_named = PlanBench(options, 1, kNonePays).measure("an offer, none pays") == 0;
  as_named = PlanBench(options, 2, kNonePays).measure("two offers, none pays") == 0 && as_named;
  const double most = 1.0 * options.running * options.drafts;
  for (const int offers : {1, 2}) {
    const char* count = offers == 1 ? "an offer" : "two offers";
    const double some = PlanBench(options, offers, kSomePay).measure(fmt::format("{}, some pay", count).c_str());
    const double all = PlanBench(options, offers, kMostPay).measure(fmt::format("{}, most pay", count).c_str());
    as_named = as_named && some > 0 && all > some && all <= most;
  }
  if (!as_named) fmt::print("the drafts of some plans are not what their names say\n");
  return as_named;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  CLI::App app{"The cost of a plan alone"};
  sluice::PlanOptions options;
  app.add_option("--running", options.running)->capture_default_str();
  app.add_option("--steps", options.steps)->capture_default_str();
  app.add_option("--drafts", options.drafts, "of a sequence in a step, at most")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return sluice::measure_all(options) ? 0 : 1;
}
