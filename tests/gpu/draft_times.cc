// draft_times MODEL [DEVICE [PROFILE [DEPTH [EXPERTS]]]]: measures steps with drafts of one
// sequence (docs/speculation.md), in milliseconds, the medians of some. The steps are: steps of one row that wait for
// no token; steps of 1 to 8 rows, which wait, with tokens drawn from all of them; and steps with drafts that the model
// makes. `host` is the part of it in which the host enqueues the step. With EXPERTS the weights are random, with this
// many experts a layer.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/threads/clocks.h"
#include "bench/speed_case.h"
#include "engine/runner/runner.h"

namespace sluice {
namespace {

constexpr int kSteps = 40, kMostRows = 8;

double now() {
  return 1e3 * clock_seconds(CLOCK_MONOTONIC);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

struct Sequence {
  Runner& runner;
  StateSlot slot;
  std::mt19937 random{1};
  std::vector<int> all_rows = std::vector<int>(kMostRows);

  std::vector<SampleRow> draws(int rows, std::int32_t to) const {
    std::vector<SampleRow> draws;
    for (int i = 0; i < rows; ++i) {
      draws.push_back({.row = i, .temperature = 0, .position = runner.sequences().position(slot) + 1 + i, .slot = to});
    }
    return draws;
  }
};

// Times a step of `rows` rows and `drafts` drafts of the model, of which one row stays.
Status timed(Sequence& s, int rows, int drafts, const char* what) {
  const SamplingParams greedy{.temperature = 0};
  std::vector<double> whole, host;
  for (int i = 0; i < kSteps; ++i) {
    std::vector<TokenId> ids(static_cast<std::size_t>(rows));
    for (TokenId& id : ids) id = static_cast<TokenId>(s.random() % s.runner.limits().vocab_size);
    StepSpan span{.sequence = s.slot,
                  .ids = std::span(ids).first(1),
                  .logit_rows = std::span(s.all_rows).first(static_cast<std::size_t>(rows + drafts)),
                  .drafts = std::span(ids).subspan(1)};
    if (drafts > 0) span.model_drafts = drafts, span.sampling = &greedy;
    const double begin = now();
    SLUICE_RETURN_IF_ERROR(s.runner.begin({&span, 1}));
    s.runner.logits().draw(s.draws(rows + drafts, -1));
    host.push_back(now() - begin);
    std::ignore = s.runner.logits().finish();
    whole.push_back(now() - begin);
    s.runner.sequences().commit(s.slot, 1);
  }
  fmt::print("{} {}: {:.3f} ms, host {:.3f}\n", what, rows + drafts - (drafts > 0), median(whole), median(host));
  return s.runner.exec().device->status();
}

// Times steps of one row whose token the host does not know when it enqueues the next.
Status timed_asynchronous(Sequence& s) {
  std::vector<double> whole, host;
  const TokenId first = 1;
  double before = now();
  for (int i = 0; i < kSteps; ++i) {
    StepSpan span{.sequence = s.slot, .ids = {}, .logit_rows = std::span(s.all_rows).first(1)};
    if (i == 0) span.ids = {&first, 1};
    span.newest = i > 0;
    const double begin = now();
    SLUICE_RETURN_IF_ERROR(s.runner.begin({&span, 1}));
    const double enqueued = now();
    if (i > 0) std::ignore = s.runner.logits().finish();
    s.runner.sequences().commit(s.slot, 1);
    s.runner.logits().draw(s.draws(1, s.slot.value));
    host.push_back(enqueued - begin);
    whole.push_back(now() - before);
    before = now();
  }
  std::ignore = s.runner.logits().finish();
  fmt::print("asynchronous 1: {:.3f} ms, host {:.3f}\n", median(whole), median(host));
  return s.runner.exec().device->status();
}

Status run(const EngineSetup& options, int depth) {
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<Runner> runner, Runner::load(options));
  SLUICE_ASSIGN_OR_RETURN(const StateSlot slot, runner->sequences().open());
  SLUICE_RETURN_IF_ERROR(fill_with_random_state(*runner, slot, depth));
  Sequence s{.runner = *runner, .slot = slot};
  std::iota(s.all_rows.begin(), s.all_rows.end(), 0);
  fmt::print("depth {}; the start measured {:.3f} ms a token of the model", depth, 1e3 * runner->draft_times().draft);
  for (std::size_t rows = 0; rows < std::min<std::size_t>(kMostRows, runner->draft_times().rows.size()); ++rows) {
    fmt::print(", {:.3f}", 1e3 * runner->draft_times().rows[rows]);
  }
  fmt::print("\n");
  SLUICE_RETURN_IF_ERROR(timed_asynchronous(s));
  for (const int rows : {1, 2, 3, 4, 5, 6, 8}) SLUICE_RETURN_IF_ERROR(timed(s, rows, 0, "rows"));
  for (const int drafts : {1, 2, 3, 4, 5}) SLUICE_RETURN_IF_ERROR(timed(s, 1, drafts, "by the model"));
  SLUICE_RETURN_IF_ERROR(timed_asynchronous(s));
  return {};
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print("draft_times MODEL [DEVICE [PROFILE [DEPTH [EXPERTS]]]]\n");
    return 2;
  }
  sluice::EngineSetup options;
  options.model.folder = argv[1];
  options.machine.device = argc > 2 ? argv[2] : "cuda";
  options.numerics.profile = argc > 3 ? argv[3] : "default";
  const int depth = argc > 4 ? std::atoi(argv[4]) : 0;
  options.model.dummy_experts = argc > 5 ? std::atoi(argv[5]) : 0;
  if (options.model.dummy_experts > 0) options.model.load_format = sluice::LoadFormat::kDummy;
  options.model.max_model_len = depth + 4096;
  options.scheduler.max_num_seqs = 64;
  options.scheduler.max_num_batched_tokens = 512;
  options.speculation.speculative = sluice::Speculative::kMtp;
  options.speculation.num_speculative_tokens = 7;
  const sluice::Status status = sluice::run(options, depth);
  if (!status.ok()) fmt::print("{}\n", status.message());
  return status.ok() ? 0 : 1;
}
