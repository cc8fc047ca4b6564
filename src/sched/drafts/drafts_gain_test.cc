// Measures what drafts gain and lose. Sequences come and go, and their drafts are right by chance. The true times of
// steps are known, and the scheduler gets them with the errors of a machine on which other programs run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "base/test_seed_testing.h"
#include "sched/scheduler.h"

namespace sluice::drafts_gain_test {
namespace {

// Chances that the first draft is right, and that each later one is.
struct Chances {
  double first, next;
};

// A small model in the processor's cache, in milliseconds: a row costs what it computes. Or a device that runs one step
// after another without a `wait`.
struct Times {
  double weights = 0.17, row = 0.084, draft = 0.046, wait = 0;

  double step(int rows, int by_model) const { return weights + row * rows + draft * by_model; }
  DraftLimits limits() const {
    DraftLimits limits{.most = 4, .adaptive = true, .step_seconds = {}, .wait = wait};
    for (int rows = 1; rows <= 64; ++rows) limits.step_seconds.push_back(step(rows, 0));
    limits.seconds[static_cast<std::size_t>(DraftSource::kMtp)] = draft;
    return limits;
  }
};

struct Text {
  Chances by_model;
  double copies = 0;  // part of the tokens that have a copy offered, too
  Chances of_copies = {0.9, 0.9};
};

constexpr Text kProse{{0.42, 0.35}, 0.3, {0.25, 0.3}};
constexpr Text kTasks{{0.97, 0.5}, 0.3, {0.8, 0.9}};

struct Outcome {
  int tokens = 0, drafts = 0, right = 0;
  double seconds = 0;

  double speed() const { return tokens / seconds; }
};

class ClosedLoop {
 public:
  ClosedLoop(const DraftLimits& drafts, int sequences, const Times& times, double noise, std::uint32_t seed)
      : scheduler_(limits(drafts, sequences)), sequences_(sequences), times_(times), noise_(noise), random_(seed) {}

  // Answers of 96 tokens, a new one where one ends.
  Outcome run(const Text& text, int tokens) {
    Outcome run;
    while (run.tokens < tokens) step(text, &run);
    return run;
  }

 private:
  static SchedulerLimits limits(const DraftLimits& drafts, int sequences) {
    SchedulerLimits l;
    l.max_seqs = sequences;
    l.max_model_len = 200;
    l.geometry = {.resume_pages = 0, .has_latents = false, .has_windows = false};
    l.drafts = drafts;
    return l;
  }

  void step(const Text& text, Outcome* run) {
    constexpr int kTokens = 96;
    for (; static_cast<int>(left_.size()) < sequences_; ++next_) {
      scheduler_.add(SequenceId(next_ % (2 * sequences_)), {.prompt_tokens = 8, .max_tokens = kTokens});
      left_[next_ % (2 * sequences_)] = kTokens;
    }
    PlanFacts facts = offers(text, run);
    gather(
        &scheduler_, &facts, [](SequenceId id) { return PrefixLookup{.sequence = id, .hit = {}}; },
        [](SequenceId id) { return Leaver{.sequence = id}; });
    const StepPlan plan = scheduler_.plan(facts);
    scheduler_.completed();
    for (const Span& span : plan.spans) {
      if (span.samples) commit(span, text, run);
    }
    const DecodedRows rows = DecodedRows::of(plan);
    double seconds = times_.step(plan.rows, rows.by_model);
    in_flight_ = times_.wait > 0 && rows.drafts == 0;
    if (!in_flight_) seconds += times_.wait;
    run->seconds += seconds;
    scheduler_.took(rows, seconds * disturbance());
  }

  // Offers for the next step; while one is in flight, the offers that are worth the wait for its tokens, if any are.
  PlanFacts offers(const Text& text, Outcome* run) {
    PlanFacts known, predicted;
    for (int i = 0; i < scheduler_.decoding(); ++i) {
      const SequenceId id = scheduler_.decoding(i);
      for (PlanFacts* facts : {&known, &predicted}) facts->offers.push_back({id, DraftSource::kMtp, 4});
      if (!chance(text.copies)) continue;
      predicted.offers.push_back({id, DraftSource::kCopy, 3, true});
      const bool right = !in_flight_ || chance(text.of_copies.first);
      if (right) known.offers.push_back({id, DraftSource::kCopy, 4});
      if (in_flight_) scheduler_.record_prediction(id, DraftSource::kCopy, right);
    }
    if (!in_flight_) return known;
    if (!scheduler_.waiting_pays(predicted.offers)) return {};
    run->seconds += times_.wait;
    return known;
  }

  void commit(const Span& span, const Text& text, Outcome* run) {
    const Chances of = span.source == DraftSource::kMtp ? text.by_model : text.of_copies;
    int right = 0;
    while (right < span.drafts && chance(right == 0 ? of.first : of.next)) ++right;
    if (span.drafts > 0) scheduler_.judged(span.sequence, span.source, span.drafts, right);
    run->tokens += 1 + right, run->drafts += span.drafts, run->right += right;
    const auto left = left_.find(span.sequence.value);
    left->second -= 1 + right;
    if (left->second > 0) return;
    scheduler_.end(span.sequence);
    left_.erase(left);
  }

  bool chance(double of) { return std::uniform_real_distribution<>(0, 1)(random_) < of; }
  // Other programs come and go every few hundred steps, and now and then one holds up a step.
  double disturbance() {
    if (noise_ == 0) return 1;
    if (chance(0.004)) load_ = 1 + 2 * std::uniform_real_distribution<>(0, 1)(random_) * (chance(0.5) ? 1 : 0);
    return load_ * std::exp(noise_ * std::normal_distribution<>()(random_)) * (chance(0.05) ? 2 : 1);
  }

  Scheduler scheduler_;
  int sequences_, next_ = 0;
  Times times_;
  double noise_, load_ = 1;
  bool in_flight_ = false;
  std::mt19937 random_;
  std::map<int, int> left_;
};

// Tokens a second relative to runs without drafts, in the mean of a few runs: in tasks, and in prose after them.
struct Gain {
  double tasks = 0, prose = 0;
};

Gain gain(const Times& start, int sequences, double noise, std::mt19937& random, const Times& truth = {}) {
  constexpr int kRuns = 4;
  const int tokens = sequences == 1 ? 1000 : 400 * sequences;
  const auto speed = [&](const DraftLimits& drafts, double of_noise, const auto& visit) {
    ClosedLoop loop(drafts, sequences, truth, of_noise, static_cast<std::uint32_t>(random()));
    visit(loop);
  };
  double off = 0;
  speed({}, 0, [&](ClosedLoop& loop) { off = loop.run(kProse, 4 * tokens).speed(); });
  Gain gain;
  for (int i = 0; i < kRuns; ++i) {
    speed(start.limits(), noise, [&](ClosedLoop& loop) {
      gain.tasks += loop.run(kTasks, 2 * tokens).speed() / off / kRuns;
      gain.prose += loop.run(kProse, 3 * tokens).speed() / off / kRuns;
    });
  }
  return gain;
}

// Drafts pay if the measurements at the start were right, and also if they gave half or twice the real cost of rows.
// They pay with undisturbed steps, and with other programs running.
TEST(DraftsGainTest, DraftsArePaidForWhateverTheStartMeasured) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  for (const Times& start : {Times{}, Times{0.21, 0.042, 0.023}, Times{0.1, 0.15, 0.046}}) {
    for (const double noise : {0.0, 0.05, 0.2}) {
      for (const int sequences : {1, 4, 16, 64}) {
        const Gain found = gain(start, sequences, noise, random);
        EXPECT_GE(found.prose, 0.95) << sequences << " sequences, a row " << start.row << ", noise " << noise;
        EXPECT_GE(found.tasks, sequences == 1 ? 1.1 : 0.95)
            << sequences << " sequences, a row " << start.row << ", noise " << noise;
      }
    }
  }
}

// A large model and a small one, of which the start measured too little or too much.
TEST(DraftsGainTest, ADeviceWaitsForTokensWhereDraftsPay) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  for (const Times& truth : {Times{6.4, 0.7, 0.45, 0.2}, Times{0.6, 0.03, 0.08, 0.11}}) {
    for (const double error : {1.0, 0.6, 1.6}) {
      const Times start{truth.weights, truth.row * error, truth.draft * error, truth.wait * error};
      for (const double noise : {0.0, 0.02}) {
        for (const int sequences : {1, 4, 16, 64}) {
          const Gain found = gain(start, sequences, noise, random, truth);
          EXPECT_GE(found.prose, 0.97) << sequences << " sequences, a step " << truth.weights << ", error " << error;
          EXPECT_GE(found.tasks, sequences == 1   ? 1.5
                                 : sequences == 4 ? 1.0
                                                  : 0.97)
              << sequences << " sequences, a step " << truth.weights << ", error " << error;
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice::drafts_gain_test
