// Splits answers of Llama 3 into content and tool calls while they stream.
//
//   {"name": "f", "parameters": {"k": 1}}; {"name": "g", "parameters": {}}
//   {content}<|python_tag|>{"name": "f", "parameters": {"k": 1}}
//
// Without the tag an answer is a call only if it begins as one. Calls are separated by ";", "," or white space.
// Malformed answers: an object that is not a call (no name, or no parameters) is content, with the tag before it, and
// so is everything after it, up to another tag. Once a call has started, its arguments are completed to JSON wherever
// they break off; the rest is content. Thread safety: belongs to one answer.
// Used by chat_parsers.cc.
#pragma once

#include <cstddef>
#include <string_view>

#include "grammar/call_markup.h"
#include "text/chat/parsers/json_calls_parser.h"

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

class Llama3OutputParser final : public JsonCallsParser {
 public:
  Llama3OutputParser();

 private:
  bool step_start() override { return step_past(kMarkupSpace); }
  bool step_after_call() override { return step_past(" \t\r\n;,"); }
  bool step_past(std::string_view blank);

  std::size_t blanks_ = 0;  // the bytes of pending_ that are known to be blank
};

}  // namespace sluice
