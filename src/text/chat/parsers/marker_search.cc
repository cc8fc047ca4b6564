// Used by delta_sink.h and dsml_parser.cc.
#include "text/chat/parsers/marker_search.h"

namespace sluice {

MarkerMatch find_marker(std::string_view text, std::span<const std::string_view> markers) {
  for (std::size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at + 1)) {
    const std::string_view tail = text.substr(at);
    for (std::size_t i = 0; i < markers.size(); ++i) {
      if (tail.starts_with(markers[i])) return {at, i};
      if (markers[i].starts_with(tail)) return {at, std::nullopt};
    }
  }
  return {text.size(), std::nullopt};
}

std::size_t newlines_before(std::string_view text, std::size_t end, std::size_t limit) {
  std::size_t count = 0;
  while (count < limit && count < end && text[end - count - 1] == '\n') ++count;
  return count;
}

void drop_unfinished_marker(std::string& held_back) {
  const std::size_t marker = held_back.find('<');
  if (marker != std::string::npos) held_back.resize(marker - newlines_before(held_back, marker, marker));
}

std::string_view trim_markup(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kMarkupSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kMarkupSpace) - first + 1);
}

}  // namespace sluice
