// Used by deepseek_v4_chat.cc.
#include "text/chat/deepseek_v4_chat_turns.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace sluice {

namespace {

using Turns = std::vector<DeepSeekV4Turn>;

std::vector<ChatMessage> attach_request_tools(const ChatRequest& request) {
  std::vector<ChatMessage> messages = request.messages;
  if (request.tools.empty() && !request.response_format) return messages;
  const bool leads = !messages.empty() &&
                     (messages.front().role == ChatRole::kSystem || messages.front().role == ChatRole::kDeveloper);
  if (!leads) {
    ChatMessage empty_system;
    empty_system.role = ChatRole::kSystem;
    messages.insert(messages.begin(), std::move(empty_system));
  }
  ChatMessage& leader = messages.front();
  leader.tools.insert(leader.tools.end(), request.tools.begin(), request.tools.end());
  if (request.response_format) leader.response_format = request.response_format;
  return messages;
}

// A: tool results, and user messages that follow one another, become blocks of one user turn.
Turns merge_messages(std::vector<ChatMessage> messages) {
  Turns turns;
  for (ChatMessage& message : messages) {
    const bool is_tool = message.role == ChatRole::kTool;
    if (!is_tool && message.role != ChatRole::kUser) {
      turns.push_back({.message = std::move(message), .blocks = {}});
      continue;
    }
    DeepSeekV4Block block{.is_tool_result = is_tool,
                          .text = join_content(message.content, "\n\n"),
                          .call_id = std::move(message.tool_call_id)};
    const bool after_user = !turns.empty() && turns.back().message.role == ChatRole::kUser;
    // A task ends its message: only results of tools may still join it.
    if (!after_user || (!is_tool && !turns.back().message.task.empty())) {
      ChatMessage user;
      user.role = ChatRole::kUser;
      if (!is_tool) user.task = std::move(message.task);
      turns.push_back({.message = std::move(user), .blocks = {}});
    }
    turns.back().blocks.push_back(std::move(block));
  }
  return turns;
}

// B: the tool results of a user turn, in the places that they hold, follow the order of the last calls. A result whose
// id no call has counts as the first call's.
void sort_tool_results(Turns& turns) {
  std::map<std::string, std::size_t, std::less<>> order_of_call;
  for (DeepSeekV4Turn& turn : turns) {
    const std::vector<ChatToolCall>& calls = turn.message.tool_calls;
    if (!calls.empty()) {
      order_of_call.clear();
      for (std::size_t i = 0; i < calls.size(); ++i) {
        if (!calls[i].id.empty()) order_of_call[calls[i].id] = i;
      }
    }
    std::vector<DeepSeekV4Block> results;
    for (const DeepSeekV4Block& block : turn.blocks) {
      if (block.is_tool_result) results.push_back(block);
    }
    std::ranges::stable_sort(results, {}, [&](const DeepSeekV4Block& block) -> std::size_t {
      const auto call = order_of_call.find(block.call_id);
      return call == order_of_call.end() ? 0 : call->second;
    });
    auto next = results.begin();
    for (DeepSeekV4Block& block : turn.blocks) {
      if (block.is_tool_result) block = std::move(*next++);
    }
  }
}

int last_user_index(const Turns& turns) {
  for (std::size_t i = turns.size(); i-- > 0;) {
    const ChatRole role = turns[i].message.role;
    if (role == ChatRole::kUser || role == ChatRole::kDeveloper) return static_cast<int>(i);
  }
  return -1;
}

// D: developer messages before the last user turn go. (Earlier reasoning goes too: the renderer leaves it out.)
Turns drop_earlier_developers(Turns turns, int last_user) {
  Turns kept;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const bool is_earlier = static_cast<int>(i) < last_user;
    if (is_earlier && turns[i].message.role == ChatRole::kDeveloper) continue;
    kept.push_back(std::move(turns[i]));
  }
  return kept;
}

}  // namespace

DeepSeekV4Conversation prepare_deepseek_v4_turns(const ChatRequest& request, bool thinking) {
  DeepSeekV4Conversation conversation;
  conversation.turns = merge_messages(attach_request_tools(request));
  sort_tool_results(conversation.turns);
  const bool has_tools =
      std::ranges::any_of(conversation.turns, [](const DeepSeekV4Turn& turn) { return !turn.message.tools.empty(); });
  conversation.drop_thinking = request.drop_thinking && !has_tools;  // C
  conversation.last_user = last_user_index(conversation.turns);
  if (thinking && conversation.drop_thinking) {
    conversation.turns = drop_earlier_developers(std::move(conversation.turns), conversation.last_user);
    conversation.last_user = last_user_index(conversation.turns);
  }
  return conversation;
}

}  // namespace sluice
