// The chat encoding of DeepSeek-V3.2.
//
// A conversation is BOS, then the messages, each rendered by the rules of its role; with tools and one question
// it reads
//   <｜begin▁of▁sentence｜>\n\n{tools}{system}<｜User｜>{user}<｜Assistant｜></think>{answer}<｜end▁of▁sentence｜>
// and a thinking turn <｜Assistant｜><think>{reasoning}</think>{answer}<｜end▁of▁sentence｜>.
//
// - Tools and response_format of the request go to an empty system message of their own before all others.
// - Thinking is off unless the request turns it on; then reasoning is written only after the last user or developer
//   message, and an assistant's message there needs reasoning or calls.
// - If the last message is a user's, and drop_thinking is not off, earlier developer messages are left out in thinking
//   mode.
// - Results of tools follow the assistant's calls; the block closes after as many as there were calls.
// Choices where the model's own encoder is silent: a content of several text parts is joined by blank lines. Arguments
// of a tool call that are not JSON become one parameter named "arguments". Without a generation prompt, the text that
// would open the assistant's next turn is left out at the end. Thread safety: const methods may be called from any
// thread.
// Used by chat.cc.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/status.h"
#include "text/chat/chat.h"

namespace sluice {

class DeepSeekV32Chat final : public ChatEncoding {
 public:
  Result<ChatPrompt> render(const ChatRequest& request) const override;
  std::unique_ptr<ChatOutputParser> make_parser(bool reasoning_open, bool has_tools) const override;
  AnswerMarkup answer_markup() const override;
  // User and assistant; a system message has none.
  std::vector<std::string_view> role_markers() const override;
};

Result<std::unique_ptr<ChatEncoding>> load_deepseek_v32_chat(const std::string& model_folder);

}  // namespace sluice
