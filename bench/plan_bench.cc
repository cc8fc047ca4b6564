// The cost of a plan alone: sequences that decode, with no drafts, with an offer of drafts each, and with two. Nothing
// is computed; of the drafts of a sequence a part of its own is right, so that adaptive plans give some of them.
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

class PlanBench {
 public:
  PlanBench(const PlanOptions& options, int offers, double seconds_of_row)
      : options_(options), offers_(offers), scheduler_(limits(options, seconds_of_row)) {
    computed_.resize(static_cast<std::size_t>(options.running));
    for (int i = 0; i < options.running; ++i)
      scheduler_.add(SequenceId(i), {.prompt_tokens = 1 + i % 128, .max_tokens = 1 << 20});
    while (scheduler_.decoding() < options.running) step();
    drafts_ = 0;
  }

  void measure(const char* name) {
    std::vector<double> times;
    for (int i = 0; i < options_.steps; ++i) times.push_back(step());
    std::sort(times.begin(), times.end());
    const auto at = [&](double part) { return 1e6 * times[static_cast<std::size_t>(part * (options_.steps - 1))]; };
    fmt::print("{:<34} least {:5.1f} us, median {:5.1f}, p90 {:5.1f}; {:.0f} drafts a plan\n", name, at(0), at(0.5),
               at(0.9), static_cast<double>(drafts_) / options_.steps);
  }

 private:
  static constexpr PageGeometry kGeometry{.resume_pages = 1, .has_latents = true, .has_windows = true};
  static constexpr int kPages = 1 << 28;  // more than anybody takes

  static SchedulerLimits limits(const PlanOptions& options, double seconds_of_row) {
    SchedulerLimits l;
    l.max_batched_tokens = 8192;
    l.max_seqs = options.running;
    l.max_model_len = 1 << 24;
    l.latent_pages = l.window_pages = kPages;
    l.geometry = kGeometry;
    l.drafts.most = options.drafts;
    for (int rows = 1; rows <= 64; ++rows) l.drafts.step_seconds.push_back(1 + seconds_of_row * rows);
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
    spans_ = scheduler_.plan(facts_).spans;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
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
  Scheduler scheduler_;
  PlanFacts facts_;
  std::vector<Span> spans_;
  std::vector<Position> computed_;  // by sequence
  int held_ = 0;                    // latent pages
  std::int64_t drafts_ = 0;
};

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  CLI::App app{"The cost of a plan alone"};
  sluice::PlanOptions options;
  app.add_option("--running", options.running)->capture_default_str();
  app.add_option("--steps", options.steps)->capture_default_str();
  app.add_option("--drafts", options.drafts, "of a sequence in a step, at most")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  sluice::PlanBench(options, 0, 0).measure("no drafts");
  sluice::PlanBench(options, 1, 0).measure("an offer, rows cost nothing");
  sluice::PlanBench(options, 1, 1e-3).measure("an offer, some pay");
  sluice::PlanBench(options, 2, 1e-3).measure("two offers, some pay");
  sluice::PlanBench(options, 2, 1).measure("two offers, none pays");
  return 0;
}
