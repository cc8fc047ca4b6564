// Used by determinism.h.
#include "loadgen/stream_faults.h"

#include <algorithm>

namespace sluice {

StreamFaults& StreamFaults::operator+=(const StreamFaults& other) {
  lost += other.lost;
  duplicated += other.duplicated;
  reordered += other.reordered;
  foreign += other.foreign;
  return *this;
}

StreamFaults find_stream_faults(std::string_view text, const std::vector<std::string>& pieces) {
  StreamFaults faults;
  std::vector<std::string_view> missing;  // stretches that were skipped; a later piece may fill one
  std::size_t at = 0;                     // text before this offset was covered or skipped
  for (const std::string& piece : pieces) {
    if (text.substr(at).starts_with(piece)) {
      at += piece.size();
    } else if (const auto late = std::find(missing.begin(), missing.end(), piece); late != missing.end()) {
      ++faults.reordered;
      missing.erase(late);
    } else if (const std::size_t found = text.find(piece, at);
               found != std::string_view::npos && !text.substr(0, at).ends_with(piece)) {
      missing.push_back(text.substr(at, found - at));
      at = found + piece.size();
    } else {
      ++(text.find(piece) != std::string_view::npos ? faults.duplicated : faults.foreign);
    }
  }
  if (at < text.size()) ++faults.lost;
  faults.lost += static_cast<int>(missing.size());
  return faults;
}

}  // namespace sluice
