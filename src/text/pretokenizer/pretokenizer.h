// The pre-tokenizer of a tokenizer.json: cuts text into words, which BPE then encodes one by one.
//
// Supported: null; Sequence; Split (Regex or String; Isolated, Removed, MergedWithPrevious, MergedWithNext, Contiguous;
// invert); Digits; Punctuation; Whitespace; WhitespaceSplit; CharDelimiterSplit; FixedLength; BertPreTokenizer;
// Metaspace (prepend_scheme, split); ByteLevel (add_prefix_space, use_regex), which must come last. Where ByteLevel is,
// the vocabulary is one of bytes, else one of characters.
// Thread safety: a const Pretokenizer may be used from any thread; a PretokenizerScratch by one at a time.
// Used by text/pretokenizer and text/tokenizer.
#pragma once

#include <boost/json/fwd.hpp>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/status.h"
#include "text/pretokenizer/pretokenizer_regex.h"

namespace sluice {

struct PretokenizerScratch {
  RegexScratch regex;
  std::string shape;  // the text as the patterns see it
};

class Pretokenizer {
 public:
  // Reads the value of the key "pre_tokenizer". `what` names it in messages.
  static Result<Pretokenizer> from_json(const boost::json::value& value, const std::string& what);

  // Returns whether the words are for a vocabulary of bytes.
  bool byte_level() const { return byte_level_; }

  // Calls sink(word) for each word of `text` (valid UTF-8), in order; no word is empty, and a word is valid only during
  // the call. `inserted` is how many bytes of it were put before what the whole text begins with; none where the text
  // is a later part. Time is linear in the text as far as the patterns' own backtracking allows.
  using Sink = std::function<void(std::string_view word)>;
  Status split(std::string_view text, std::optional<std::size_t> inserted, PretokenizerScratch& scratch,
               const Sink& sink) const;

 private:
  enum class Behavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };
  enum class Prepend { kAlways, kFirst, kNever };
  // The change that Metaspace makes before it splits: a mark for each space, and one before the text.
  struct Marking {
    std::string mark;
    Prepend prepend = Prepend::kAlways;
  };
  struct Stage {
    std::optional<SplitRegex> regex;  // none: what goes in comes out
    Behavior behavior = Behavior::kIsolated;
    bool invert = false;
    std::optional<Marking> marking;
  };
  class Builder;
  class Run;

  std::vector<Stage> stages_;
  bool byte_level_ = false;
  std::size_t prefix_stage_ = kNever;  // before this stage a word without a leading space gets one
  static constexpr std::size_t kNever = ~std::size_t{0};
};

// The text in the form in which a pre-tokenizer's patterns should see it.
//
// Patterns were written for a library with newer Unicode tables than PCRE2's. The two disagree about the class of some
// characters (a letter that did not exist yet, U+180E as a space). There the patterns see another character instead, of
// a class on which both agree and of the same length in UTF-8. The words are still cut from the text itself. Thread
// safety: pure functions.

// `text` (valid UTF-8) itself, or, when something has to be replaced, a view of `buffer`, which then holds a text of
// the same length with the same character boundaries.
std::string_view regex_shape(std::string_view text, std::string& buffer);

// The same for one character.
char32_t regex_shape(char32_t character);

}  // namespace sluice
