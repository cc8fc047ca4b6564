// Where no tool is on offer nothing is delivered as a call, in any syntax; where the model knows of tools and may not
// call, it cannot begin to.
#include <boost/json.hpp>

#include "base/test_paths_testing.h"
#include "serve/api/api_testing.h"

namespace sluice::no_calls_test {
namespace {

namespace json = boost::json;

using ::testing::ElementsAre;
using ::testing::IsNull;
using ::testing::NotNull;

struct Syntax {
  const char* encoding;  // a family of its own, or a template
  const char* call;
  const char* thinks;  // the fields that make it think; null: it never does
  const char* thought = "Hm.</think>";
};

constexpr std::string_view kTools =
    R"(,"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object"}}}])";
constexpr const char* kThinking = R"(,"thinking":{"type":"enabled"})";

constexpr Syntax kSyntaxes[] = {
    {"deepseek_v4",
     "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" "
     "string=\"true\">Oslo</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
     kThinking},
    {"deepseek_v32",
     "See.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n</｜DSML｜invoke>\n"
     "</｜DSML｜function_calls>",
     kThinking},
    {"deepseek_v3",
     "See.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{}\n"
     "```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     nullptr},
    {"deepseek_r1",
     "See.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{}\n"
     "```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     ""},
    {"deepseek_v31",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     kThinking},
    {"qwen3", "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {}}\n</tool_call>", "", "<think>Hm.</think>"},
    {"llama3", "{\"name\": \"get_weather\", \"parameters\": {}}", nullptr},
    {"llama3", "See.<|python_tag|>{\"name\": \"get_weather\", \"parameters\": {}}", nullptr},
};

class NoCallsTest : public ApiTest {
 protected:
  void use(const std::string& name) {
    const bool is_own = name == "deepseek_v4" || name == "deepseek_v32";
    ChatEncodingOptions options;
    if (!is_own) options.template_file = source_dir() + "/tests/chat_templates/" + name + ".jinja";
    auto chat = load_chat_encoding(is_own ? name : "llama", source_dir() + "/models/sluice-tiny-v4", options);
    ASSERT_TRUE(chat.ok()) << chat.status().message();
    server_ = nullptr;
    chat_ = std::move(chat).value();
  }
  std::vector<std::vector<std::int32_t>> banned() {
    const auto rules = engine_.seen().back().rules;
    return rules == nullptr ? std::vector<std::vector<std::int32_t>>() : rules->bad_words;
  }
};

TEST_F(NoCallsTest, WholeAndStreamedThinkingAndNot) {
  for (const Syntax& syntax : kSyntaxes) {
    use(syntax.encoding);
    for (const std::string& tools : {std::string(), std::string(kTools) + R"(,"tool_choice":"none")"}) {
      for (const bool thinks : {false, true}) {
        if (thinks && syntax.thinks == nullptr) continue;
        SCOPED_TRACE(fmt::format("{}, tools: '{}', thinking: {}", syntax.encoding, tools, thinks));
        if (!thinks && std::string_view(syntax.encoding) == "deepseek_r1") continue;  // it always does
        say((thinks ? syntax.thought : "") + std::string(syntax.call));
        const std::string fields = tools + (thinks ? syntax.thinks : "");
        const json::value body = parsed(chat(fields).body);
        EXPECT_TRUE(at(body, "choices/0/message/tool_calls").is_null());
        EXPECT_EQ(text_at(body, "choices/0/message/content"), syntax.call);
        EXPECT_EQ(text_at(body, "choices/0/message/reasoning_content"), thinks ? "Hm." : "");
        EXPECT_EQ(text_at(body, "choices/0/finish_reason"), "stop");

        std::string content, finish;
        for (const std::string& event : events_of(chat(fields + R"(,"stream":true)").body)) {
          if (event == "[DONE]") continue;
          const json::value chunk = parsed(event);
          EXPECT_TRUE(at(chunk, "choices/0/delta/tool_calls").is_null());
          content += text_at(chunk, "choices/0/delta/content");
          finish += text_at(chunk, "choices/0/finish_reason");
        }
        EXPECT_EQ(content, syntax.call);
        EXPECT_EQ(finish, "stop");
      }
    }
  }
}

// A chat without tools is drawn as it always was, drafts included.
TEST_F(NoCallsTest, TheFirstTokenOfACallIsBannedWhereTheModelKnowsOfTools) {
  const std::vector<std::int32_t> marker = {*tokenizer().token_to_id("｜DSML｜")};
  say("Cold.");
  chat();
  EXPECT_THAT(engine_.seen().back().rules, IsNull());
  chat(kTools);
  EXPECT_THAT(engine_.seen().back().rules, IsNull());
  chat(R"(,"tool_choice":"none")");
  EXPECT_THAT(engine_.seen().back().rules, IsNull());
  chat(std::string(kTools) + R"(,"tool_choice":"none")");
  EXPECT_THAT(banned(), ElementsAre(marker));
  chat(std::string(kTools) + R"(,"tool_choice":"none","bad_words":["x"],"min_tokens":3)");
  EXPECT_THAT(banned(), ::testing::Contains(marker));
  EXPECT_EQ(engine_.seen().back().rules->min_tokens, 3);

  const std::string after_a_call =
      R"({"messages":[{"role":"user","content":"Oslo?"},{"role":"assistant","content":null,"tool_calls":[{"id":"c",)"
      R"("type":"function","function":{"name":"get_weather","arguments":"{}"}}]},)"
      R"({"role":"tool","tool_call_id":"c","content":"-5 C"}])";
  ASSERT_EQ(post("/v1/chat/completions", after_a_call + "}").status, 200);
  EXPECT_THAT(banned(), ElementsAre(marker));
  ASSERT_EQ(post("/v1/chat/completions", after_a_call + std::string(kTools) + "}").status, 200);
  EXPECT_THAT(engine_.seen().back().rules, IsNull());
}

// DeepSeek's own place for tools, a system message, offers them as the request does.
TEST_F(NoCallsTest, ToolsOfAMessageAreOnOfferUnlessNoneIsChosen) {
  say(kSyntaxes[0].call);
  const std::string body =
      fmt::format(R"({{"messages":[{{"role":"system","content":"S"{}}},{{"role":"user","content":"Hi"}}])", kTools);
  const json::value called = parsed(post("/v1/chat/completions", body + "}").body);
  EXPECT_EQ(text_at(called, "choices/0/message/tool_calls/0/function/name"), "get_weather");
  EXPECT_THAT(engine_.seen().back().constraint, NotNull());
  const json::value none = parsed(post("/v1/chat/completions", body + R"(,"tool_choice":"none"})").body);
  EXPECT_TRUE(at(none, "choices/0/message/tool_calls").is_null());
  EXPECT_EQ(text_at(none, "choices/0/message/content"), kSyntaxes[0].call);
  EXPECT_THAT(engine_.seen().back().constraint, IsNull());
  EXPECT_EQ(banned().size(), 1U);
}

}  // namespace
}  // namespace sluice::no_calls_test
