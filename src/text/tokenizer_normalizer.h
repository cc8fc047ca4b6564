// The normalizer of a tokenizer.json: none, or NFC (Unicode's canonical composition), as the `tokenizers` package does
// it: combining characters that came after Unicode 9 are left alone.
//
// Thread safety: pure; a const object may be used from any thread.
#pragma once

#include <boost/json/fwd.hpp>
#include <string>
#include <string_view>

#include "sluice/status.h"

namespace sluice {

class TokenizerNormalizer {
 public:
  TokenizerNormalizer() = default;  // changes nothing

  // Reads the value of the key "normalizer": null, NFC, or a Sequence of these. `what` names it in messages.
  static Result<TokenizerNormalizer> from_json(const boost::json::value& value, const std::string& what);

  // The normalized form of valid UTF-8: `text` itself when nothing is to be done, else a view of `buffer`.
  std::string_view apply(std::string_view text, std::string& buffer) const;

 private:
  bool nfc_ = false;
};

}  // namespace sluice
