// StreamingDetokenizer: turns token ids into text as they come, and never returns half a character.
//
// The results of all calls together are the bytes of all tokens with every invalid sequence replaced by U+FFFD, exactly
// as if they had been decoded at once (base/utf8.h says how). At most three bytes are held back. Thread safety:
// none; one per answer. The tokenizer must outlive it.
// Used by text/generation_stream.h.
#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer/tokenizer.h"

namespace sluice {

class StreamingDetokenizer {
 public:
  // With `skip_special`, special tokens give no text.
  StreamingDetokenizer(const Tokenizer& tokenizer, bool skip_special)
      : tokenizer_(&tokenizer), skip_special_(skip_special) {}

  // The text that is certain after one more token: valid UTF-8, often empty. Unknown ids give no text.
  std::string push(std::int32_t id);

  // The rest: empty, or U+FFFD if the tokens ended inside a character. Ready for another text afterwards.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::string pending_;  // the bytes of an unfinished character
};

}  // namespace sluice
