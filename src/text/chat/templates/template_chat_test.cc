#include "text/chat/templates/template_chat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "base/storage/temp_folder_testing.h"
#include "files/json.h"

namespace sluice::template_chat_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<ChatEncoding> make(std::string_view text, const ChatParserNames& parsers = {}) {
  ChatTemplates templates;
  const Status added = add_chat_template(templates, "default", text, "test");
  EXPECT_TRUE(added.ok()) << added.message();
  templates.special_tokens["bos_token"] = "<s>";
  auto chat = TemplateChat::make(std::move(templates), parsers);
  EXPECT_TRUE(chat.ok()) << chat.status().message();
  return std::move(chat).value();
}

ChatRequest request_of(std::string_view messages, std::string_view tools = "[]") {
  ChatRequest request;
  request.messages = *parse_chat_messages(*parse_json(messages, "messages"));
  request.tools = *parse_chat_tools(*parse_json(tools, "tools"));
  return request;
}

std::string render(std::string_view text, const ChatRequest& request) {
  const Result<ChatPrompt> prompt = make(text)->render(request);
  return prompt.ok() ? prompt->text.bytes : "! " + prompt.status().message();
}

constexpr char kQuestion[] = R"([{"role": "user", "content": "x"}])";
constexpr char kTools[] = R"([{"type": "function", "function": {"name": "f"}}])";
constexpr char kCall[] = R"([{"role": "user", "content": "x"}, {"role": "assistant", "content": null,
  "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}}]}])";

TEST(TemplateChat, VariablesOfARequest) {
  ChatRequest request = request_of(kQuestion, kTools);
  EXPECT_EQ(render("{{ bos_token }}{{ eos_token }}{{ messages|tojson }}{{ tools|tojson }}{{ add_generation_prompt }}",
                   request),
            R"(<s>[{"role": "user", "content": "x"}][{"type": "function", "function": {"name": "f"}}]True)");
  request.tools.clear();
  EXPECT_EQ(render("{{ tools is none }}{{ documents is none }}{{ thinking is defined }}", request), "TrueTrueFalse");
  request.thinking = false;
  request.template_variables["style"] = "short";
  request.reasoning_effort = "high";
  EXPECT_EQ(render("{{ thinking }}{{ enable_thinking }}{{ style }}{{ reasoning_effort }}", request),
            "FalseFalseshorthigh");
  request.template_variables["bos_token"] = "<b>";
  EXPECT_EQ(render("{{ bos_token }}", request), "<b>");
}

TEST(TemplateChat, ArgumentsInTheFormThatTheTemplateTakes) {
  const ChatRequest request = request_of(kCall);
  EXPECT_EQ(render("{% for m in messages if m.tool_calls %}{{ m.tool_calls[0].function.arguments|tojson }}{% endfor %}",
                   request),
            R"({"a": 1})");
  EXPECT_EQ(render("{% for m in messages if m.tool_calls %}{{ '>' + m.tool_calls[0].function.arguments }}{% endfor %}",
                   request),
            R"(>{"a":1})");
  EXPECT_EQ(
      render("{% for m in messages if m.tool_calls %}{{ m.tool_calls[0].function.arguments }}{% endfor %}", request),
      R"({"a":1})");
}

TEST(TemplateChat, AMissingContentInTheFormThatTheTemplateTakes) {
  const ChatRequest request = request_of(kCall);
  EXPECT_EQ(render("{% for m in messages %}{{ 'content' in m }}{% endfor %}", request), "TrueFalse");
  // Left out, it fails; null is what this template asks for.
  EXPECT_EQ(
      render("{% for m in messages %}{{ 'none' if m.content is none else m.content + '.' }}{% endfor %}", request),
      "x.none");
  EXPECT_EQ(render("{% for m in messages %}{{ m.content + '.' }}{% endfor %}", request), "x..");
}

TEST(TemplateChat, PartsInTheFormThatTheTemplateTakes) {
  const ChatRequest request =
      request_of(R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])");
  EXPECT_EQ(render("{% for m in messages %}{{ m.content }}{% endfor %}", request), "a\nb");
  EXPECT_EQ(
      render("{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
             "[{{ p.text }}]{% endfor %}{% endif %}{% endfor %}",
             request),
      "[a][b]");
}

TEST(TemplateChat, ReasoningHasBothNames) {
  const ChatRequest request = request_of(R"([{"role": "assistant", "content": "x", "reasoning": "R"}])");
  EXPECT_EQ(render("{{ messages[0].reasoning_content }}{{ messages[0].thinking }}", request), "RR");
}

TEST(TemplateChat, ToolsThatTheTemplateLeavesOutAreAnError) {
  const ChatRequest request = request_of(kQuestion, kTools);
  EXPECT_THAT(render("{{ messages[0].content }}", request), HasSubstr("leaves them out"));
  EXPECT_EQ(render("{{ tools|length }}", request), "1");
  EXPECT_EQ(render("{{ messages[0].content }}", request_of(kQuestion)), "x");
}

TEST(TemplateChat, ErrorsOfTheTemplate) {
  EXPECT_THAT(render("\n{{ raise_exception('no') }}", request_of(kQuestion)), HasSubstr("test: line 2: no"));
  ChatRequest request = request_of(kQuestion);
  request.response_format = *parse_json("{}", "format");
  EXPECT_THAT(render("x", request), HasSubstr("response_format"));
  EXPECT_EQ(render("{{ response_format }}", request), "{}");
  EXPECT_THAT(render("x", request_of(R"([{"role": "user", "content": "x", "task": "query"}])")), HasSubstr("'task'"));
  EXPECT_THAT(render("x", {}), HasSubstr("at least one message"));
}

TEST(TemplateChat, ParsersFollowFromTheTemplate) {
  const auto chat = make("<tool_call> <think>");
  const auto parser = chat->make_parser(/*reasoning_open=*/true, /*has_tools=*/true);
  using Kind = ChatDelta::Kind;
  EXPECT_THAT(parser->push("R</think><tool_call>{\"name\": \"f\"}</tool_call>"),
              ElementsAre(ChatDelta{Kind::kReasoning, "R", 0}, ChatDelta{Kind::kToolCall, "f", 0},
                          ChatDelta{Kind::kToolCallArguments, "{}", 0}));
  EXPECT_EQ(make("<think>", {.reasoning = "none"})->make_parser(true, true)->push("a").front().kind, Kind::kContent);
}

TEST(TemplateChat, RoleMarkersAreThoseItWrites) {
  EXPECT_THAT(make("<|im_start|>")->role_markers(), ElementsAre("<|im_start|>"));
  EXPECT_THAT(make("<｜User｜> <｜Assistant｜>")->role_markers(), ElementsAre("<｜User｜>", "<｜Assistant｜>"));
}

class ChatTemplatesTest : public ::testing::Test {
 protected:
  void write(std::string_view name, std::string_view text) const { folder_.write(name, text); }
  std::string path(std::string_view name) const { return folder_.file(name); }
  std::string render(const ChatEncodingOptions& options = {}) const {
    const auto chat = load_chat_encoding("llama", folder_.path(), options);
    if (!chat.ok()) return "! " + chat.status().message();
    const auto prompt = (*chat)->render(request_of(kQuestion));
    return prompt.ok() ? prompt->text.bytes : "! " + prompt.status().message();
  }
  TempFolder folder_;
};

TEST_F(ChatTemplatesTest, WhereTheyAreFound) {
  EXPECT_THAT(render(), HasSubstr("no chat template"));
  write("tokenizer_config.json", R"({"eos_token": {"content": "</s>"}, "chat_template": "config {{ eos_token }}"})");
  EXPECT_EQ(render(), "config </s>");
  write("chat_template.jinja", "file {{ eos_token }}\n");
  EXPECT_EQ(render(), "file </s>");
  write("mine.jinja", "mine {{ eos_token }}");
  EXPECT_EQ(render({.template_file = path("mine.jinja")}), "mine </s>");
  const auto none = load_chat_encoding("llama", folder_.path(), {.template_file = path("none.jinja")});
  EXPECT_EQ(none.status().code(), StatusCode::kInvalidArgument);  // kNotFound: the model has none
  EXPECT_THAT(none.status().message(), AllOf(HasSubstr("--chat-template"), HasSubstr("none.jinja")));
}

TEST_F(ChatTemplatesTest, ListsOfTemplates) {
  write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "tools {{ tools|length }}"},
                                                       {"name": "default", "template": "plain"}]})");
  const auto chat = load_chat_encoding("llama", folder_.path());
  ASSERT_TRUE(chat.ok()) << chat.status().message();
  EXPECT_EQ((*chat)->render(request_of(kQuestion))->text.bytes, "plain");
  EXPECT_EQ((*chat)->render(request_of(kQuestion, kTools))->text.bytes, "tools 1");
  write("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "x"}]})");
  EXPECT_THAT(render(), HasSubstr("named 'default'"));
}

TEST_F(ChatTemplatesTest, BadOnesAreErrorsThatNameThem) {
  write("tokenizer_config.json", R"({"chat_template": "{% if %}"})");
  EXPECT_THAT(render(), HasSubstr("tokenizer_config.json: chat template: line 1: expected an expression"));
  write("tokenizer_config.json", R"({"chat_template": 5})");
  EXPECT_THAT(render(), HasSubstr("expected a text or a list of templates, found 5"));
  write("tokenizer_config.json", R"({"chat_template": [{"name": "default"}]})");
  EXPECT_THAT(render(), HasSubstr("key 'template'"));
}

TEST_F(ChatTemplatesTest, FamiliesOfTheirOwnEncodingTakeNoTemplateUnlessItIsGiven) {
  write("chat_template.jinja", "{% broken");
  EXPECT_TRUE(load_chat_encoding("deepseek_v4", folder_.path()).ok());
  EXPECT_THAT(
      load_chat_encoding("deepseek_v4", folder_.path(), {.parsers = {.tool_call = "hermes"}}).status().message(),
      HasSubstr("--tool-call-parser"));
  write("mine.jinja", "mine");
  const auto chat = load_chat_encoding("deepseek_v4", folder_.path(), {.template_file = path("mine.jinja")});
  ASSERT_TRUE(chat.ok()) << chat.status().message();
  EXPECT_EQ((*chat)->render(request_of(kQuestion))->text.bytes, "mine");
}

}  // namespace
}  // namespace sluice::template_chat_test
