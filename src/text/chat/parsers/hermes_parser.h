// Splits answers of Hermes and Qwen into content and tool calls while they stream.
//
//   {content}
//   <tool_call>
//   {"name": "f", "arguments": {"k": 1}}
//   </tool_call>
//
// Up to two newlines before a call belong to it; white space after it is dropped unless text follows. Malformed
// answers: a tag that no call follows is content, and so is an object without a name. Once a call has started, its
// arguments are completed to JSON wherever they break off, and other text before the closing tag is content. A missing
// closing tag is implied. Thread safety: belongs to one answer.
// Used by chat_parsers.cc.
#pragma once

#include "grammar/call_markup.h"
#include "text/chat/parsers/json_calls_parser.h"

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

class HermesOutputParser final : public JsonCallsParser {
 public:
  HermesOutputParser();

 private:
  bool step_after_call() override;
  void finish_after_call(bool is_cut) override;
};

}  // namespace sluice
