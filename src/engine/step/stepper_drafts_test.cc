// Tests of the drafts that a stepper offers and of its decision to wait for tokens, on a device whose steps begin
// before the previous tokens are known. None of it changes an answer, so only these tests see it.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/step/stepper_testing.h"

namespace sluice::stepper_drafts_test {
namespace {

constexpr int kPrompt = 20, kAnswer = 1000;

EngineSetup waits_where_it_pays() {
  EngineSetup options = small_options();
  options.machine.device = "emulated";
  options.scheduler.async_scheduling = AsyncScheduling::kAuto;
  options.speculation.speculative = Speculative::kNgram;
  options.speculation.num_speculative_tokens = 4;
  options.scheduler.max_num_seqs = 32;
  options.scheduler.max_num_batched_tokens = 256;
  return options;
}

const std::vector<TokenId>& answer() {
  static const std::vector<TokenId> tokens = greedy_alone(random_tokens(kPrompt, 1), kAnswer);
  return tokens;
}

struct Cost {
  double row = 0.1, wait = 0.2;  // cost of a row, and of waiting after a step of one row
};

// Sequences that decode on a device that goes on by itself.
class Ahead {
 public:
  explicit Ahead(int sequences, const Cost& cost = {}, bool exports = false)
      : cost_(cost),
        runner_(Runner::create(std::make_unique<FakeModel>(FakeModel::Settings{.experts = exports ? 8 : 0}), nullptr,
                               waits_where_it_pays())
                    .value()) {
    std::vector<double> seconds;
    for (int rows = 0; rows < 64; ++rows) seconds.push_back(1 + cost.wait + cost.row * rows);
    runner_->draft_times() = {.rows = std::move(seconds), .wait = cost.wait};
    stepper_ = std::make_unique<Stepper>(runner_.get(), waits_where_it_pays());
    for (int i = 0; i < sequences; ++i) {
      NewSequence given;
      given.prompt = random_tokens(kPrompt, 1);
      given.options = share({.max_tokens = kAnswer, .return_routed_experts = exports});
      stepper_->add(std::move(given));
    }
  }

  // Makes a step as the engine does (step_loop.cc). Returns whether it waited.
  bool step() {
    bool waited = false;
    if (stepper_->outstanding() && stepper_->wants_tokens()) take(), waited = true;
    BegunStep begun = stepper_->begin();
    if (stepper_->outstanding()) take();
    Result<ComputedStep> computed = std::move(begun).commit();
    EXPECT_TRUE(computed.ok());
    for (std::size_t i = 0; i < computed->sampled().size(); ++i) {
      computed->draw(computed->sampled()[i], computed->logits_row(i), {.temperature = 0});
    }
    sent_ = std::move(*computed).send();
    const bool drafted = sent_.drafted();
    drafting_ += drafted ? 1 : 0;
    if (drafted) take();
    stepper_->took(1 + cost_.row * (stepper_->plan().rows - 1) + (drafted ? cost_.wait : 0));
    return waited;
  }
  int waits(int steps) {
    int waits = 0;
    for (int i = 0; i < steps; ++i) waits += step() ? 1 : 0;
    return waits;
  }

  // Drafts by copies. `next` is the place in the answer of the token that is drawn next or on its way. to(next) is the
  // number of copies, and right(next, at) says which of them are the answer's tokens.
  void draft_by(std::function<int(int next)> to, std::function<bool(int next, int at)> right) {
    stepper_->draft_by([this, to, right](SequenceId id, std::span<TokenId> tokens) {
      const int next = stepper_->sequences()[id].generated(),
                count = std::min(to(next), static_cast<int>(tokens.size()));
      for (int i = 0; i < count; ++i) {
        const TokenId token = answer().at(static_cast<std::size_t>(next + i));
        tokens[static_cast<std::size_t>(i)] = right(next, next + i) ? token : (token + 1) % 64;
      }
      return count;
    });
  }
  int drafting() const { return drafting_; }  // steps that had drafts
  DraftStats drafts() const {
    EngineStats stats;
    stepper_->fill(&stats);
    return stats.drafts;
  }

 private:
  void take() {
    TakenStep step = std::move(sent_).take();
    for (const DrawnToken& drawn : step.tokens()) {
      if (drawn.id) stepper_->append(drawn.id, drawn.row->token);
    }
    std::move(step).end();
  }

  Cost cost_;
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<Stepper> stepper_;
  SentStep sent_;  // the step whose tokens are on their way
  int drafting_ = 0;
};

int many(int) {
  return 8;
}
bool always(int, int) {
  return true;
}
bool never(int, int) {
  return false;
}

// Possible drafts are compared with the tokens that came: the device is only waited for if they were right.
TEST(StepperDraftsTest, CopiesThatAreNeverRightAreNotWaitedFor) {
  for (const bool right : {true, false}) {
    Ahead ahead(1);
    ahead.draft_by(many, right ? always : never);
    ahead.waits(30);
    const int waits = ahead.waits(150);
    if (right) {
      EXPECT_GT(ahead.drafts().accepted_tokens, 300U);
    } else {
      EXPECT_LE(waits, 3);
      EXPECT_LT(ahead.drafts().drafted_tokens, 40U);
    }
  }
}

// With many sequences some steps are not asked about: a token predicted in one is not compared with a later token.
TEST(StepperDraftsTest, WhatWasPredictedIsComparedOnce) {
  Ahead ahead(16, {.row = 0.03});
  bool right = false;
  ahead.draft_by(many, [&right](int, int) { return right; });
  ahead.waits(150);
  right = true;
  ahead.waits(60);
  const std::uint64_t before = ahead.drafts().accepted_tokens;
  ahead.waits(60);
  EXPECT_GT(ahead.drafts().accepted_tokens - before, 16U * 60);
}

// A copy that ends with the token that is on its way leaves nothing to draft after it.
TEST(StepperDraftsTest, ACopyOfTheTokenOnItsWayAloneIsNotWaitedFor) {
  Ahead ahead(1);
  ahead.draft_by([](int next) { return next % 2; }, always);
  EXPECT_EQ(ahead.waits(100), 0);
}

// Drafts after the token on its way are as likely as the second draft, not as the first: copies whose first token alone
// is right promise nothing there. They have drafts from one step without them to the next, and are then tried again.
TEST(StepperDraftsTest, WhatIsPredictedIsAsLikelyAsWhatFollows) {
  Ahead ahead(1);
  ahead.draft_by(many, [](int next, int at) { return at == next; });
  ahead.waits(300);
  EXPECT_GE(ahead.drafting(), 60);
  EXPECT_LE(ahead.drafting(), 240);
}

// One sequence is asked about before each step, so that no copy is missed: of 15 tokens four are copied.
TEST(StepperDraftsTest, NoCopyOfOneSequenceIsMissed) {
  constexpr int kPeriod = 15, kCopied = 4;
  Ahead ahead(1);
  ahead.draft_by([](int next) { return std::max(0, kCopied - next % kPeriod); }, always);
  ahead.waits(400);
  EXPECT_GT(ahead.drafts().accepted_tokens, 400U * 2 / kPeriod);
}

// It can have no drafts, so that nothing is gained by its tokens.
TEST(StepperDraftsTest, ASequenceThatExportsIsNotWaitedFor) {
  Ahead ahead(1, {}, true);
  ahead.draft_by(many, always);
  EXPECT_EQ(ahead.waits(60), 0);
  EXPECT_EQ(ahead.drafts().drafted_tokens, 0U);
}

// The table's times of steps are without the wait: two steps that cost three each are dearer than four tokens.
TEST(StepperDraftsTest, AWaitThatTakesLongIsNotPaidFor) {
  Ahead ahead(1, {.wait = 3});
  ahead.draft_by(many, always);
  EXPECT_LE(ahead.waits(100), 2);
}

}  // namespace
}  // namespace sluice::stepper_drafts_test
