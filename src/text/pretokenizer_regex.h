// A compiled pattern of a pre-tokenizer, run by PCRE2 with its just-in-time compiler.
//
// Thread safety: a const SplitRegex may be used from any thread; a RegexScratch by one at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "sluice/status.h"

namespace sluice {

// What a match needs besides the pattern; serves any number of patterns, one after the other.
class RegexScratch {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;

 private:
  friend class SplitRegex;
  struct State;
  std::unique_ptr<State> state_;
};

struct RegexMatch {
  std::size_t begin, end;  // in bytes; never empty
};

class SplitRegex {
 public:
  // Compiles a regular expression in the common subset of Oniguruma and PCRE2, or with
  // `literal` a string to be found as it is. A pattern that can match the empty string is refused.
  static Result<SplitRegex> compile(std::string_view pattern, bool literal);

  SplitRegex(SplitRegex&&) noexcept;
  SplitRegex& operator=(SplitRegex&&) noexcept;
  ~SplitRegex();

  // Finds the first match in `text` (valid UTF-8) that begins at or after byte `from`; true if there is one. Fails only
  // when the machine lacks the memory for it, or the pattern needs more backtracking than can ever be useful.
  Result<bool> find(std::string_view text, std::size_t from, RegexScratch& scratch, RegexMatch& match) const;

 private:
  struct Code;
  explicit SplitRegex(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

// Whether a regular expression means the same to PCRE2, which runs it here, and to Oniguruma, for which the patterns of
// tokenizer.json are written. Thread safety: pure functions.

// The pattern for PCRE2 (UTF, UCP and MULTILINE set), or a failure that says which construct, at which byte offset, is
// not supported. Accepted is what both understand alike: literals, ".", "^", "$", alternation, groups (plain, and (?:
// (?i: (?= (?! (?<= (?<! (?>), flat character classes, \s \S \d \D \r \n \t \f \p{..} \P{..} \x{..} and escaped
// punctuation, the quantifiers ? * + (greedy, lazy, possessive) and {n} {n,} {n,m} (greedy). Script names are
// rewritten, because a bare one means Script_Extensions to PCRE2.
Result<std::string> translate_pattern(std::string_view pattern);

}  // namespace sluice
