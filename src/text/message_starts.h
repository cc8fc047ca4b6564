// MessageStarts: where the messages of a raw prompt begin, told by the role markers in its ids. (Of a conversation its
// rendering tells.)
//
// The engine keeps what is needed to resume there, as the part before a message (a system prompt, a conversation so
// far) is often the start of other prompts. Thread safety: const after it is made.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "text/chat.h"
#include "text/tokenizer.h"

namespace sluice {

class MessageStarts {
 public:
  // `chat` null: no markers. Markers that the tokenizer does not have as one special token are left out.
  MessageStarts(const Tokenizer& tokenizer, const ChatEncoding* chat);

  // The positions of markers in `prompt`, ascending; without 0, which nothing comes before.
  std::vector<std::int32_t> find(std::span<const std::int32_t> prompt) const;

 private:
  std::vector<std::int32_t> markers_;
};

}  // namespace sluice
