#include "cli/token_ids.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace sluice {

Result<std::vector<std::int32_t>> parse_numbers(std::string_view text, std::string_view what) {
  constexpr std::string_view kSeparators = ", \t\r\n";
  constexpr std::size_t kShown = 32;
  std::vector<std::int32_t> numbers;
  std::size_t at = 0;
  while ((at = text.find_first_not_of(kSeparators, at)) != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(kSeparators, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    std::int32_t number = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc{} || stop != word.data() + word.size() || number < 0) {
      return invalid_argument(
          fmt::format("{}: expected decimal numbers from 0, split by commas or white space, found "
                      "'{}' as number {}",
                      what, word.substr(0, kShown), numbers.size()));
    }
    numbers.push_back(number);
    at = end;
  }
  if (numbers.empty()) return invalid_argument(fmt::format("{}: expected at least one number, found none", what));
  return numbers;
}

}  // namespace sluice
