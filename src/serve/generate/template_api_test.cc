// The API over models that bring a chat template: requests with tools, answers taken apart, streamed and whole.
#include <boost/json.hpp>

#include "base/test_paths_testing.h"
#include "serve/api/api_testing.h"

namespace sluice::template_api_test {
namespace {

namespace json = boost::json;

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

struct Family {
  const char* name;  // the template's name
  const char* answer;
};

class TemplateApiTest : public ApiTest {
 protected:
  void use(const std::string& name, const ChatParserNames& parsers = {}) {
    auto chat = load_chat_encoding(
        "llama", source_dir() + "/models/sluice-tiny-v4",
        {.template_file = source_dir() + "/tests/chat_templates/" + name + ".jinja", .parsers = parsers});
    ASSERT_TRUE(chat.ok()) << chat.status().message();
    server_ = nullptr;
    chat_ = std::move(chat).value();
  }
  std::string prompt() const { return tokenizer().decode(engine_.seen().back().prompt, /*skip_special=*/false); }
};

constexpr std::string_view kTools =
    R"(,"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object"}}}])";

// Each says "See." first, where its syntax lets it, and calls get_weather({"city": "Oslo"}).
constexpr Family kFamilies[] = {
    {"qwen25", "See.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>"},
    {"qwen3",
     "<think>\nHm.\n</think>\n\nSee.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n"
     "</tool_call>"},
    {"hermes", "<tool_call>\n{\"arguments\": {\"city\": \"Oslo\"}, \"name\": \"get_weather\"}\n</tool_call>"},
    {"llama3", "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Oslo\"}}"},
    {"deepseek_v3",
     "See.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{\"city\": "
     "\"Oslo\"}\n```"
     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
    {"deepseek_r1",
     "Hm.\n</think>\n\nSee.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
     "{\"city\": \"Oslo\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
};

TEST_F(TemplateApiTest, ToolCallsOfEachFamilyWholeAndStreamed) {
  for (const Family& family : kFamilies) {
    SCOPED_TRACE(family.name);
    const std::string answer = family.answer;
    const bool says_see = answer.find("See.") != std::string::npos;
    const bool thinks = answer.find("Hm.") != std::string::npos;
    use(family.name);
    say(answer);
    const json::value body = parsed(chat(kTools).body);
    EXPECT_THAT(prompt(), HasSubstr("get_weather"));
    EXPECT_EQ(text_at(body, "choices/0/finish_reason"), "tool_calls");
    EXPECT_EQ(text_at(body, "choices/0/message/content"), says_see ? "See." : "");
    EXPECT_EQ(text_at(body, "choices/0/message/reasoning_content"), thinks ? "Hm." : "");
    EXPECT_EQ(text_at(body, "choices/0/message/tool_calls/0/function/name"), "get_weather");
    EXPECT_EQ(at(parsed(text_at(body, "choices/0/message/tool_calls/0/function/arguments")), "city"), "Oslo");

    std::string name, arguments, content, reasoning, finish;
    for (const std::string& event : events_of(chat(std::string(kTools) + R"(,"stream":true)").body)) {
      if (event == "[DONE]") continue;
      const json::value chunk = parsed(event);
      content += text_at(chunk, "choices/0/delta/content");
      reasoning += text_at(chunk, "choices/0/delta/reasoning_content");
      name += text_at(chunk, "choices/0/delta/tool_calls/0/function/name");
      arguments += text_at(chunk, "choices/0/delta/tool_calls/0/function/arguments");
      finish += text_at(chunk, "choices/0/finish_reason");
    }
    EXPECT_EQ(content, says_see ? "See." : "");
    EXPECT_EQ(reasoning, thinks ? "Hm." : "");
    EXPECT_EQ(name, "get_weather");
    EXPECT_EQ(arguments, R"({"city": "Oslo"})");
    EXPECT_EQ(finish, "tool_calls");
  }
}

TEST_F(TemplateApiTest, TheAnswerOfACallGoesIntoTheNextPrompt) {
  use("qwen25");
  say("Cold.");
  const std::string messages =
      R"({"messages":[{"role":"user","content":"Oslo?"},{"role":"assistant","content":null,"tool_calls":[{"id":"c",)"
      R"("type":"function","function":{"name":"get_weather","arguments":"{\"city\": \"Oslo\"}"}}]},)"
      R"({"role":"tool","tool_call_id":"c","content":"-5 C"}])";
  const TestAnswer answer = post("/v1/chat/completions", messages + std::string(kTools) + "}");
  EXPECT_EQ(text_at(parsed(answer.body), "choices/0/message/content"), "Cold.");
  EXPECT_THAT(prompt(), HasSubstr("<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}"));
  EXPECT_THAT(prompt(), HasSubstr("<tool_response>\n-5 C\n</tool_response>"));
}

TEST_F(TemplateApiTest, ToolsThatTheTemplateLeavesOutAreRefused) {
  use("deepseek_v31");
  say("Yes.");
  expect_error(chat(kTools), 400, "tools", "--chat-template");
  EXPECT_EQ(chat().status, 200);
  EXPECT_EQ(chat(std::string(kTools) + R"(,"tool_choice":"none")").status, 200);
}

TEST_F(TemplateApiTest, WithoutToolsNothingIsACall) {
  use("qwen25");
  say(kFamilies[0].answer);
  const json::value body = parsed(chat().body);
  EXPECT_EQ(text_at(body, "choices/0/message/content"), kFamilies[0].answer);
  EXPECT_EQ(text_at(body, "choices/0/finish_reason"), "stop");
}

TEST_F(TemplateApiTest, ThinkingByBothNamesAndVariablesByTheirOwn) {
  use("qwen3");
  say("Yes.");
  for (const char* name : {"thinking", "enable_thinking"}) {
    chat(fmt::format(R"(,"chat_template_kwargs":{{"{}":false}})", name));
    EXPECT_THAT(prompt(), EndsWith("<think>\n\n</think>\n\n"));
    chat(fmt::format(R"(,"chat_template_kwargs":{{"{}":true}})", name));
    EXPECT_THAT(prompt(), Not(HasSubstr("<think>")));
  }
  use("deepseek_v31");
  chat(R"(,"chat_template_kwargs":{"enable_thinking":true})");
  EXPECT_THAT(prompt(), EndsWith("<think>"));
  use("llama3");
  chat(R"(,"chat_template_kwargs":{"date_string":"1 May 2025"})");
  EXPECT_THAT(prompt(), HasSubstr("Today is 1 May 2025."));
}

TEST_F(TemplateApiTest, AnOpenThoughtInThePromptStartsTheAnswerInside) {
  use("deepseek_r1");
  say("Two and two.\n</think>\n\nFour.");
  const json::value body = parsed(chat().body);
  EXPECT_THAT(prompt(), EndsWith("<think>\n"));
  EXPECT_EQ(text_at(body, "choices/0/message/reasoning_content"), "Two and two.");
  EXPECT_EQ(text_at(body, "choices/0/message/content"), "Four.");
}

// A parser that knows no reasoning reads a call in what the prompt has opened, so there it is bound to what is on
// offer.
TEST_F(TemplateApiTest, WhatIsNotReadAsReasoningIsBound) {
  const std::string begun = "Hm.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>";
  for (const bool reads : {true, false}) {
    use("deepseek_r1", {.reasoning = reads ? "think" : "none"});
    say("Hm.");
    chat(kTools);
    const auto constraint = engine_.seen().back().constraint->copy();
    for (const std::int32_t id : ids_of(begun)) ASSERT_TRUE(constraint->accept(id));
    EXPECT_EQ(constraint->accept(ids_of("x").front()), reads) << "no tool is called so";
  }
}

// The template writes BOS; nothing is added to it. A raw prompt gets what the tokenizer adds.
TEST_F(TemplateApiTest, ARenderedChatIsEncodedAsItIs) {
  use("deepseek_v3");
  say("Yes.");
  chat();
  EXPECT_EQ(engine_.seen().back().prompt, ids_of("<｜begin▁of▁sentence｜><｜User｜>Hi<｜Assistant｜>"));
  complete();
  EXPECT_EQ(engine_.seen().back().prompt,
            tokenizer().encode("Once upon", {.add_special_tokens = true, .parse_special = true}).value());
}

TEST_F(TemplateApiTest, WhatTheTemplateRaisesIsTheClientsError) {
  use("llama3");
  const std::string call = R"({"id":"c","type":"function","function":{"name":"f","arguments":"{}"}})";
  const TestAnswer answer = post(
      "/v1/chat/completions",
      fmt::format(
          R"({{"messages":[{{"role":"user","content":"x"}},{{"role":"assistant","content":"","tool_calls":[{0},{0}]}}]}})",
          call));
  expect_error(answer, 400, "messages", "only one call in a turn, not 2");
}

}  // namespace
}  // namespace sluice::template_api_test
