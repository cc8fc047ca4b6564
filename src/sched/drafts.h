// What the scheduler knows of drafts: tokens that somebody guesses for a decoding sequence, computed in the step of its
// own row and kept as far as they are right (docs/speculation.md). Plain values.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "base/index_types.h"

namespace sluice {

// Who guesses. Copies by how long the text is that they continue: longer ones are right more often.
enum class DraftSource : unsigned char { kShortCopy, kCopy, kLongCopy, kMtp };
inline constexpr std::size_t kDraftSources = 4;

struct DraftLimits {
  int most = 0;          // tokens drafted for a sequence in a step, at most; 0: no drafts
  bool adaptive = true;  // as many as pay; off: `most`, wherever there are rows and pages for them
  // [rows - 1]: seconds that a step of so many rows takes; beyond the end it goes on as between the last two. Less than
  // two: rows cost nothing.
  std::vector<double> step_seconds;
  std::array<double, kDraftSources> seconds{};  // that drafting a token takes

  double step(int rows) const;
};

// Tokens that a decoding sequence can have drafted; one offer a source.
struct DraftOffer {
  SequenceId sequence;
  DraftSource source = DraftSource::kMtp;
  int tokens = 0;
};

// How often drafts of a source were right for a sequence, given that those before them were: an average that forgets.
class DraftRecord {
 public:
  // Of `drafted` tokens the first `right` were right, and the next one, if any, was not.
  void add(DraftSource source, int drafted, int right);
  double chance(DraftSource source) const { return chances_[static_cast<std::size_t>(source)]; }

 private:
  static constexpr int kFirstWeight = 3, kMostWeight = 24;  // of what was before, in draws

  std::array<float, kDraftSources> chances_{0.4F, 0.6F, 0.85F, 0.75F};
  std::array<int, kDraftSources> weights_{kFirstWeight, kFirstWeight, kFirstWeight, kFirstWeight};
};

}  // namespace sluice
