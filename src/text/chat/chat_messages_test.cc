#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "files/json.h"
#include "text/chat/chat.h"

namespace sluice::chat_messages_test {
namespace {

using ::testing::HasSubstr;

Result<std::vector<ChatMessage>> parse(std::string_view text) {
  const auto value = parse_json(text, "messages");
  if (!value.ok()) return value.status();
  return parse_chat_messages(*value);
}

std::string error_of(std::string_view text) {
  const auto messages = parse(text);
  EXPECT_FALSE(messages.ok()) << text;
  if (messages.ok()) return "";
  EXPECT_EQ(messages.status().code(), StatusCode::kInvalidArgument);
  return messages.status().message();
}

TEST(ChatMessages, EveryRole) {
  const auto messages = parse(R"([{"role": "system", "content": "a"}, {"role": "developer", "content": "b"},
    {"role": "user", "content": "c", "name": "Ann"}, {"role": "assistant", "content": "d"},
    {"role": "tool", "tool_call_id": "x", "content": "e"}, {"role": "latest_reminder", "content": "f"}])");
  ASSERT_TRUE(messages.ok()) << messages.status().message();
  const std::vector<ChatRole> roles = {ChatRole::kSystem,    ChatRole::kDeveloper, ChatRole::kUser,
                                       ChatRole::kAssistant, ChatRole::kTool,      ChatRole::kLatestReminder};
  ASSERT_EQ(messages->size(), roles.size());
  for (std::size_t i = 0; i < roles.size(); ++i) {
    EXPECT_EQ((*messages)[i].role, roles[i]);
    EXPECT_EQ(join_content((*messages)[i].content, ""), std::string(1, static_cast<char>('a' + i)));
  }
  EXPECT_EQ((*messages)[2].name, "Ann");
  EXPECT_EQ((*messages)[4].tool_call_id, "x");
}

TEST(ChatMessages, AssistantWithCalls) {
  const auto messages = parse(R"([{"role": "assistant", "content": null, "reasoning_content": "r", "refusal": "no",
    "tool_calls": [{"id": "c1", "type": "function", "index": 0, "function": {"name": "f", "arguments": "{\"a\": 1}"}},
                   {"function": {"name": "g", "arguments": {"b": [1, "é"]}}}]}])");
  ASSERT_TRUE(messages.ok()) << messages.status().message();
  const ChatMessage& message = messages->front();
  EXPECT_TRUE(message.content.empty());
  EXPECT_EQ(message.reasoning_content, "r");
  ASSERT_EQ(message.tool_calls.size(), 2u);
  EXPECT_EQ(message.tool_calls[0].id, "c1");
  EXPECT_EQ(message.tool_calls[0].name, "f");
  EXPECT_EQ(message.tool_calls[0].arguments, R"({"a": 1})");
  EXPECT_EQ(message.tool_calls[1].arguments, R"({"b": [1, "é"]})");
}

TEST(ChatMessages, ReasoningIsAnotherNameForReasoningContent) {
  EXPECT_EQ(parse(R"([{"role": "assistant", "reasoning": "r"}])")->front().reasoning_content, "r");
  EXPECT_EQ(parse(R"([{"role": "assistant", "reasoning": "r", "reasoning_content": "s"}])")->front().reasoning_content,
            "s");
}

TEST(ChatMessages, NullIsAbsent) {
  const auto messages = parse(R"([{"role": "assistant", "content": "x", "function_call": null, "audio": null,
    "tool_calls": null, "name": null, "reasoning_content": null, "task": null}])");
  EXPECT_TRUE(messages.ok()) << messages.status().message();
}

TEST(ChatMessages, ContentParts) {
  const auto messages = parse(R"([{"role": "user", "content": [{"type": "text", "text": "a"},
    {"type": "text", "text": "b"}]}, {"role": "tool", "content": [{"type": "image_url", "image_url": {"url": "u"}}]}])");
  ASSERT_TRUE(messages.ok()) << messages.status().message();
  EXPECT_EQ(join_content((*messages)[0].content, "|"), "a|b");
  EXPECT_EQ(join_content((*messages)[1].content, "|"), "[Unsupported image_url]");
}

TEST(ChatMessages, ErrorsNameMessageKeyAndFinding) {
  EXPECT_EQ(error_of(R"([{"role": "user", "content": "x"}, {"role": "robot", "content": "x"}])"),
            "messages[1]: key 'role': expected one of system, developer, user, assistant, tool, latest_reminder, "
            "found \"robot\"");
  EXPECT_EQ(error_of(R"([{"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "image_url"}]}])"),
            "messages[0]: content[1]: expected a part of type \"text\", found \"image_url\"; this model reads text "
            "only");
  EXPECT_EQ(error_of(R"([{"role": "user", "content": "x", "colour": {"type": "x"}}])"),
            "messages[0]: unknown key 'colour'; remove it");
  EXPECT_EQ(error_of(R"([{"role": "user", "content": [{"type": "text", "text": "x", "colour": 1}]}])"),
            "messages[0]: content[0]: unknown key 'colour'; remove it");
  EXPECT_EQ(error_of(R"([{"role": "user", "content": "x", "audio": {"id": "x"}}])"),
            "messages[0]: key 'audio': not supported; remove it");
}

TEST(ChatMessages, RefusesWhatIsNoConversation) {
  EXPECT_THAT(error_of("[]"), HasSubstr("at least one message"));
  EXPECT_THAT(error_of("{}"), HasSubstr("messages: expected an array"));
  EXPECT_THAT(error_of("[1]"), HasSubstr("messages[0]"));
  EXPECT_THAT(error_of(R"([{"content": "x"}])"), HasSubstr("'role'"));
  EXPECT_THAT(error_of(R"([{"role": 3, "content": "x"}])"), HasSubstr("found 3"));
}

TEST(ChatMessages, RefusesMissingOrWrongContent) {
  for (const char* role : {"system", "developer", "user", "tool", "latest_reminder", "assistant"}) {
    EXPECT_THAT(error_of("[{\"role\": \"" + std::string(role) + "\"}]"), HasSubstr("'content'")) << role;
  }
  EXPECT_THAT(error_of(R"([{"role": "user", "content": null}])"), HasSubstr("found null"));
  EXPECT_THAT(error_of(R"([{"role": "user", "content": 5}])"), HasSubstr("found 5"));
  EXPECT_THAT(error_of(R"([{"role": "user", "content": ["x"]}])"), HasSubstr("content[0]"));
  EXPECT_THAT(error_of(R"([{"role": "user", "content": [{"text": "x"}]}])"), HasSubstr("'type'"));
  EXPECT_THAT(error_of(R"([{"role": "user", "content": [{"type": "text"}]}])"), HasSubstr("'text'"));
}

TEST(ChatMessages, RefusesWrongTypes) {
  EXPECT_THAT(error_of(R"([{"role": "user", "content": "x", "name": 1}])"), HasSubstr("'name'"));
  EXPECT_THAT(error_of(R"([{"role": "user", "content": "x", "task": []}])"), HasSubstr("'task'"));
  EXPECT_THAT(error_of(R"([{"role": "assistant", "content": "x", "wo_eos": "yes"}])"), HasSubstr("'wo_eos'"));
  EXPECT_THAT(error_of(R"([{"role": "tool", "content": "x", "tool_call_id": 7}])"), HasSubstr("'tool_call_id'"));
  EXPECT_THAT(error_of(R"([{"role": "user", "content": "x", "tools": []}])"), HasSubstr("system and developer"));
  EXPECT_THAT(error_of(R"([{"role": "system", "content": "x", "response_format": "json"}])"),
              HasSubstr("'response_format'"));
}

std::string tool_call_error(const std::string& calls) {
  return error_of(R"([{"role": "assistant", "content": "", "tool_calls": )" + calls + "}]");
}

TEST(ChatMessages, RefusesBadToolCalls) {
  EXPECT_THAT(tool_call_error("{}"), HasSubstr("'tool_calls'"));
  EXPECT_THAT(tool_call_error("[1]"), HasSubstr("tool_calls[0]"));
  EXPECT_THAT(tool_call_error(R"([{"type": "custom", "function": {"name": "f", "arguments": ""}}])"),
              HasSubstr("'type'"));
  EXPECT_THAT(tool_call_error(R"([{"id": "x"}])"), HasSubstr("'name'"));
  EXPECT_THAT(tool_call_error(R"([{"function": {"name": "", "arguments": "{}"}}])"), HasSubstr("'name'"));
  EXPECT_THAT(error_of(R"([{"role": "user", "content": "", "tool_calls": [{}]}])"), HasSubstr("assistant"));
}

// A model wrote them, and clients send them back for ever: no arguments of an earlier call may end the conversation.
TEST(ChatMessages, ArgumentsOfEarlierCallsAlwaysPass) {
  const std::pair<const char*, const char*> forms[] = {
      {R"({"name": "f"})", "{}"},
      {R"({"name": "f", "arguments": null})", "{}"},
      {R"({"name": "f", "arguments": "null"})", "{}"},
      {R"({"name": "f", "arguments": " null "})", "{}"},
      {R"({"name": "f", "arguments": "[]"})", "[]"},
      {R"({"name": "f", "arguments": "5"})", "5"},
      {R"({"name": "f", "arguments": 5})", "5"},
      {R"({"name": "f", "arguments": [1]})", "[1]"},
      {R"({"name": "f", "arguments": "{\"a\": "})", "{\"a\": "},
      {R"({"name": "f", "arguments": {"a": 1}})", "{\"a\": 1}"},
      {R"({"name": "f", "arguments": ""})", ""},
  };
  for (const auto& [function, expected] : forms) {
    const auto parsed =
        parse(std::string(R"([{"role": "assistant", "tool_calls": [{"id": "1", "function": )") + function + "}]}]");
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    EXPECT_EQ(parsed->at(0).tool_calls.at(0).arguments, expected) << function;
  }
}

TEST(ChatTools, FunctionObjectsUnchanged) {
  const auto value = parse_json(R"([{"type": "function", "function": {"name": "f", "z": 1, "a": [2.0]}}])", "tools");
  const auto tools = parse_chat_tools(*value);
  ASSERT_TRUE(tools.ok()) << tools.status().message();
  ASSERT_EQ(tools->size(), 1u);
  EXPECT_EQ(dump_json_python(tools->front()), R"({"name": "f", "z": 1, "a": [2.0]})");
}

TEST(ChatTools, Errors) {
  const auto error = [](std::string_view text) {
    const auto tools = parse_chat_tools(*parse_json(text, "tools"));
    EXPECT_FALSE(tools.ok()) << text;
    return tools.ok() ? std::string() : tools.status().message();
  };
  EXPECT_THAT(error("5"), HasSubstr("tools: expected an array of tools, found 5"));
  EXPECT_THAT(error("[null]"), HasSubstr("tools[0]"));
  EXPECT_THAT(error(R"([{"type": "web_search"}])"), HasSubstr("'type'"));
  EXPECT_THAT(error(R"([{"type": "function"}])"), HasSubstr("'name'"));
  EXPECT_THAT(error(R"([{"type": "function", "function": {"name": ""}}])"), HasSubstr("'name'"));
}

TEST(ChatEncodings, UnknownFamilyIsNotFound) {
  const auto encoding = load_chat_encoding("gpt2", "/nowhere");
  ASSERT_FALSE(encoding.ok());
  EXPECT_EQ(encoding.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(encoding.status().message(), HasSubstr("no chat template"));
}

}  // namespace
}  // namespace sluice::chat_messages_test
