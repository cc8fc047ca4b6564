// Used by chat_parsers.cc.
#include "text/chat/parsers/llama3_parser.h"

#include <algorithm>
#include <utility>

namespace sluice {

Llama3OutputParser::Llama3OutputParser()
    : JsonCallsParser(State::kStart, "<|python_tag|>", /*most_newlines=*/0, /*needs_arguments=*/true) {}

// Past the bytes of `blank`, to a call if it begins there, else to content.
bool Llama3OutputParser::step_past(std::string_view blank) {
  blanks_ = std::min(pending_.find_first_not_of(blank, blanks_), pending_.size());
  if (blanks_ == pending_.size()) return false;
  const std::size_t blanks = std::exchange(blanks_, 0);
  if (pending_[blanks] == '{') {
    begin_call(pending_.substr(0, blanks), /*is_tagged=*/false);
    pending_.erase(0, blanks);
  } else {
    begin_content();
  }
  return true;
}

}  // namespace sluice
