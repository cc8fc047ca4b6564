// The cost of a step without its model: scheduler, cache and stepper, with 1,000 sequences running and 100,000 blocks
// cached, about 8 requests arriving and as many ending in each step. The model computes nothing; its cache has the
// layout of a real one.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/log.h"
#include "base/test_paths_testing.h"
#include "config/model_config.h"
#include "engine/step/stepper.h"
#include "model/model_plan.h"
#include "sim/null_model.h"

namespace sluice {
namespace {

struct BenchOptions {
  std::string config = source_dir() + "/models/sluice-tiny-v4";
  int running = 1000, cached_blocks = 100000, steps = 2000, answer = 125, prompt = 300;
  bool record = false;
};

constexpr int kMaxPositions = 1 << 16;

void check(const Status& status) {
  if (status.ok()) return;
  fmt::print(stderr, "scheduler_bench: {}\n", status.message());
  std::exit(1);
}

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Bench {
 public:
  explicit Bench(const BenchOptions& options) : options_(options) {
    auto config = load_model_config(options.config);
    check(config.status());
    EngineSetup engine;
    engine.machine.threads = 1;
    engine.scheduler.max_num_seqs = options.running;
    engine.speculation.speculative = Speculative::kOff;
    engine.scheduler.max_num_batched_tokens = 8192;
    engine.model.max_model_len = 8192;
    auto plan = plan_model(std::move(config).value(), engine);
    check(plan.status());
    const CacheLayout& layout = plan->cache_layout;
    const auto group = static_cast<std::int64_t>(16 * layout.latent_page_bytes() + layout.window_page_bytes());
    engine.cache.kv_cache_memory = group * (options.cached_blocks / 14 + options.running) +
                                   static_cast<std::int64_t>(layout.window_page_bytes()) * (3 * options.running + 100);
    auto sized = null_model_options(layout, kMaxPositions, engine);
    check(sized.status());
    engine = *sized;
    auto runner = Runner::create(make_null_model(layout, kMaxPositions), nullptr, engine);
    check(runner.status());
    runner_ = std::move(runner).value();
    stepper_ = std::make_unique<Stepper>(runner_.get(), engine);
  }

  // Runs requests of 16 blocks until enough blocks are cached.
  void fill_cache() {
    while (runner_->cache().pools().latents().cached() < options_.cached_blocks &&
           runner_->cache().pools().latents().evicted_count() == 0) {
      for (int i = 0; i < 32; ++i) add(16 * kBlockTokens + 1, 1, true);
      while (!stepper_->idle()) step();
    }
  }

  void reach_steady_state() {
    for (int i = 0; i < 2 * options_.answer; ++i) arrivals_and_step();
  }

  void measure() {
    std::vector<double> times, times_recorded;
    for (int i = 0; i < options_.steps; ++i) {
      const double seconds = arrivals_and_step();
      times.push_back(seconds);
      if (!options_.record) continue;
      stepper_->record_in(&recorder_);
      times_recorded.push_back(arrivals_and_step());
      stepper_->record_in(nullptr);
    }
    std::sort(times.begin(), times.end());
    EngineStats stats;
    stepper_->fill(&stats);
    fmt::print("{} running, {} cached and {} used latent pages of {}, {:.0f} rows a step\n", stepper_->counts().running,
               stats.cache.latent_pages_cached, stats.cache.latent_pages_used, stats.cache.latent_pages_total,
               static_cast<double>(rows_) / options_.steps);
    const auto at = [&](double part) { return 1e6 * times[static_cast<std::size_t>(part * (options_.steps - 1))]; };
    if (options_.record) print_record(times_recorded);
    fmt::print("a step: median {:.2f} us, p90 {:.2f}, p99 {:.1f}, max {:.1f}; {:.0f} ns a running sequence\n", at(0.5),
               at(0.9), at(0.99), at(1.0), 1e3 * at(0.5) / stepper_->counts().running);
  }

 private:
  void add(int prompt_tokens, int answer_tokens, bool fresh) {
    NewSequence sequence;
    sequence.options = share({.max_tokens = answer_tokens});
    sequence.prompt.resize(static_cast<std::size_t>(prompt_tokens));
    const std::uint32_t seed = fresh ? ++seed_ : 1 + next_known_++ % seed_;
    for (std::size_t i = 0; i < sequence.prompt.size(); ++i) {  // it begins with the digits of the seed
      sequence.prompt[i] = static_cast<TokenId>((i < 3 ? seed >> (10 * i) : i) & 0x3FF);
    }
    stepper_->add(std::move(sequence));
  }

  void step() {
    Result<ComputedStep> step = stepper_->begin().commit();
    check(step.status());
    sampled_.assign(step->sampled().begin(), step->sampled().end());
    for (const SequenceId id : sampled_) {
      stepper_->append(id, 7);
      const LiveSequence& s = stepper_->sequences()[id];
      if (s.generated() >= options_.answer || s.prompt_tokens() > 16 * kBlockTokens) stepper_->end(id);
    }
    std::move(*step).end();
    stepper_->close_record();
  }

  // Compares the recorded steps, every second one, with the steps between them.
  void print_record(std::vector<double> recorded) const {
    std::sort(recorded.begin(), recorded.end());
    const auto at = [&](double part) {
      return 1e6 * recorded[static_cast<std::size_t>(part * static_cast<double>(recorded.size() - 1))];
    };
    fmt::print("a recorded step: median {:.2f} us, p90 {:.2f}\n", at(0.5), at(0.9));
  }

  double arrivals_and_step() {
    int arrivals = 0;
    const int most = std::max(8, options_.running / options_.answer);
    const auto start = Clock::now();
    for (; stepper_->counts().running + stepper_->counts().waiting < options_.running && arrivals < most; ++arrivals) {
      add(options_.prompt, options_.answer, arrivals % 2 == 0);  // half of them begin with something cached
    }
    step();
    const double seconds = seconds_since(start);
    rows_ += stepper_->plan().rows;
    return seconds;
  }

  const BenchOptions options_;
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<Stepper> stepper_;
  StepRecorder recorder_;
  std::vector<SequenceId> sampled_;
  std::uint32_t seed_ = 0, next_known_ = 0;
  std::int64_t rows_ = 0;
};

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  CLI::App app{"The cost of a step without its model: scheduler and cache"};
  sluice::BenchOptions options;
  app.add_option("config", options.config, "config.json, or a folder with one: the cache's layout")
      ->capture_default_str();
  app.add_option("--running", options.running)->capture_default_str();
  app.add_option("--cached-blocks", options.cached_blocks)->capture_default_str();
  app.add_option("--steps", options.steps)->capture_default_str();
  app.add_flag("--record", options.record, "Write down every second step, and compare");
  CLI11_PARSE(app, argc, argv);
  sluice::set_log_level(sluice::LogLevel::kWarning);
  sluice::Bench bench(options);
  bench.fill_cache();
  bench.reach_steady_state();
  bench.measure();
  return 0;
}
