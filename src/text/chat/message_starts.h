// MessageStarts: where the messages of a raw prompt begin, found by the role markers among its ids. (For a conversation
// the renderer says where.)
//
// The engine keeps what is needed to resume there, because the part before a message (a system prompt, a conversation
// so far) is often the start of other prompts. Thread safety: const after it is made.
// Used by cli/commands/run_command.cc and serve/api/api_context.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "text/chat/chat.h"
#include "text/tokenizer/tokenizer.h"

namespace sluice {

class MessageStarts {
 public:
  // `chat` null: no markers. Markers that are not a single special token of the tokenizer are left out.
  MessageStarts(const Tokenizer& tokenizer, const ChatEncoding* chat);

  // The positions of markers in `prompt`, ascending, without 0.
  std::vector<std::int32_t> find(std::span<const std::int32_t> prompt) const;

 private:
  std::vector<std::int32_t> markers_;
};

}  // namespace sluice
