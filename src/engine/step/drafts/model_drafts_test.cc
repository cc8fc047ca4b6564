// Tests of a model's drafts that the host does not know yet when the rows that verify them are enqueued.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "engine/step/stepper_testing.h"

namespace sluice::model_drafts_test {
namespace {

EngineSetup fixed_drafts(const char* device, int most) {
  EngineSetup options = small_options();
  options.machine.device = device;
  options.scheduler.async_scheduling = AsyncScheduling::kOff;
  options.scheduler.max_num_seqs = 200;  // their slots take more than a page of memory
  options.scheduler.max_num_batched_tokens = 2048;
  options.cache.kv_cache_memory = 16 << 20;
  options.speculation = {
      .speculative = Speculative::kMtp, .num_speculative_tokens = most, .speculative_adaptive = false};
  return options;
}

TokenId guess_behind(TokenId token, Position position) {
  return (7 * token + position) % 64;
}

// A guess that is right about half of the time; what is not depends on all that was read back from the cache.
FakeModel::Settings half_right(bool drafts) {
  FakeModel::Settings settings{.drafts = drafts};
  settings.on_draft = [](TokenId token, Position position, float* logits) {
    logits[0] = 0;
    logits[guess_behind(token, position)] = 1000;
  };
  settings.on_logits = [](TokenId token, Position position, float* logits) {
    logits[guess_behind(token, position)] += 7;
  };
  return settings;
}

struct Given {
  std::vector<TokenId> prompt;
  int max_tokens;
};

// Sequences that all decode at once, some with several pages. Sequences near their end have fewer drafts than others.
Given given(int i) {
  return {random_tokens(3 + i % 7 + (i % 50 == 7 ? 300 : 0), static_cast<unsigned>(i)), 3 + (5 * i) % 17};
}

class ModelDrafted {
 public:
  explicit ModelDrafted(const EngineSetup& options)
      : runner_(Runner::create(std::make_unique<FakeModel>(half_right(true)), nullptr, options).value()),
        stepper_(runner_.get(), options) {
    for (int i = 0; i < options.scheduler.max_num_seqs; ++i) {
      NewSequence sequence;
      sequence.prompt = given(i).prompt;
      sequence.options = share({.max_tokens = given(i).max_tokens});
      live_[stepper_.add(std::move(sequence))] = i;
    }
    answers_.resize(live_.size());
  }

  void run() {
    while (!stepper_.idle()) {
      Result<ComputedStep> step = stepper_.begin().commit();
      ASSERT_TRUE(step.ok());
      const std::vector<SequenceId> sampled(step->sampled().begin(), step->sampled().end());
      for (std::size_t i = 0; i < sampled.size(); ++i) {
        step->draw(sampled[i], step->logits_row(i), {.temperature = 0});
      }
      look_at_drafts(*step);
      SentStep sent = std::move(*step).send();
      TakenStep taken = std::move(sent).take();
      const std::vector<DrawnToken> tokens(taken.tokens().begin(), taken.tokens().end());
      for (const DrawnToken& drawn : tokens) take(drawn);
      std::move(taken).end();
      const Status sound = stepper_.audit();
      ASSERT_TRUE(sound.ok()) << sound.message();
    }
  }

  const std::vector<TokenId>& answer(int i) const { return answers_[static_cast<std::size_t>(i)]; }
  std::size_t most_counts() const { return most_counts_; }  // most different numbers of drafts in a step
  DraftStats drafts() const {
    EngineStats stats;
    stepper_.fill(&stats);
    return stats.drafts;
  }

 private:
  void look_at_drafts(const ComputedStep& step) {
    std::set<std::size_t> counts;
    for (const SequenceId id : step.sampled()) {
      TokenId token = stepper_.sequences()[id].tokens.back();
      auto position = static_cast<Position>(stepper_.sequences()[id].tokens.size()) - 1;
      const std::span<const TokenId> drafts = step.drafts(id);
      for (const TokenId draft : drafts) EXPECT_EQ(draft, token = guess_behind(token, position++));
      if (!drafts.empty()) counts.insert(drafts.size());
    }
    most_counts_ = std::max(most_counts_, counts.size());
  }

  void take(const DrawnToken& drawn) {
    const auto found = live_.find(drawn.id);
    if (found == live_.end()) return;  // it has ended, or a draft before it was wrong
    std::vector<TokenId>& answer = answers_[static_cast<std::size_t>(found->second)];
    answer.push_back(drawn.row->token);
    stepper_.append(drawn.id, answer.back());
    if (static_cast<int>(answer.size()) < given(found->second).max_tokens) return;
    stepper_.end(drawn.id);
    live_.erase(found);
  }

  std::unique_ptr<Runner> runner_;
  Stepper stepper_;
  std::map<SequenceId, int> live_;
  std::vector<std::vector<TokenId>> answers_;
  std::size_t most_counts_ = 0;
};

TEST(ModelDraftsTest, EachSequenceHasItsOwn) {
  for (const char* device : {"cpu", "emulated"}) {
    SCOPED_TRACE(device);
    ModelDrafted drafted(fixed_drafts(device, 8));
    drafted.run();
    EXPECT_GE(drafted.most_counts(), 4U);
    EXPECT_GT(drafted.drafts().accepted_tokens, 400U);
    EXPECT_GT(drafted.drafts().drafted_tokens, drafted.drafts().accepted_tokens + 400U);
    for (int i = 0; i < 200; i += 7) {
      EXPECT_EQ(drafted.answer(i), greedy_alone(given(i).prompt, given(i).max_tokens, half_right(false))) << i;
    }
  }
}

// If the layer and the model give the same logits, a draft is drawn as its token is: with the noise of its position.
TEST(ModelDraftsTest, DraftsAreDrawnAsTheirTokensAre) {
  FakeModel::Settings settings{.drafts = true};
  settings.on_logits = settings.on_draft = [](TokenId token, Position, float* logits) {
    for (int i = 0; i < 64; ++i) logits[i] = static_cast<float>((i * 5 + token) % 64) / 64;
  };
  for (const char* device : {"cpu", "emulated"}) {
    SCOPED_TRACE(device);
    Stage stage(fixed_drafts(device, 4), settings);
    Stepper& stepper = stage.stepper();
    const SamplingParams sampling{.temperature = 1, .seed = 5};
    NewSequence given{.prompt = {1, 2, 3}, .options = share({.max_tokens = 60})};
    given.answer.sampling = sampling;
    const SequenceId id = stepper.add(given);
    while (stepper.sequences()[id].generated() < 50) {
      Result<ComputedStep> step = stepper.begin().commit();
      ASSERT_TRUE(step.ok());
      step->draw(id, step->logits_row(0), sampling);
      TakenStep taken = std::move(*step).send().take();
      for (const DrawnToken& drawn : taken.tokens()) {
        if (drawn.id) stepper.append(id, drawn.row->token);
      }
      std::move(taken).end();
    }
    EXPECT_GE(stage.stats().drafts.drafted_tokens, 36U);
    EXPECT_EQ(stage.stats().drafts.accepted_tokens, stage.stats().drafts.drafted_tokens);
  }
}

}  // namespace
}  // namespace sluice::model_drafts_test
