// Splits answers of Llama 3 into content and tool calls while they stream.
//
//   {"name": "f", "parameters": {"k": 1}}; {"name": "g", "parameters": {}}
//   {content}<|python_tag|>{"name": "f", "parameters": {"k": 1}}
//
// Without the tag an answer is a call only if it begins as one. Calls are separated by ";", "," or white space.
// Malformed answers: an object that is not a call (no name, or no parameters) is content, with the tag before it, and
// so is everything after it, up to another tag. Once a call has started, its arguments are completed to JSON wherever
// they break off; the rest is content. Thread safety: belongs to one answer.
#pragma once

#include <optional>
#include <string>

#include "grammar/call_markup.h"
#include "text/chat/chat.h"
#include "text/chat/parsers/delta_sink.h"
#include "text/chat/parsers/json_call.h"

namespace sluice {

inline constexpr CallMarkup kLlama3Calls = {.begins = "<|python_tag|>",
                                            .at_start = "{",
                                            .open = "",
                                            .call = "{\"name\": \"",
                                            .name_end = "\", \"parameters\": ",
                                            .call_end = "}",
                                            .between = "; ",
                                            .close = "",
                                            .tokens = {"<|python_tag|>"}};

class Llama3OutputParser final : public ChatOutputParser {
 public:
  std::vector<ChatDelta> push(std::string_view text) override;
  std::vector<ChatDelta> finish(AnswerEnd end) override;
  bool had_tool_calls() const override { return sink_.has_whole_calls(); }

 private:
  enum class State { kStart, kContent, kCall, kBetween, kDone };

  bool step();
  bool step_past(std::string_view blank);
  bool step_start();
  bool step_content();
  bool step_call();
  bool step_between();
  void begin_call(std::string opening);

  State state_ = State::kStart;
  DeltaSink sink_;
  std::string pending_;                 // not yet understood; kCall: from its start until the call has started
  std::optional<JsonCallReader> call_;  // kCall
  std::size_t blanks_ = 0;              // kStart, kBetween: the bytes of pending_ that are known to be white space
  std::size_t read_ = 0;                // kCall: the bytes of pending_ that the reader has
  std::string opening_;                 // kCall: what came before it as markup
};

}  // namespace sluice
