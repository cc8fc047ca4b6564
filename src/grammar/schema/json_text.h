// JsonText: the parts of JSON texts as a network: strings, numbers, white space, values of any kind.
//
// The rules by which JSON is written (docs/structured_outputs.md has them all):
//   white space  after { [ , : and before } ]: nothing, one space, or a line break and up to kMaxIndent spaces or
//   tabs;
//                `compact`: none anywhere
//   strings      with a constraint, and keys: a character is written as itself where JSON allows it, else by the escape
//                of two characters, else \u00XX; any other string may use every escape, surrogates in pairs
//   numbers      at most kMaxIntegerDigits, kMaxFractionDigits and two digits of an exponent
// Texts may be banned from strings, where the JSON stands between marks that must not occur in it.
// Thread safety: one builder, one thread.
// Used by grammar/call_network.cc and schema_network.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/automata/dfa.h"
#include "grammar/automata/network.h"
#include "sluice/status.h"

namespace sluice {

inline constexpr int kMaxIndent = 64;

class JsonText {
 public:
  JsonText(NetworkBuilder& builder, bool compact);
  // Bans these texts: no string has one of them in it, as it is written. It comes before anything else is appended.
  Status ban(std::span<const std::string_view> texts);
  // Why something that was appended is not what it should be: an automaton without the banned texts is too large.
  const Status& status() const { return status_; }

  // Each appends after `from` and returns the state after it.
  std::int32_t space(std::int32_t from);
  std::int32_t free_string(std::int32_t from);
  std::int32_t free_number(std::int32_t from);
  std::int32_t any_value(std::int32_t from);
  std::int32_t any_but_string(std::int32_t from);
  // The characters of a string without quotes or escapes, null: any, and `end`, which is the same each time. It belongs
  // to the rule, as one that may end after every character costs each mask a look at every token.
  std::int32_t raw_string(std::int32_t from, const Dfa* content, std::string_view end);
  // A string whose characters are a text of the automaton, in quotes.
  std::int32_t string_of(std::int32_t from, const Dfa& content);
  std::int32_t string_of(std::int32_t from, std::string_view content);

 private:
  void build_space();
  void build_string();
  void build_any();
  void build_other();
  Dfa without_banned(const Dfa& content);
  bool has_banned(std::string_view text) const;
  std::int32_t call(std::int32_t from, std::int32_t rule);

  NetworkBuilder& builder_;
  const bool compact_;
  std::vector<std::string> banned_texts_;
  std::optional<Dfa> banned_;  // the texts that have one of these in them
  Status status_;
  std::int32_t space_ = -1, string_ = -1, any_ = -1, other_ = -1, raw_ = -1;
};

}  // namespace sluice
