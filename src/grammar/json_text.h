// JsonText: the parts of JSON texts as a network: strings, numbers, white space, values of any kind.
//
// How JSON is written (docs/structured_outputs.md has the rules):
//   white space  behind { [ , : and before } ]: nothing, one space, or a line break and up to kMaxIndent spaces or
//   tabs;
//                `compact`: none anywhere
//   strings      with a constraint, and keys: a character is written as itself where JSON allows it, else by the escape
//                of two characters, else \u00XX; any other string may use every escape, surrogates in pairs
//   numbers      at most kMaxIntegerDigits, kMaxFractionDigits and two digits of an exponent
// Thread safety: one builder, one thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "grammar/dfa.h"
#include "grammar/network.h"

namespace sluice {

inline constexpr int kMaxIndent = 64;

class JsonText {
 public:
  JsonText(NetworkBuilder& builder, bool compact);

  // Each appends behind `from` and returns the state behind it.
  std::int32_t space(std::int32_t from);
  std::int32_t free_string(std::int32_t from);
  std::int32_t free_number(std::int32_t from);
  std::int32_t any_value(std::int32_t from);
  // A string whose characters are a text of the automaton, in quotes.
  std::int32_t string_of(std::int32_t from, const Dfa& content);
  std::int32_t string_of(std::int32_t from, std::string_view content);

 private:
  void build_space();
  void build_string();
  void build_any();
  std::int32_t call(std::int32_t from, std::int32_t rule);

  NetworkBuilder& builder_;
  const bool compact_;
  std::int32_t space_ = -1, string_ = -1, any_ = -1;
};

}  // namespace sluice
