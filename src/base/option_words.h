// The words of options that have a few values. Such an option is an enum, and a function next to it returns the words:
//
//   std::span<const std::string_view> option_words(LoadFormat);  // {"auto", "dummy"}: of 0, of 1, ...
//
// A word is compared once, where it comes in (option_of); all later code has the enum.
// Used by cli/commands/verify_command.cc, cli/flags/flag_table.h and engine/option_words.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace sluice {

template <class Option>
std::string_view word_of(Option option) {
  return option_words(option)[static_cast<std::size_t>(option)];
}

template <class Option>
std::optional<Option> option_of(std::string_view word) {
  const std::span<const std::string_view> words = option_words(Option{});
  const auto found = std::ranges::find(words, word);
  if (found == words.end()) return std::nullopt;
  return static_cast<Option>(found - words.begin());
}

}  // namespace sluice
