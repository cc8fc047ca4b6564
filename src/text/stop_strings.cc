// Used by generation_stream.h.
#include "text/stop_strings.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

// fallback[n]: the longest proper prefix of the first n bytes that also ends them.
std::vector<std::size_t> make_fallback(const std::string& stop) {
  std::vector<std::size_t> fallback(stop.size() + 1, 0);
  for (std::size_t i = 1, length = 0; i < stop.size(); ++i) {
    while (length > 0 && stop[i] != stop[length]) length = fallback[length];
    if (stop[i] == stop[length]) ++length;
    fallback[i + 1] = length;
  }
  return fallback;
}

}  // namespace

bool StopMatcher::Pattern::advance(char c) {
  while (matched > 0 && stop[matched] != c) matched = fallback[matched];
  if (stop[matched] == c) ++matched;
  return matched == stop.size();
}

StopMatcher::StopMatcher(const std::vector<std::string>& stops, bool shows_stop) : shows_stop_(shows_stop) {
  for (const std::string& stop : stops) {
    if (!stop.empty()) patterns_.push_back({stop, make_fallback(stop), 0});
  }
  std::stable_sort(patterns_.begin(), patterns_.end(),
                   [](const Pattern& a, const Pattern& b) { return a.stop.size() > b.stop.size(); });
}

std::string StopMatcher::push(std::string_view text) {
  if (stopped_) return {};
  if (patterns_.empty()) return std::string(text);
  std::string shown = std::exchange(held_, {});
  std::size_t hold = shown.size();
  for (const char c : text) {
    shown += c;
    hold = 0;
    for (Pattern& pattern : patterns_) {
      if (pattern.advance(c)) {
        stopped_ = true;
        found_ = pattern.stop;
        if (!shows_stop_) shown.resize(shown.size() - pattern.stop.size());
        return shown;
      }
      hold = std::max(hold, pattern.matched);
    }
  }
  held_ = shown.substr(shown.size() - hold);
  shown.resize(shown.size() - hold);
  return shown;
}

std::string StopMatcher::finish() {
  for (Pattern& pattern : patterns_) pattern.matched = 0;
  return std::exchange(held_, {});
}

}  // namespace sluice
