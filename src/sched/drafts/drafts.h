// The scheduler's knowledge of drafts: tokens guessed for a decoding sequence, computed in the step of its own row and
// kept as far as they are right (docs/speculation.md). Plain values.
// Used by sched/plan_facts.h, sched/scheduler.h, sched/step_plan.h and step_times.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/index_types.h"
#include "sluice/engine.h"

namespace sluice {

// The sources of drafts. Copies have three sources by the length of the text that they continue: longer ones are right
// more often. Copies of the client's prediction are right where the prediction is, however short the match. Forced
// drafts are the only text that the answer's constraint allows.
enum class DraftSource : unsigned char { kShortCopy, kCopy, kLongCopy, kMtp, kForced, kPredicted };
inline constexpr std::size_t kDraftSources = 6;

struct DraftLimits {
  int most = 0;          // tokens drafted for a sequence in a step, at most kMostDrafts; 0: no drafts
  bool adaptive = true;  // drafts as many as pay; off: `most`, if there are rows and pages
  // [rows - 1]: seconds of a step of `rows` rows; beyond the end the slope of the last two goes on. With fewer than two
  // entries rows cost nothing.
  std::vector<double> step_seconds;
  std::array<double, kDraftSources> seconds{};  // the cost of drafting one token
  // The seconds of a wait for tokens, if steps are enqueued before the previous tokens are known. A step with drafts
  // has one such wait before it and one after it. 0: all steps wait, and the times above include it.
  double wait = 0;

  double step(int rows) const;
};

// The drafts that a source can give a decoding sequence; one offer a source.
struct DraftOffer {
  SequenceId sequence;
  DraftSource source = DraftSource::kMtp;
  int tokens = 0;
  // They follow a token on its way, which is itself predicted as a first draft would be (Scheduler::waiting_pays()).
  bool predicted = false;
};

// The rates at which drafts of a source were right, given that the drafts before them were. They are averages that
// forget, one for the first draft of a step and one for later drafts: a model that predicts one token ahead guesses
// those less well.
class DraftRecord {
 public:
  static constexpr int kLevels = 64;  // levels of chances
  using Levels = std::array<std::uint8_t, kMostDrafts>;

  DraftRecord();
  // The record that a new sequence starts with, from the record of the others.
  static DraftRecord like(const DraftRecord& others);

  // Records that the first `right` of `drafted` tokens were right, and the next one, if any, was not.
  void add(DraftSource source, int drafted, int right);
  // [depth - 1]: the level of the chance that this draft and all before it are right; it never rises.
  const Levels& levels(DraftSource source) const { return sources_[static_cast<std::size_t>(source)].levels; }
  static double chance(std::size_t level) { return (static_cast<double>(level) + 0.5) / kLevels; }

 private:
  struct Source {
    std::array<float, 2> chances;  // the first draft's, later drafts'
    std::array<std::uint8_t, 2> weights;
    Levels levels;

    void update_levels();
  };

  std::array<Source, kDraftSources> sources_;
};

}  // namespace sluice
