#include "text/chat/deepseek_v32_chat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "files/json.h"

namespace sluice::deepseek_v32_chat_test {
namespace {

using ::testing::HasSubstr;

struct Options {
  bool thinking = false;
  bool drop_thinking = true;
  bool add_generation_prompt = true;
  const char* tools = nullptr;
  const char* response_format = nullptr;
};

Result<std::string> try_render(std::string_view messages, const Options& options) {
  ChatRequest request;
  request.messages = *parse_chat_messages(*parse_json(messages, "messages"));
  if (options.tools != nullptr) request.tools = *parse_chat_tools(*parse_json(options.tools, "tools"));
  if (options.response_format != nullptr) request.response_format = *parse_json(options.response_format, "format");
  if (options.thinking) request.thinking = true;
  request.drop_thinking = options.drop_thinking;
  // The model's own encoder opens no turn after an answer.
  const bool is_answered = !request.messages.empty() && request.messages.back().role == ChatRole::kAssistant;
  request.add_generation_prompt = options.add_generation_prompt && !is_answered;
  SLUICE_ASSIGN_OR_RETURN(ChatPrompt prompt, DeepSeekV32Chat().render(request));
  return std::move(prompt.text.bytes);
}

// Without the BOS that every prompt starts with.
std::string render(std::string_view messages, const Options& options = {}) {
  constexpr std::string_view kBos = "<｜begin▁of▁sentence｜>";
  const Result<std::string> prompt = try_render(messages, options);
  if (!prompt.ok()) return "! " + prompt.status().message();
  EXPECT_TRUE(prompt->starts_with(kBos));
  return prompt->substr(kBos.size());
}

constexpr char kTools[] =
    R"([{"type": "function", "function": {"name": "f", "parameters": {"a": "é"}}}, {"type": "function", "function": {"name": "g"}}])";

// The tools of kTools, as every message that has them writes them.
constexpr char kToolsText[] =
    "\n\n## Tools\n"
    "You have access to a set of tools you can use to answer the user's question.\n"
    "You can invoke functions by writing a \"<｜DSML｜function_calls>\" block like the following as part of your reply "
    "to the "
    "user:\n"
    "<｜DSML｜function_calls>\n"
    "<｜DSML｜invoke name=\"$FUNCTION_NAME\">\n"
    "<｜DSML｜parameter name=\"$PARAMETER_NAME\" string=\"true|false\">$PARAMETER_VALUE</｜DSML｜parameter>\n"
    "...\n"
    "</｜DSML｜invoke>\n"
    "<｜DSML｜invoke name=\"$FUNCTION_NAME2\">\n"
    "...\n"
    "</｜DSML｜invoke>\n"
    "</｜DSML｜function_calls>\n"
    "String and scalar parameters should be specified as is without any escaping or quotes, while lists and objects "
    "should "
    "use JSON format. The \"string\" attribute should be set to \"true\" for string type parameters and \"false\" for "
    "other "
    "types (numbers, booleans, arrays, objects).\n"
    "If the thinking_mode is enabled, then after function results you should strongly consider outputting a thinking "
    "block. "
    "Here is an example:\n"
    "<｜DSML｜function_calls>\n"
    "...\n"
    "</｜DSML｜function_calls>\n"
    "<function_results>\n"
    "...\n"
    "</function_results>\n"
    "<think>...thinking about results</think>\n"
    "Here are the functions available in JSONSchema format:\n"
    "<functions>\n"
    "{\"name\": \"f\", \"parameters\": {\"a\": \"é\"}}\n"
    "{\"name\": \"g\"}\n"
    "</functions>\n";

constexpr char kFormatText[] =
    "\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n{\"type\": \"object\"}";

TEST(DeepSeekV32Chat, UserAndAssistant) {
  EXPECT_EQ(render(R"([{"role": "user", "content": "Hi"}])"), "<｜User｜>Hi<｜Assistant｜></think>");
  EXPECT_EQ(render(R"([{"role": "user", "content": "Hi"}])", {.thinking = true}), "<｜User｜>Hi<｜Assistant｜><think>");
  EXPECT_EQ(render(R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
                       {"role": "user", "content": [{"type": "text", "text": "c"}, {"type": "text", "text": "d"}]}])"),
            "<｜User｜>a<｜Assistant｜></think>b<｜end▁of▁sentence｜><｜User｜>c\n\nd<｜Assistant｜></think>");
}

TEST(DeepSeekV32Chat, SystemContentIsRaw) {
  EXPECT_EQ(render(R"([{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"}])"),
            "S<｜User｜>Hi<｜Assistant｜></think>");
}

TEST(DeepSeekV32Chat, RequestsToolsGoToASystemMessageOfTheirOwn) {
  EXPECT_EQ(render(R"([{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"}])", {.tools = kTools}),
            std::string(kToolsText) + "S<｜User｜>Hi<｜Assistant｜></think>");
  EXPECT_EQ(render(R"([{"role": "user", "content": "Hi"}])", {.response_format = R"({"type": "object"})"}),
            std::string(kFormatText) + "<｜User｜>Hi<｜Assistant｜></think>");
}

TEST(DeepSeekV32Chat, ToolsAndFormatOfASystemMessage) {
  const std::string message = std::string(R"([{"role": "system", "content": "S", "tools": )") + kTools +
                              R"(, "response_format": {"type": "object"}}, {"role": "user", "content": "Hi"}])";
  EXPECT_EQ(render(message), std::string("S") + kToolsText + kFormatText + "<｜User｜>Hi<｜Assistant｜></think>");
}

TEST(DeepSeekV32Chat, Developer) {
  EXPECT_EQ(render(R"([{"role": "developer", "content": "D"}])"),
            "<｜User｜>\n\n# The user's message is: D<｜Assistant｜></think>");
  const std::string message =
      std::string(R"([{"role": "developer", "content": "D", "response_format": {"type": "object"}, "tools": )") +
      kTools + "}]";
  EXPECT_EQ(render(message, {.thinking = true}), std::string("<｜User｜>") + kToolsText + kFormatText +
                                                     "\n\n# The user's message is: D<｜Assistant｜><think>");
  EXPECT_EQ(render(R"([{"role": "developer", "content": ""}])", {.thinking = true}),
            "<｜User｜>\n\n# The user's message is: <｜Assistant｜><think>");
}

constexpr char kReasoned[] = R"([{"role": "user", "content": "a"},
  {"role": "assistant", "reasoning_content": "R1", "content": "b"}, {"role": "user", "content": "c"},
  {"role": "assistant", "reasoning_content": "R2", "content": "d"}])";

TEST(DeepSeekV32Chat, ReasoningIsWrittenAfterTheLastUserOnly) {
  EXPECT_EQ(render(kReasoned, {.thinking = true}),
            "<｜User｜>a<｜Assistant｜></think>b<｜end▁of▁sentence｜><｜User｜>c<｜Assistant｜><think>R2</think>d"
            "<｜end▁of▁sentence｜>");
  EXPECT_EQ(render(kReasoned),
            "<｜User｜>a<｜Assistant｜></think>b<｜end▁of▁sentence｜><｜User｜>c<｜Assistant｜></"
            "think>d<｜end▁of▁sentence｜>");
}

TEST(DeepSeekV32Chat, AnAnswerInThinkingModeNeedsReasoningOrCalls) {
  EXPECT_THAT(
      render(R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])", {.thinking = true}),
      HasSubstr("expected reasoning_content or tool_calls"));
}

constexpr char kCalls[] = R"([{"role": "user", "content": "a"},
  {"role": "assistant", "content": "b", "reasoning_content": "R", "tool_calls": [
    {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"s\": \"x \\\"y\\\"\", \"n\": [1, 2.5, null]}"}},
    {"id": "2", "type": "function", "function": {"name": "g", "arguments": "{}"}}]},
  {"role": "tool", "tool_call_id": "1", "content": "r1"}, {"role": "tool", "tool_call_id": "2", "content": "r2"}])";
constexpr char kCallsText[] =
    "b\n\n<｜DSML｜function_calls>\n"
    "<｜DSML｜invoke name=\"f\">\n"
    "<｜DSML｜parameter name=\"s\" string=\"true\">x \"y\"</｜DSML｜parameter>\n"
    "<｜DSML｜parameter name=\"n\" string=\"false\">[1, 2.5, null]</｜DSML｜parameter>\n"
    "</｜DSML｜invoke>\n"
    "<｜DSML｜invoke name=\"g\">\n"
    "\n"
    "</｜DSML｜invoke>\n"
    "</｜DSML｜function_calls><｜end▁of▁sentence｜>"
    "\n\n<function_results>\n<result>r1</result>\n<result>r2</result>\n</function_results>\n\n";

TEST(DeepSeekV32Chat, CallsAndResults) {
  EXPECT_EQ(render(kCalls), std::string("<｜User｜>a<｜Assistant｜></think>") + kCallsText + "</think>");
  EXPECT_EQ(render(kCalls, {.thinking = true}),
            std::string("<｜User｜>a<｜Assistant｜><think>R</think>") + kCallsText + "<think>");
}

TEST(DeepSeekV32Chat, ResultsBeforeTheLastUserCloseTheThought) {
  std::string messages(kCalls);
  messages.pop_back();
  messages += R"(, {"role": "assistant", "content": "c"}, {"role": "user", "content": "d"}])";
  EXPECT_EQ(render(messages, {.thinking = true}),
            std::string("<｜User｜>a<｜Assistant｜></think>") + kCallsText +
                "</think>c<｜end▁of▁sentence｜><｜User｜>d<｜Assistant｜><think>");
}

TEST(DeepSeekV32Chat, FewerAndMoreResultsThanCalls) {
  const std::string opening =
      R"([{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": ""}},
          {"function": {"name": "g", "arguments": ""}}]}, {"role": "tool", "content": "r"})";
  EXPECT_THAT(render(opening + "]"),
              ::testing::EndsWith("<｜end▁of▁sentence｜>\n\n<function_results>\n<result>r</result>"));
  const std::string third = R"(, {"role": "tool", "content": "r"}, {"role": "tool", "content": "r"}])";
  EXPECT_THAT(render(opening + third), HasSubstr("expected as many results as the assistant made calls, 2"));
  EXPECT_THAT(render(R"([{"role": "tool", "content": "r"}])"), HasSubstr("found more"));
}

constexpr char kDeveloper[] = R"([{"role": "developer", "content": "D"}, {"role": "assistant", "content": "b"},
  {"role": "user", "content": "c"}])";

TEST(DeepSeekV32Chat, EarlierDeveloperMessagesAreDroppedInThinkingMode) {
  EXPECT_EQ(render(kDeveloper, {.thinking = true}), "b<｜end▁of▁sentence｜><｜User｜>c<｜Assistant｜><think>");
  const std::string all =
      "<｜User｜>\n\n# The user's message is: D<｜Assistant｜></think>b<｜end▁of▁sentence｜><｜User｜>c<｜Assistant｜>";
  EXPECT_EQ(render(kDeveloper, {.thinking = true, .drop_thinking = false}), all + "<think>");
  EXPECT_EQ(render(kDeveloper), all + "</think>");
}

TEST(DeepSeekV32Chat, NothingIsDroppedUnlessTheLastMessageIsAUsers) {
  std::string messages(kDeveloper);
  messages.pop_back();
  messages += R"(, {"role": "assistant", "content": "d", "reasoning_content": "R"}])";
  EXPECT_THAT(render(messages, {.thinking = true}), HasSubstr("# The user's message is: D"));
}

TEST(DeepSeekV32Chat, WithoutAGenerationPrompt) {
  EXPECT_EQ(render(R"([{"role": "user", "content": "Hi"}])", {.add_generation_prompt = false}), "<｜User｜>Hi");
}

TEST(DeepSeekV32Chat, WhatItDoesNotKnow) {
  EXPECT_THAT(render(R"([{"role": "latest_reminder", "content": "x"}])"), HasSubstr("latest_reminder"));
  EXPECT_THAT(render(R"([{"role": "user", "content": "x", "task": "query"}])"), HasSubstr("'task'"));
  EXPECT_THAT(DeepSeekV32Chat().render({}).status().message(), HasSubstr("at least one message"));
}

TEST(DeepSeekV32Chat, ReadsItsOwnCallsBack) {
  const DeepSeekV32Chat chat;
  const auto parser = chat.make_parser(true, true);
  std::string text = std::string("R</think>") + kCallsText;
  text.resize(text.find("<｜end▁of▁sentence｜>"));
  std::vector<ChatDelta> deltas = parser->push(text);
  for (ChatDelta& delta : parser->finish(AnswerEnd::kComplete)) deltas.push_back(std::move(delta));
  using Kind = ChatDelta::Kind;
  EXPECT_THAT(deltas,
              ::testing::ElementsAre(ChatDelta{Kind::kReasoning, "R", 0}, ChatDelta{Kind::kContent, "b", 0},
                                     ChatDelta{Kind::kToolCall, "f", 0},
                                     ChatDelta{Kind::kToolCallArguments, R"({"s": "x \"y\"", "n": [1, 2.5, null]})", 0},
                                     ChatDelta{Kind::kToolCall, "g", 1}, ChatDelta{Kind::kToolCallArguments, "{}", 1}));
}

TEST(DeepSeekV32Chat, IsTakenFromAnyContainer) {
  const auto encoding = load_chat_encoding("deepseek_v32", "/nowhere");
  ASSERT_TRUE(encoding.ok()) << encoding.status().message();
  EXPECT_THAT((*encoding)->role_markers(), ::testing::ElementsAre("<｜User｜>", "<｜Assistant｜>"));
}

}  // namespace
}  // namespace sluice::deepseek_v32_chat_test
