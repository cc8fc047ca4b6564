// Looking for the markers of a chat protocol in a text that is still growing.
// Thread safety: pure functions.
// Used by delta_sink.h and dsml_parser.cc.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sluice {

struct MarkerMatch {
  std::size_t position = 0;           // the marker's place, or where one may begin at the end of the text, or the end
  std::optional<std::size_t> marker;  // its index
};

// The first marker in `text`. All markers start with '<'; of two that match at one place the first in the list counts.
MarkerMatch find_marker(std::string_view text, std::span<const std::string_view> markers);

// Returns how many of the bytes before `end`, at most `limit`, are newlines.
std::size_t newlines_before(std::string_view text, std::size_t end, std::size_t limit);

// Cuts off what find_marker held back of a text that ends here: the beginning of a marker, and the newlines before it.
void drop_unfinished_marker(std::string& held_back);

inline constexpr std::string_view kMarkupSpace = " \t\r\n";
std::string_view trim_markup(std::string_view text);
inline bool is_blank(std::string_view text) {
  return text.find_first_not_of(kMarkupSpace) == std::string_view::npos;
}

}  // namespace sluice
