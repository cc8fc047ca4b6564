// Used by text/generation_stream.h.
#include "text/tokenizer/detokenizer.h"

#include "base/utf8.h"

namespace sluice {

std::string StreamingDetokenizer::push(std::int32_t id) {
  if (skip_special_ && tokenizer_->is_special(id)) return {};
  pending_.append(tokenizer_->token_bytes(id));
  const std::size_t certain = pending_.size() - incomplete_utf8_suffix(pending_);
  std::string text;
  append_lossy_utf8(std::string_view(pending_).substr(0, certain), text);
  pending_.erase(0, certain);
  return text;
}

std::string StreamingDetokenizer::finish() {
  std::string text;
  append_lossy_utf8(pending_, text);
  pending_.clear();
  return text;
}

}  // namespace sluice
