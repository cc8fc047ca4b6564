// Used by dfa.h, network.h and regex.h.
#include "grammar/automata/nfa.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/utf8.h"

namespace sluice {

std::vector<CodePointRange> normalize(std::vector<CodePointRange> ranges) {
  constexpr char32_t kBefore = 0xD7FF, kBehind = 0xE000;  // the surrogates
  std::vector<CodePointRange> valid;
  for (const CodePointRange& range : ranges) {
    if (range.low <= kBefore) valid.push_back({range.low, std::min(range.high, kBefore)});
    if (range.high >= kBehind) valid.push_back({std::max(range.low, kBehind), range.high});
  }
  std::ranges::sort(valid, {}, &CodePointRange::low);
  std::vector<CodePointRange> out;
  for (const CodePointRange& range : valid) {
    if (range.low > range.high) continue;
    if (!out.empty() && range.low <= out.back().high + 1) {
      out.back().high = std::max(out.back().high, range.high);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

std::vector<CodePointRange> complement(const std::vector<CodePointRange>& ranges) {
  std::vector<CodePointRange> out;
  char32_t next = 0;
  for (const CodePointRange& range : normalize(ranges)) {
    if (range.low > next) out.push_back({next, range.low - 1});
    next = range.high + 1;
  }
  if (next <= kLastCodePoint) out.push_back({next, kLastCodePoint});
  return normalize(std::move(out));
}

std::int32_t Nfa::add_state() {
  states_.emplace_back();
  return static_cast<std::int32_t>(states_.size()) - 1;
}

void Nfa::add_byte(std::int32_t from, std::uint8_t low, std::uint8_t high, std::int32_t to) {
  states_[static_cast<std::size_t>(from)].bytes.push_back({low, high, to});
}

void Nfa::add_empty(std::int32_t from, std::int32_t to, Where where) {
  states_[static_cast<std::size_t>(from)].empty.push_back({to, where});
}

std::int32_t Nfa::add_literal(std::int32_t from, std::string_view bytes) {
  for (const char byte : bytes) {
    const std::int32_t next = add_state();
    add_byte(from, static_cast<std::uint8_t>(byte), static_cast<std::uint8_t>(byte), next);
    from = next;
  }
  return from;
}

void Nfa::add_characters(std::int32_t from, const std::vector<CodePointRange>& ranges, std::int32_t to) {
  for (const CodePointRange& range : normalize(ranges)) add_character_range(from, range.low, range.high, to);
}

// The range is cut until the UTF-8 of a piece is a product of byte ranges: at the lengths of characters, and where the
// last bytes do not run over all values.
void Nfa::add_character_range(std::int32_t from, char32_t low, char32_t high, std::int32_t to) {
  for (const char32_t last : {char32_t{0x7F}, char32_t{0x7FF}, char32_t{0xFFFF}}) {
    if (low > last || high <= last) continue;
    add_character_range(from, low, last, to);
    return add_character_range(from, last + 1, high, to);
  }
  const int length = low <= 0x7F ? 1 : low <= 0x7FF ? 2 : low <= 0xFFFF ? 3 : 4;
  for (int tail = 1; tail < length; ++tail) {
    const char32_t mask = (char32_t{1} << (6 * tail)) - 1;
    if ((low & ~mask) == (high & ~mask)) continue;
    if ((low & mask) != 0) {
      add_character_range(from, low, low | mask, to);
      return add_character_range(from, (low | mask) + 1, high, to);
    }
    if ((high & mask) != mask) {
      add_character_range(from, low, (high & ~mask) - 1, to);
      return add_character_range(from, high & ~mask, high, to);
    }
  }
  std::string first, last;
  append_utf8(low, first);
  append_utf8(high, last);
  for (std::size_t i = 0; i < first.size(); ++i) {
    const std::int32_t next = i + 1 == first.size() ? to : add_state();
    add_byte(from, static_cast<std::uint8_t>(first[i]), static_cast<std::uint8_t>(last[i]), next);
    from = next;
  }
}

}  // namespace sluice
