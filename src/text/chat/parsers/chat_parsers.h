// The parsers of answers by name: which syntax a model calls tools in, and how it marks its reasoning.
//
//   tool calls  hermes          <tool_call>{"name": "f", "arguments": {...}}</tool_call>        (Hermes, Qwen)
//               llama3_json     {"name": "f", "parameters": {...}}, also after <|python_tag|>
//               deepseek_v3     <｜tool▁call▁begin｜>function<｜tool▁sep｜>f and fenced JSON     (V3, R1)
//               deepseek_v31    <｜tool▁call▁begin｜>f<｜tool▁sep｜>{...}
//               deepseek_v32    <｜DSML｜function_calls>
//               deepseek_v4     <｜DSML｜tool_calls>
//               none            everything is content
//   reasoning   think           <think>...</think>
//               none            everything is content
//
// A syntax that no older model has is one more file and one more line in chat_parsers.cc.
// Thread safety: pure functions.
// Used by text/chat/templates/template_chat.h.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "sluice/status.h"
#include "text/chat/chat.h"

namespace sluice {

// Checks the names that are given, and fills in those that are not by the text of a template: the syntax that it writes
// calls in, and "think" if it writes <think>.
Result<ChatParserNames> choose_chat_parsers(std::string_view template_text, const ChatParserNames& given);

// Returns the markup that these parsers read.
AnswerMarkup answer_markup(const ChatParserNames& names);

// A parser for an answer, which begins with reasoning if the prompt has opened it. Without tools nothing is taken for a
// call.
std::unique_ptr<ChatOutputParser> make_chat_parser(const ChatParserNames& names, bool reasoning_open, bool has_tools);

}  // namespace sluice
