// The decoder of a tokenizer.json: what text a token of the vocabulary stands for.
//
// Supported: ByteLevel, Metaspace, Replace (String or Regex), ByteFallback, Strip, Fuse, and a Sequence of these as
// long as what comes after Fuse is Strip. Thread safety: a const object may be used from any thread.
// Used by tokenizer_parser.h.
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

class TokenDecoder {
 public:
  // Reads the value of the key "decoder". `what` names it in messages; null stands for ByteLevel where the vocabulary
  // is one of bytes (`byte_level`), and then nothing but ByteLevel says what a token is.
  static Result<TokenDecoder> from_json(const boost::json::value& value, bool byte_level, const std::string& what);

  // Appends the bytes of a token, as the vocabulary spells it; the `first` token of a text may lose its space.
  Status append_token(std::string_view token, bool first, RegexScratch& scratch, std::string& out) const;
  // Returns whether the first token of a text may stand for something else than later ones.
  bool first_differs() const;

  // Takes from a whole text what the decoder strips at its ends.
  void strip(std::string& text) const;

 private:
  enum class Kind { kByteLevel, kMetaspace, kReplace, kByteFallback, kStrip };
  struct Step {
    Kind kind;
    std::string mark;                   // the character of Metaspace and Strip, or what Replace writes
    std::optional<SplitRegex> pattern;  // for Replace
    std::int64_t start = 0, stop = 0;   // for Strip: characters at most
    bool drops_first = false;           // for Metaspace
  };
  Status add(const boost::json::value& value, const std::string& what);
  Status add_step(const std::string& type, JsonFields& fields, const std::string& what);
  static Status apply(const Step& step, bool first, RegexScratch& scratch, std::string& token);
  static void strip(const Step& step, std::string& text);

  std::vector<Step> steps_;  // on each token
  std::vector<Step> ends_;   // Strips on the whole text
  bool fused_ = false;       // while it is read: what follows is for the whole text
};

}  // namespace sluice
