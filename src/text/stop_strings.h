// StopMatcher: ends a streamed text before the first stop string in it, or after it.
//
// Text is passed on as soon as it cannot be the start of a stop string, so what is held back is never longer than the
// longest one. The result does not depend on how the text is cut into pieces: the stop string that is completed first
// wins, and the longest of several that end at the same byte. Thread safety: belongs to one answer.
// Used by generation_stream.h.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

class StopMatcher {
 public:
  // Empty strings are ignored. `shows_stop`: the stop string is part of the text.
  explicit StopMatcher(const std::vector<std::string>& stops, bool shows_stop = false);

  // The text that may be shown now; nothing after a match.
  std::string push(std::string_view text);
  // Returns the text that was held back, when the text has ended without a match; another text begins then.
  std::string finish();
  bool stopped() const { return stopped_; }
  // The one that matched; "" before.
  const std::string& found() const { return found_; }

 private:
  // Knuth-Morris-Pratt: matched = length of the longest prefix of `stop` that ends the text so far.
  struct Pattern {
    std::string stop;
    std::vector<std::size_t> fallback;
    std::size_t matched = 0;
    bool advance(char c);  // true when the whole stop string ends here
  };

  std::vector<Pattern> patterns_;  // longest first
  std::string held_, found_;
  bool shows_stop_;
  bool stopped_ = false;
};

}  // namespace sluice
