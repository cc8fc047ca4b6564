// Regular expressions, as patterns of JSON Schema and as what a whole answer must match.
//
// The syntax is ECMA-262's with the flag u, over Unicode characters: literals, `.` (no line terminator), classes
// [...] and [^...], \d \D \w \W \s \S, \t \n \v \f \r \0 \cX \xHH \uHHHH \u{H...}, surrogate pairs of \u, groups (...),
// (?:...) and (?<name>...), alternatives, * + ? {n} {n,} {n,m} and their lazy forms, ^ and $ anywhere; besides, as
// other languages have them, \A, \Z, \z, and (?i) at the beginning (letters of ASCII in both cases). Refused, with the
// offset: what is not regular or not here (back references, look-around, \b, \B, \p). Thread safety: pure functions.
// Used by grammar and grammar/schema.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/automata/dfa.h"
#include "grammar/automata/nfa.h"
#include "sluice/status.h"

namespace sluice {

// The parts of an expression; grammars (gbnf.h) use the same parts.
struct Expression {
  enum class Kind { kEmpty, kCharacters, kSequence, kChoice, kRepeat, kBegin, kEnd, kRule };
  Kind kind = Kind::kEmpty;
  std::vector<CodePointRange> characters = {};  // kCharacters: one of them
  std::vector<Expression> parts = {};           // kSequence, kChoice; kRepeat: one
  int least = 0, most = -1;                     // kRepeat; -1: no limit
  int rule = 0;                                 // kRule, of a grammar

  static Expression literal(std::u32string_view text);
};

inline constexpr int kMaxRepeat = 100'000;  // in {n,m}
inline constexpr int kMaxExpressionDepth = 200;

// The classes of escapes d, w, s; upper case: all others.
std::vector<CodePointRange> escaped_class(char letter);

// Splits "^(?!a)(?=b)c" into patterns that must be found by a search, or must not: "^(?:a)" not, "^(?:b)", "^c". For
// other patterns `rest` is the whole.
struct LookAheads {
  struct Head {
    bool negative = false;
    std::string text;
  };
  std::vector<Head> heads;
  std::string rest;
};
LookAheads split_look_aheads(std::string_view pattern);

// `what` begins the error.
Result<Expression> parse_regex(std::string_view pattern, std::string_view what);

// Appends the automaton of an expression without rules after `from`, and returns its last state.
std::int32_t append_expression(Nfa& nfa, const Expression& expression, std::int32_t from);

// The texts that the expression matches as a whole.
Result<Dfa> whole_match(const Expression& expression);
// The texts that contain a match, as patterns of JSON Schema search.
Result<Dfa> search_match(const Expression& expression);

}  // namespace sluice
