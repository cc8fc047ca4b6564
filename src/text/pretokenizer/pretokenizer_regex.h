// A compiled pattern of a pre-tokenizer, run by PCRE2 with its just-in-time compiler.
//
// Thread safety: a const SplitRegex may be used from any thread; a RegexScratch by one at a time.
// Used by pretokenizer.h, pretokenizer_pattern.cc, text/tokenizer/tokenizer_decoder.h and
// text/tokenizer/tokenizer_normalizer.h.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "sluice/status.h"

namespace sluice {

// The memory that a match needs besides the pattern; serves any number of patterns, one after the other.
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
  std::size_t begin, end;  // in bytes; they may be equal
};

class SplitRegex {
 public:
  // Compiles a regular expression as Oniguruma reads it, or with `literal` a string to be found as it is.
  static Result<SplitRegex> compile(std::string_view pattern, bool literal);

  SplitRegex(SplitRegex&&) noexcept;
  SplitRegex& operator=(SplitRegex&&) noexcept;
  ~SplitRegex();

  // Returns whether some text has a match of no characters.
  bool matches_empty() const { return matches_empty_; }

  // Calls visit(begin, end, is_match) for each match in `text` and each part between matches, in order. Matches may be
  // empty, but none lies at the end of the one before it; parts between are not empty.
  template <class Visit>
  Status for_each_piece(std::string_view text, RegexScratch& scratch, const Visit& visit) const {
    std::size_t position = 0;  // what is before it was visited
    std::size_t from = 0;
    std::size_t last_end = std::string_view::npos;
    while (from < text.size() || (from == text.size() && matches_empty_)) {
      RegexMatch match{};
      SLUICE_ASSIGN_OR_RETURN(const bool found, find(text, from, scratch, match));
      if (!found) break;
      if (match.end == match.begin && match.end == last_end) {
        do {
          ++from;
        } while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xC0U) == 0x80);
        continue;
      }
      if (match.begin > position) SLUICE_RETURN_IF_ERROR(visit(position, match.begin, false));
      SLUICE_RETURN_IF_ERROR(visit(match.begin, match.end, true));
      position = from = last_end = match.end;
    }
    return position < text.size() ? visit(position, text.size(), false) : Status();
  }

  // Finds the first match in `text` (valid UTF-8) that begins at or after byte `from`; true if there is one. Fails only
  // when the machine lacks the memory for it, or the pattern needs more backtracking than can ever be useful.
  Result<bool> find(std::string_view text, std::size_t from, RegexScratch& scratch, RegexMatch& match) const;

 private:
  struct Code;
  explicit SplitRegex(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
  bool matches_empty_ = false;
};

// Turns a regular expression for Oniguruma, which the patterns of tokenizer.json are written for, into one that means
// the same to PCRE2, which runs it here (with UTF, UCP and MULTILINE set). Fails with the construct and its byte offset
// where that cannot be done. Thread safety: pure functions.
//
// Known are literals, ".", "^", "$", alternation, groups (plain, named, and (?: (?i: (?-i: (?m: (?x: (?= (?! (?<= (?<!
// (?>), character classes with ranges, nested classes, intersections and POSIX names, \s \d \w \h \p{..} and their
// opposites, \b \B \A \z \Z \R \X \N \O, escapes of one character, and quantifiers. Not known are back references,
// \G, \K, \y, octal and control characters, absent groups and conditions.
Result<std::string> translate_pattern(std::string_view pattern);

}  // namespace sluice
