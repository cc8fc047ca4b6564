// Whole-model speed: tokens per second of a prefill and of single-stream decoding, through the same steps that the
// engine runs. Each figure is the best of several rounds; the median is printed beside it, since machines are shared.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <numeric>
#include <vector>

#include "base/log.h"
#include "engine/runner.h"

namespace sluice {
namespace {

struct BenchOptions {
  EngineOptions engine;
  int prefill = 512, decode = 64, rounds = 7;
};

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void check(const Status& status) {
  if (status.ok()) return;
  fmt::print(stderr, "model_bench: {}\n", status.message());
  std::exit(1);
}

// Tokens that spread over the vocabulary, so that routing touches every expert.
std::vector<TokenId> tokens(int count, std::size_t vocab) {
  std::vector<TokenId> ids(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>((i * 2654435761U + 12345) % vocab);
  return ids;
}

void print_row(const char* name, int count, std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  fmt::print("{:<8} {:>5} tokens   best {:>9.0f} tokens/s   median {:>9.0f} tokens/s\n", name, count,
             count / seconds.front(), count / seconds[seconds.size() / 2]);
}

int bench(const BenchOptions& options) {
  auto loaded = Runner::load(options.engine);
  check(loaded.status());
  Runner& runner = **loaded;
  fmt::print("{}, {} kernels, {} threads, steps of {} rows\n", runner.model().profile().text(), runner.isa_name(),
             runner.threads(), runner.step_rows());
  runner.pin_caller();
  const auto ids = tokens(options.prefill + options.decode, runner.vocab_size());
  std::vector<double> prefill_seconds, decode_seconds;
  for (int round = 0; round < options.rounds; ++round) {
    auto opened = runner.open();
    check(opened.status());
    const StateSlot sequence = *opened;
    const auto step = [&](int begin, int rows) {
      const int last = rows - 1;
      const StepSpan span{sequence,
                          std::span(ids).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(rows)),
                          {&last, 1},
                          true};
      check(runner.run_step({&span, 1}));
    };
    prefill_seconds.push_back(seconds_of([&] {
      for (int begin = 0; begin < options.prefill; begin += runner.step_rows()) {
        step(begin, std::min(options.prefill - begin, runner.step_rows()));
      }
    }));
    decode_seconds.push_back(seconds_of([&] {
      for (int i = 0; i < options.decode; ++i) step(options.prefill + i, 1);
    }));
    runner.close(sequence);
  }
  print_row("prefill", options.prefill, prefill_seconds);
  print_row("decode", options.decode, decode_seconds);
  return 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  sluice::BenchOptions options;
  options.engine.model_folder = SLUICE_SOURCE_DIR "/models/sluice-tiny-v4";
  options.engine.threads = 2;
  CLI::App app{"Whole-model speed: prefill and single-stream decoding", "model_bench"};
  app.add_option("model", options.engine.model_folder, "model folder")->capture_default_str();
  app.add_option("--prefill", options.prefill, "tokens")->check(CLI::Range(1, 1 << 20))->capture_default_str();
  app.add_option("--decode", options.decode, "tokens")->check(CLI::Range(1, 1 << 20))->capture_default_str();
  app.add_option("--rounds", options.rounds, "rounds")->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--threads", options.engine.threads, "threads")->capture_default_str();
  app.add_option("--isa", options.engine.isa, "auto, scalar, avx2 or avx512")->capture_default_str();
  app.add_option("--profile", options.engine.profile, "default, plain or ref")->capture_default_str();
  app.add_option("--compute-dtype", options.engine.compute_dtype, "auto, f32 or bf16")->capture_default_str();
  app.add_option("--mla-prefill", options.engine.mla_prefill, "absorbed or expanded")->capture_default_str();
  app.add_option("--attn-prefill-chunk-size", options.engine.attn_prefill_chunk_size, "of expanded; 0: the default")
      ->capture_default_str();
  app.add_option("--max-num-batched-tokens", options.engine.max_num_batched_tokens, "rows of a step")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  sluice::set_log_level(sluice::LogLevel::kWarning);
  return sluice::bench(options);
}
