// The normalizer of a tokenizer.json, as the `tokenizers` package does it.
//
// Supported: null; Sequence; NFC, NFD, NFKC, NFKD; Lowercase; StripAccents; Strip; Replace (String or Regex); Prepend.
// Thread safety: a const object may be used from any thread; a NormalizerScratch by one at a time.
// Used by tokenizer_parser.h and tokenizer_unicode.cc.
#pragma once

#include <boost/json/fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/json_fields.h"
#include "sluice/status.h"
#include "text/pretokenizer/pretokenizer_regex.h"

namespace sluice {

struct NormalizerScratch {
  RegexScratch regex;
  std::string text, next, shape;
  // The number of bytes of the normalized text that were inserted before the original's first; none where that was
  // removed.
  std::optional<std::size_t> inserted;
};

class TokenizerNormalizer {
 public:
  TokenizerNormalizer() = default;  // changes nothing

  // Reads the value of the key "normalizer". `what` names it in messages.
  static Result<TokenizerNormalizer> from_json(const boost::json::value& value, const std::string& what);

  // The normalized form of valid UTF-8: `text` itself when nothing is to be done, else a view of `scratch`. Fails only
  // as SplitRegex::find does.
  Result<std::string_view> apply(std::string_view text, NormalizerScratch& scratch) const;

 private:
  enum class Kind { kNfc, kNfd, kNfkc, kNfkd, kLowercase, kStripAccents, kStrip, kReplace, kPrepend };
  struct Step {
    Kind kind;
    std::optional<SplitRegex> pattern;  // for Replace
    std::string content;                // for Replace and Prepend
    bool left = false, right = false;   // for Strip
  };
  Status add(const boost::json::value& value, const std::string& what);
  Status add_step(const std::string& type, JsonFields& fields, const std::string& what);
  static Result<bool> apply_step(const Step& step, std::string_view text, NormalizerScratch& scratch);

  std::vector<Step> steps_;
};

// Unicode's normal forms and classes as the package has them, whose tables are those of Unicode 9. Characters that came
// later are left alone, and nothing moves or composes across them. Thread safety: pure functions.

// Returns whether `text` is certainly its own normal form; `compatible` is for NFKC and NFKD, `composed` for NFC and
// NFKC.
bool is_certainly_normal(std::string_view text, bool composed);
void append_normal_form(std::string_view text, bool compatible, bool composed, std::string& out);
void append_lowercase(std::string_view text, std::string& out);
// Appends the text without marks.
void append_without_accents(std::string_view text, std::string& out);

}  // namespace sluice
