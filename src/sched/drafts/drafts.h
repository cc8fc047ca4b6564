// What the scheduler knows of drafts: tokens that somebody guesses for a decoding sequence, computed in the step of its
// own row and kept as far as they are right (docs/speculation.md). Plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/index_types.h"
#include "sluice/engine.h"

namespace sluice {

// Who guesses. Copies by how long the text is that they continue: longer ones are right more often; those of the
// client's prediction are right where it is, however short the match. Forced: what the answer is bound to leaves no
// other text.
enum class DraftSource : unsigned char { kShortCopy, kCopy, kLongCopy, kMtp, kForced, kPredicted };
inline constexpr std::size_t kDraftSources = 6;

struct DraftLimits {
  int most = 0;          // tokens drafted for a sequence in a step, at most kMostDrafts; 0: no drafts
  bool adaptive = true;  // as many as pay; off: `most`, wherever there are rows and pages for them
  // [rows - 1]: seconds that a step of so many rows takes; beyond the end it goes on as between the last two. Less than
  // two: rows cost nothing.
  std::vector<double> step_seconds;
  std::array<double, kDraftSources> seconds{};  // that drafting a token takes
  // Where steps are enqueued before the tokens of those before are known: what a wait for these takes. A step with
  // drafts has one before it and one behind it. 0: all steps wait, and the times above are of such.
  double wait = 0;

  double step(int rows) const;
};

// Tokens that a decoding sequence can have drafted; one offer a source.
struct DraftOffer {
  SequenceId sequence;
  DraftSource source = DraftSource::kMtp;
  int tokens = 0;
  // Behind a token that is on its way, and is predicted as a first draft would be (Scheduler::waiting_pays()).
  bool predicted = false;
};

// How often drafts of a source were right, given that those before them were: averages that forget, one for the first
// draft of a step and one for those behind it, which a model that saw one token ahead guesses less well.
class DraftRecord {
 public:
  static constexpr int kLevels = 64;  // of chances
  using Levels = std::array<std::uint8_t, kMostDrafts>;

  DraftRecord();
  // What a new sequence is expected to be like.
  static DraftRecord like(const DraftRecord& others);

  // Of `drafted` tokens the first `right` were right, and the next one, if any, was not.
  void add(DraftSource source, int drafted, int right);
  // [depth - 1]: the level of the chance that this draft and all before it are right; it never rises.
  const Levels& levels(DraftSource source) const { return sources_[static_cast<std::size_t>(source)].levels; }
  static double chance(std::size_t level) { return (static_cast<double>(level) + 0.5) / kLevels; }

 private:
  struct Source {
    std::array<float, 2> chances;  // of the first, of others
    std::array<std::uint8_t, 2> weights;
    Levels levels;

    void update_levels();
  };

  std::array<Source, kDraftSources> sources_;
};

}  // namespace sluice
