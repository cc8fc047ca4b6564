// The passes over a conversation before DeepSeek-V4's encoder renders it (docs/models/deepseek_v4.md §14.2, A to D).
// Thread safety: pure functions over values.
// Used by deepseek_v4_chat.cc.
#pragma once

#include <string>
#include <vector>

#include "text/chat/chat.h"

namespace sluice {

// A part of a user turn: what the user wrote, or the result of a tool call.
struct DeepSeekV4Block {
  bool is_tool_result = false;
  std::string text;
  std::string call_id;  // the call that a tool result answers
};

// A message after the passes; there are no tool messages any more. A user turn is its blocks, every other role the
// content of its message.
struct DeepSeekV4Turn {
  ChatMessage message;
  std::vector<DeepSeekV4Block> blocks;
};

struct DeepSeekV4Conversation {
  std::vector<DeepSeekV4Turn> turns;
  bool drop_thinking = false;  // reasoning before the last user turn is left out
  int last_user = -1;          // index of the last user or developer turn, -1 for none
};

// Attaches the request's tools and response_format, merges tool results and consecutive user messages (A), and sorts
// tool results (B). Decides whether earlier reasoning is dropped: not when there are tools (C). If it is, drops earlier
// developer messages in thinking mode (D). Reasoning itself is left in the messages for the renderer to pass over.
DeepSeekV4Conversation prepare_deepseek_v4_turns(const ChatRequest& request, bool thinking);

}  // namespace sluice
