// An evaluation task: a file of questions, one JSON object per line, each with the rule that checks its answer.
//
//   {"id": "...", "mode": "chat" | "thinking", "messages": [...], "tools": [...], "check": "<rule>",
//    "expected_answer": "...", "expected_tool_calls": [{"name": "...", "arguments": {...} or JSON text}]}
// Other keys are ignored. Rules are given by their whole text:
//   the number after the last "####" equals expected_answer    compared as numbers
//   content equals expected_answer                             byte by byte
//   expected_answer occurs in the answer (after </think>)
//   tool name and arguments are equal                          in order; arguments as JSON values
// Thread safety: plain values, pure functions.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <vector>

#include "sluice/status.h"
#include "text/chat/chat.h"

namespace sluice {

struct EvalAnswer {
  std::string content;              // without reasoning
  std::vector<ChatToolCall> calls;  // without ids
};

struct EvalItem {
  using Rule = bool (*)(const EvalItem& item, const EvalAnswer& answer);
  struct Call {
    std::string name;
    boost::json::value arguments;
  };

  std::string id;
  ChatRequest request;
  std::string expected_answer;
  std::vector<Call> expected_calls;
  Rule rule = nullptr;

  bool accepts(const EvalAnswer& answer) const { return rule(*this, answer); }
};

// Errors name the file, the line and the key; an unknown rule is an error that lists the known ones.
Result<std::vector<EvalItem>> load_eval_task(const std::string& path);
Result<EvalItem> parse_eval_item(std::string_view line, const std::string& what);

}  // namespace sluice
