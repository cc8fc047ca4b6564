// Used by text/chat/templates/template_chat.h.
#include "text/chat/parsers/chat_parsers.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text/chat/parsers/deepseek_v3_parser.h"
#include "text/chat/parsers/dsml_parser.h"
#include "text/chat/parsers/hermes_parser.h"
#include "text/chat/parsers/llama3_parser.h"
#include "text/chat/parsers/think_parser.h"

namespace sluice {

namespace {

// Everything is content.
class PlainOutputParser final : public ChatOutputParser {
 public:
  std::vector<ChatDelta> push(std::string_view text) override {
    if (is_done_ || text.empty()) return {};
    return {{.kind = ChatDelta::Kind::kContent, .text = std::string(text)}};
  }
  std::vector<ChatDelta> finish(AnswerEnd /*end*/) override {
    is_done_ = true;
    return {};
  }
  bool had_tool_calls() const override { return false; }

 private:
  bool is_done_ = false;
};

template <class Parser, auto... kArguments>
std::unique_ptr<ChatOutputParser> make() {
  return std::make_unique<Parser>(kArguments...);
}

std::unique_ptr<ChatOutputParser> make_dsml_v32() {
  return std::make_unique<DsmlOutputParser>(kDeepSeekV32Block, /*starts_with_reasoning=*/false);
}

std::unique_ptr<ChatOutputParser> make_dsml_v4() {
  return std::make_unique<DsmlOutputParser>(kDeepSeekV4Block, /*starts_with_reasoning=*/false);
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool writes_hermes(std::string_view text) {
  // Other formats open calls with the same tag but write something else than JSON in them.
  return has(text, "<tool_call>") && !has(text, "<function=") && !has(text, "<arg_key>");
}

bool writes_llama3(std::string_view text) {
  return has(text, "<|start_header_id|>") && has(text, "\"parameters\"");
}

bool writes_deepseek_v3(std::string_view text) {
  return has(text, "<｜tool▁sep｜>") && has(text, "```json");
}

bool writes_deepseek_v31(std::string_view text) {
  return has(text, "<｜tool▁sep｜>");
}

bool writes_deepseek_v32(std::string_view text) {
  return has(text, "<｜DSML｜function_calls>");
}

bool writes_deepseek_v4(std::string_view text) {
  return has(text, "<｜DSML｜tool_calls>");
}

bool never(std::string_view /*text*/) {
  return false;
}

struct ToolCallSyntax {
  std::string_view name;
  std::unique_ptr<ChatOutputParser> (*make)();
  bool (*is_written_by)(std::string_view template_text);
  const CallMarkup* calls;
};

// The first that a template writes is the template's.
constexpr std::array kToolCallSyntaxes = {
    ToolCallSyntax{"deepseek_v32", make_dsml_v32, writes_deepseek_v32, &kDeepSeekV32Calls},
    ToolCallSyntax{"deepseek_v4", make_dsml_v4, writes_deepseek_v4, &kDeepSeekV4Calls},
    ToolCallSyntax{"deepseek_v3", make<DeepSeekV3OutputParser>, writes_deepseek_v3, &kDeepSeekV3Calls},
    ToolCallSyntax{"deepseek_v31", make<DeepSeekV3OutputParser>, writes_deepseek_v31, &kDeepSeekV31Calls},
    ToolCallSyntax{"hermes", make<HermesOutputParser>, writes_hermes, &kHermesCalls},
    ToolCallSyntax{"llama3_json", make<Llama3OutputParser>, writes_llama3, &kLlama3Calls},
    ToolCallSyntax{"none", make<PlainOutputParser>, never, nullptr},
};

constexpr std::array<std::string_view, 2> kReasoningSyntaxes = {"think", "none"};

template <class Names>
Status unknown(std::string_view what, const std::string& found, const Names& names) {
  std::string list;
  for (const std::string_view name : names) list.append(list.empty() ? "" : ", ").append(name);
  return invalid_argument(std::string(what) + ": expected one of " + list + ", found \"" + found + "\"");
}

}  // namespace

Result<ChatParserNames> choose_chat_parsers(std::string_view template_text, const ChatParserNames& given) {
  ChatParserNames names = given;
  if (names.tool_call.empty()) {
    names.tool_call = "none";
    for (const ToolCallSyntax& syntax : kToolCallSyntaxes) {
      if (!syntax.is_written_by(template_text)) continue;
      names.tool_call = syntax.name;
      break;
    }
  } else if (std::ranges::find(kToolCallSyntaxes, names.tool_call, &ToolCallSyntax::name) == kToolCallSyntaxes.end()) {
    std::array<std::string_view, kToolCallSyntaxes.size()> known;
    std::ranges::transform(kToolCallSyntaxes, known.begin(), &ToolCallSyntax::name);
    return unknown("tool-call parser", names.tool_call, known);
  }
  if (names.reasoning.empty()) {
    names.reasoning = has(template_text, "<think>") || has(template_text, "</think>") ? "think" : "none";
  } else if (std::ranges::find(kReasoningSyntaxes, names.reasoning) == kReasoningSyntaxes.end()) {
    return unknown("reasoning parser", names.reasoning, kReasoningSyntaxes);
  }
  return names;
}

AnswerMarkup answer_markup(const ChatParserNames& names) {
  const auto* const syntax = std::ranges::find(kToolCallSyntaxes, names.tool_call, &ToolCallSyntax::name);
  return {.calls = syntax != kToolCallSyntaxes.end() ? syntax->calls : nullptr,
          .may_open_reasoning = names.reasoning == "think",
          .reads_reasoning = names.reasoning == "think"};
}

std::unique_ptr<ChatOutputParser> make_chat_parser(const ChatParserNames& names, bool reasoning_open, bool has_tools) {
  const auto syntax = std::ranges::find(kToolCallSyntaxes, names.tool_call, &ToolCallSyntax::name);
  std::unique_ptr<ChatOutputParser> answer = has_tools && syntax != kToolCallSyntaxes.end()
                                                 ? syntax->make()
                                                 : std::unique_ptr<ChatOutputParser>(new PlainOutputParser());
  if (names.reasoning != "think") return answer;
  return std::make_unique<ThinkOutputParser>(reasoning_open, std::move(answer));
}

}  // namespace sluice
