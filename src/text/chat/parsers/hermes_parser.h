// Splits answers of Hermes and Qwen into content and tool calls while they stream.
//
//   {content}
//   <tool_call>
//   {"name": "f", "arguments": {"k": 1}}
//   </tool_call>
//
// Up to two newlines before a call belong to it; white space after it is dropped unless text follows.
// What becomes of malformed answers: a tag that no call follows is content, and so is an object without a name. Once a
// call has started, its arguments are completed to JSON wherever they break off, and what else stands before the
// closing tag is content. A missing closing tag is implied. Thread safety: belongs to one answer.
#pragma once

#include <optional>
#include <string>

#include "grammar/call_markup.h"
#include "text/chat/chat.h"
#include "text/chat/parsers/delta_sink.h"
#include "text/chat/parsers/json_call.h"

namespace sluice {

inline constexpr CallMarkup kHermesCalls = {.begins = "<tool_call>",
                                            .at_start = "",
                                            .open = "",
                                            .call = "<tool_call>\n{\"name\": \"",
                                            .name_end = "\", \"arguments\": ",
                                            .call_end = "}\n</tool_call>",
                                            .between = "\n",
                                            .close = "",
                                            .tokens = {"<tool_call>"}};

class HermesOutputParser final : public ChatOutputParser {
 public:
  std::vector<ChatDelta> push(std::string_view text) override;
  std::vector<ChatDelta> finish(AnswerEnd end) override;
  bool had_tool_calls() const override { return sink_.has_whole_calls(); }

 private:
  enum class State { kContent, kCall, kAfterCall, kDone };

  bool step();
  bool step_content();
  bool step_call();
  bool step_after_call();
  void begin_call(std::string opening);

  State state_ = State::kContent;
  DeltaSink sink_;
  std::string pending_;                 // not yet understood; kCall: from after the tag until the call has started
  std::optional<JsonCallReader> call_;  // kCall
  std::size_t read_ = 0;                // kCall: the bytes of pending_ that the reader has
  std::string opening_;                 // kCall: the tag, with the newlines before it
};

}  // namespace sluice
