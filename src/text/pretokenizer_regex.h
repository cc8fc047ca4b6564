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
  // Compiles a regular expression in the common subset of Oniguruma and PCRE2 (pretokenizer_pattern_check.h), or with
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

}  // namespace sluice
