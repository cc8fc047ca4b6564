// The chat encoding of DeepSeek-V4 (docs/models/deepseek_v4.md §14.2-§14.4).
//
// A conversation is BOS, then the messages, each rendered by the rules of its role; a single chat turn reads
//   <｜begin▁of▁sentence｜>{system}<｜User｜>{user}<｜Assistant｜></think>{answer}<｜end▁of▁sentence｜>
// and a thinking turn <｜Assistant｜><think>{reasoning}</think>{answer}<｜end▁of▁sentence｜>.
//
// Choices where the official encoder is silent:
// - Tools and response_format of the request go to the first message if it is system or developer, after that message's
//   own; otherwise to an empty system message put before it.
// - A content of several text parts is joined by blank lines, as the text blocks of a user turn are.
// - Arguments of a tool call that are not JSON become one parameter named "arguments"; blank ones are no parameters.
// - A user message merged into an earlier one loses its `task`, as in the model's own encoder.
// Thread safety: const methods may be called from any thread.
// Used by chat.cc and deepseek_v4_chat_effort.cc.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/status.h"
#include "text/chat/chat.h"

namespace sluice {

// The meaning of a reasoning effort, which differs between the two generations of checkpoints
// (docs/models/deepseek_v4.md §14.4).
enum class DeepSeekV4EffortProfile {
  kPreview,   // minimal to high (the default): nothing; xhigh, max: the "absolute maximum" paragraph
  kOfficial,  // minimal, low (the default), medium: nothing; high: the "absolute maximum" paragraph; xhigh, max: the
              // "beyond maximum" one
};

struct DeepSeekV4ChatOptions {
  DeepSeekV4EffortProfile effort_profile = DeepSeekV4EffortProfile::kPreview;
  bool thinking_by_default = false;  // default of requests without a choice
};

// The profile by the source text of a checkpoint's own encoder: official if and only if it sets a default effort "low"
// and has prompts for low, high and max.
DeepSeekV4EffortProfile detect_deepseek_v4_effort_profile(std::string_view encoder_source);

class DeepSeekV4Chat final : public ChatEncoding {
 public:
  explicit DeepSeekV4Chat(DeepSeekV4ChatOptions options) : options_(options) {}

  Result<ChatPrompt> render(const ChatRequest& request) const override;
  std::unique_ptr<ChatOutputParser> make_parser(bool reasoning_open, bool has_tools) const override;
  AnswerMarkup answer_markup() const override;
  // User, assistant and latest reminder; a system message has none.
  std::vector<std::string_view> role_markers() const override;

  const DeepSeekV4ChatOptions& options() const { return options_; }

 private:
  DeepSeekV4ChatOptions options_;
};

// Loads the encoding with the effort profile of encoding/encoding_dsv4.py in `model_folder`; preview when there is no
// such file.
Result<std::unique_ptr<ChatEncoding>> load_deepseek_v4_chat(const std::string& model_folder);

}  // namespace sluice
