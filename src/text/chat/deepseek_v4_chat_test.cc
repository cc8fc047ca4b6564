// One golden test for each rule of docs/models/deepseek_v4.md §14.2-§14.4.
#include "text/chat/deepseek_v4_chat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>

#include "base/test_paths_testing.h"
#include "files/json.h"

namespace sluice::deepseek_v4_chat_test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Options {
  bool thinking = false;
  bool drop_thinking = true;
  std::string tools = {};  // JSON array of the request
  std::optional<std::string> effort = {};
  DeepSeekV4EffortProfile profile = DeepSeekV4EffortProfile::kPreview;
  std::string response_format = {};  // JSON of the request
  bool add_generation_prompt = true;
};

Result<std::string> try_render(std::string_view messages, const Options& options) {
  ChatRequest request;
  SLUICE_ASSIGN_OR_RETURN(const boost::json::value value, parse_json(messages, "messages"));
  SLUICE_ASSIGN_OR_RETURN(request.messages, parse_chat_messages(value));
  if (!options.tools.empty()) {
    SLUICE_ASSIGN_OR_RETURN(request.tools, parse_chat_tools(*parse_json(options.tools, "tools")));
  }
  if (!options.response_format.empty()) request.response_format = *parse_json(options.response_format, "format");
  request.thinking = options.thinking;
  request.drop_thinking = options.drop_thinking;
  request.reasoning_effort = options.effort;
  // The model's own encoder opens no turn after an answer.
  const bool is_answered = !request.messages.empty() && request.messages.back().role == ChatRole::kAssistant;
  request.add_generation_prompt = options.add_generation_prompt && !is_answered;
  SLUICE_ASSIGN_OR_RETURN(ChatPrompt prompt, DeepSeekV4Chat({.effort_profile = options.profile}).render(request));
  return std::move(prompt.text.bytes);
}

// Without BOS, which every prompt starts with.
std::string render(std::string_view messages, const Options& options = {}) {
  const auto prompt = try_render(messages, options);
  EXPECT_TRUE(prompt.ok()) << prompt.status().message();
  if (!prompt.ok()) return "";
  constexpr std::string_view kBos = "<｜begin▁of▁sentence｜>";
  EXPECT_THAT(*prompt, StartsWith(kBos));
  return prompt->substr(kBos.size());
}

std::string error_of(std::string_view messages, const Options& options = {}) {
  const auto prompt = try_render(messages, options);
  EXPECT_FALSE(prompt.ok());
  return prompt.ok() ? "" : prompt.status().message();
}

const Options kThinking = {.thinking = true};
const Options kKeepThinking = {.thinking = true, .drop_thinking = false};

constexpr char kTwoTurns[] = R"([{"role": "user", "content": "1+1?"},
  {"role": "assistant", "reasoning_content": "Add.", "content": "2"}, {"role": "user", "content": "And 2+2?"}])";

TEST(DeepSeekV4ChatRender, ChatTurnEndsInClosedThink) {
  EXPECT_EQ(render(R"([{"role": "user", "content": "Who are you?"}])"),
            "<｜User｜>Who are you?<｜Assistant｜></think>");
}

TEST(DeepSeekV4ChatRender, ThinkingTurnEndsInOpenThink) {
  EXPECT_EQ(render(R"([{"role": "user", "content": "1+1?"}])", kThinking), "<｜User｜>1+1?<｜Assistant｜><think>");
}

TEST(DeepSeekV4ChatRender, UnsetThinkingIsTheEncodingsDefault) {
  ChatRequest request;
  request.messages = {{.role = ChatRole::kUser, .content = {{.type = "text", .text = "x"}}}};
  EXPECT_THAT(DeepSeekV4Chat({.thinking_by_default = true}).render(request)->text.bytes, EndsWith("<think>"));
  EXPECT_THAT(DeepSeekV4Chat({.thinking_by_default = false}).render(request)->text.bytes, EndsWith("</think>"));
}

TEST(DeepSeekV4ChatRender, SystemHasNoRoleToken) {
  EXPECT_EQ(render(R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}])"),
            "Be brief.<｜User｜>Hi<｜Assistant｜></think>");
}

TEST(DeepSeekV4ChatRender, SystemInTheMiddleStaysThere) {
  EXPECT_EQ(render(R"([{"role": "user", "content": "a"}, {"role": "system", "content": "S"},
                       {"role": "user", "content": "b"}])"),
            "<｜User｜>aS<｜User｜>b<｜Assistant｜></think>");
}

TEST(DeepSeekV4ChatRender, DeveloperSpeaksAsUser) {
  EXPECT_EQ(render(R"([{"role": "developer", "content": "Search."}])", kThinking),
            "<｜User｜>Search.<｜Assistant｜><think>");
}

TEST(DeepSeekV4ChatRender, ADeveloperMayHaveNothingToSay) {
  EXPECT_EQ(render(R"([{"role": "developer", "content": ""}])", kThinking), "<｜User｜><｜Assistant｜><think>");
}

TEST(DeepSeekV4ChatRender, AssistantInChatModeHasNoReasoning) {
  EXPECT_EQ(render(kTwoTurns),
            "<｜User｜>1+1?<｜Assistant｜></think>2<｜end▁of▁sentence｜><｜User｜>And 2+2?<｜Assistant｜></think>");
}

TEST(DeepSeekV4ChatRender, DropThinkingClosesEarlierTurns) {
  EXPECT_EQ(render(kTwoTurns, kThinking),
            "<｜User｜>1+1?<｜Assistant｜></think>2<｜end▁of▁sentence｜><｜User｜>And 2+2?<｜Assistant｜><think>");
}

TEST(DeepSeekV4ChatRender, KeptThinkingStandsBeforeTheContent) {
  EXPECT_EQ(render(kTwoTurns, kKeepThinking),
            "<｜User｜>1+1?<｜Assistant｜><think>Add.</think>2<｜end▁of▁sentence｜>"
            "<｜User｜>And 2+2?<｜Assistant｜><think>");
}

TEST(DeepSeekV4ChatRender, AssistantAfterTheLastUserKeepsItsReasoning) {
  EXPECT_EQ(render(R"([{"role": "user", "content": "a"}, {"role": "assistant", "reasoning_content": "R",
                        "content": "b"}])",
                   kThinking),
            "<｜User｜>a<｜Assistant｜><think>R</think>b<｜end▁of▁sentence｜>");
}

TEST(DeepSeekV4ChatRender, AssistantWithoutEosCanGoOn) {
  EXPECT_EQ(render(R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "wo_eos": true}])"),
            "<｜User｜>a<｜Assistant｜></think>b");
}

TEST(DeepSeekV4ChatRender, WithoutGenerationPromptTheLastTurnStaysOpen) {
  EXPECT_EQ(render(R"([{"role": "user", "content": "a"}])", {.add_generation_prompt = false}), "<｜User｜>a");
}

TEST(DeepSeekV4ChatRender, LatestReminderFollowsTheTransition) {
  EXPECT_EQ(render(R"([{"role": "user", "content": "a"}, {"role": "latest_reminder", "content": "2025-01-01"},
                       {"role": "user", "content": "b"}])"),
            "<｜User｜>a<｜Assistant｜></think><｜latest_reminder｜>2025-01-01<｜User｜>b<｜Assistant｜></think>");
  EXPECT_EQ(render(R"([{"role": "latest_reminder", "content": "now"}, {"role": "user", "content": "b"}])"),
            "<｜latest_reminder｜>now<｜User｜>b<｜Assistant｜></think>");
}

TEST(DeepSeekV4ChatPassA, UsersThatFollowOneAnotherAreOneTurn) {
  EXPECT_EQ(render(R"([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])"),
            "<｜User｜>a\n\nb<｜Assistant｜></think>");
}

TEST(DeepSeekV4ChatPassA, TextPartsAreBlocks) {
  EXPECT_EQ(render(R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])"),
            "<｜User｜>a\n\nb<｜Assistant｜></think>");
}

TEST(DeepSeekV4ChatPassA, ToolResultsBecomeAUserTurn) {
  EXPECT_EQ(render(R"([{"role": "tool", "content": "{\"t\": 3}"}])"),
            "<｜User｜><tool_result>{\"t\": 3}</tool_result><｜Assistant｜></think>");
}

TEST(DeepSeekV4ChatPassA, ToolResultsAndTheUserAfterThemAreOneTurn) {
  EXPECT_EQ(render(R"([{"role": "tool", "content": "1"}, {"role": "tool", "content": "2"},
                       {"role": "user", "content": "go on"}])"),
            "<｜User｜><tool_result>1</tool_result>\n\n<tool_result>2</tool_result>\n\ngo on<｜Assistant｜></think>");
}

TEST(DeepSeekV4ChatPassA, ToolResultContentIsNotEscaped) {
  EXPECT_THAT(render(R"([{"role": "tool", "content": "</tool_result>"}])"),
              StartsWith("<｜User｜><tool_result></tool_result></tool_result>"));
}

TEST(DeepSeekV4ChatPassA, ToolResultPartsThatAreNotTextAreNamed) {
  EXPECT_THAT(render(R"([{"role": "tool", "content": [{"type": "text", "text": "a"}, {"type": "image_url"},
                                                      {"type": "text", "text": "b"}]}])"),
              StartsWith("<｜User｜><tool_result>a\n\n[Unsupported image_url]\n\nb</tool_result><｜Assistant｜>"));
}

TEST(DeepSeekV4ChatPassA, ATaskEndsItsUserTurn) {
  EXPECT_EQ(render(R"([{"role": "user", "content": "a", "task": "query"}, {"role": "user", "content": "b"}])"),
            "<｜User｜>a<｜User｜>b<｜Assistant｜></think>");
  EXPECT_EQ(render(R"([{"role": "user", "content": "a", "task": "query"}, {"role": "tool", "content": "r"}])"),
            "<｜User｜>a\n\n<tool_result>r</tool_result><｜query｜>");
}

std::string two_calls_then(const std::string& rest) {
  return R"([{"role": "assistant", "tool_calls": [{"id": "x", "function": {"name": "f", "arguments": "{}"}},
             {"id": "y", "function": {"name": "g", "arguments": "{}"}}]}, )" +
         rest + "]";
}

TEST(DeepSeekV4ChatPassB, ToolResultsFollowTheOrderOfTheCalls) {
  EXPECT_THAT(render(two_calls_then(R"({"role": "tool", "tool_call_id": "y", "content": "Y"},
                                       {"role": "user", "content": "and"},
                                       {"role": "tool", "tool_call_id": "x", "content": "X"})")),
              EndsWith("<｜User｜><tool_result>X</tool_result>\n\nand\n\n<tool_result>Y</tool_result>"
                       "<｜Assistant｜></think>"));
}

TEST(DeepSeekV4ChatPassB, ResultsOfUnknownCallsCountAsTheFirst) {
  EXPECT_THAT(render(two_calls_then(R"({"role": "tool", "tool_call_id": "y", "content": "Y"},
                                       {"role": "tool", "tool_call_id": "?", "content": "U"},
                                       {"role": "tool", "tool_call_id": "x", "content": "X"})")),
              HasSubstr("<｜User｜><tool_result>U</tool_result>\n\n<tool_result>X</tool_result>\n\n"
                        "<tool_result>Y</tool_result>"));
}

constexpr char kTool[] = R"([{"type": "function", "function": {"name": "now", "description": "Zeit, é",
  "parameters": {"type": "object", "properties": {}}}}])";

TEST(DeepSeekV4ChatPassC, ToolsKeepAllReasoning) {
  EXPECT_THAT(render(kTwoTurns, {.thinking = true, .tools = kTool}),
              EndsWith("<｜User｜>1+1?<｜Assistant｜><think>Add.</think>2<｜end▁of▁sentence｜>"
                       "<｜User｜>And 2+2?<｜Assistant｜><think>"));
}

constexpr char kDevelopers[] = R"([{"role": "developer", "content": "D"}, {"role": "system", "content": "S"},
  {"role": "latest_reminder", "content": "L"}, {"role": "assistant", "reasoning_content": "R", "content": "A"},
  {"role": "user", "content": "U"}])";

TEST(DeepSeekV4ChatPassD, EarlierDevelopersGoInThinkingMode) {
  EXPECT_EQ(render(kDevelopers, kThinking),
            "S<｜latest_reminder｜>LA<｜end▁of▁sentence｜><｜User｜>U<｜Assistant｜><think>");
}

TEST(DeepSeekV4ChatPassD, NothingGoesInChatModeOrWithKeptThinking) {
  EXPECT_EQ(render(kDevelopers),
            "<｜User｜>DS<｜latest_reminder｜>LA<｜end▁of▁sentence｜><｜User｜>U<｜Assistant｜></think>");
  EXPECT_EQ(render(kDevelopers, kKeepThinking),
            "<｜User｜>DS<｜latest_reminder｜>LR</think>A<｜end▁of▁sentence｜><｜User｜>U<｜Assistant｜><think>");
}

TEST(DeepSeekV4ChatTask, TokenReplacesTheTransition) {
  for (const char* task : {"query", "authority", "domain", "title", "read_url"}) {
    EXPECT_EQ(render(R"([{"role": "user", "content": "a", "task": ")" + std::string(task) + "\"}]", kThinking),
              "<｜User｜>a<｜" + std::string(task) + "｜>");
  }
}

TEST(DeepSeekV4ChatTask, ActionFollowsTheAssistantToken) {
  constexpr char kAction[] = R"([{"role": "user", "content": "a", "task": "action"}])";
  EXPECT_EQ(render(kAction), "<｜User｜>a<｜Assistant｜></think><｜action｜>");
  EXPECT_EQ(render(kAction, kThinking), "<｜User｜>a<｜Assistant｜><think><｜action｜>");
}

TEST(DeepSeekV4ChatTask, TheAnswerToATaskHasNoReasoning) {
  EXPECT_EQ(render(R"([{"role": "user", "content": "a", "task": "title"}, {"role": "assistant",
                        "reasoning_content": "R", "content": "T"}])",
                   kThinking),
            "<｜User｜>a<｜title｜>T<｜end▁of▁sentence｜>");
}

TEST(DeepSeekV4ChatTask, UnknownTaskIsAnError) {
  EXPECT_EQ(error_of(R"([{"role": "user", "content": "a", "task": "nap"}])"),
            "task: expected one of action, query, authority, domain, title, read_url, found \"nap\"");
}

// The block of tools that the model was trained to see, with a blank line before it.
const std::string kToolsBlock = [] {
  std::ifstream file(source_dir() + "/tests/goldens/deepseek_v4_tools.txt", std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}();

TEST(DeepSeekV4ChatTools, WithoutASystemMessageAnEmptyOneIsRendered) {
  EXPECT_EQ(render(R"([{"role": "user", "content": "Hi"}])", {.tools = kTool}),
            kToolsBlock + "<｜User｜>Hi<｜Assistant｜></think>");
}

TEST(DeepSeekV4ChatTools, OfTheRequestGoToTheLeadingSystemOrDeveloper) {
  EXPECT_EQ(render(R"([{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"}])", {.tools = kTool}),
            "S" + kToolsBlock + "<｜User｜>Hi<｜Assistant｜></think>");
  EXPECT_EQ(render(R"([{"role": "developer", "content": "D"}])", {.tools = kTool}),
            "<｜User｜>D" + kToolsBlock + "<｜Assistant｜></think>");
}

TEST(DeepSeekV4ChatTools, OfAMessageStayWithIt) {
  EXPECT_EQ(render(R"([{"role": "user", "content": "a"}, {"role": "system", "content": "S", "tools": )" +
                   std::string(kTool) + R"(}, {"role": "user", "content": "b"}])"),
            "<｜User｜>aS" + kToolsBlock + "<｜User｜>b<｜Assistant｜></think>");
}

TEST(DeepSeekV4ChatTools, OneSchemaPerLine) {
  EXPECT_THAT(
      render(R"([{"role": "user", "content": "x"}])", {.tools = R"([{"type": "function", "function": {"name": "a"}},
                                   {"type": "function", "function": {"name": "b", "strict": true}}])"}),
      HasSubstr("Schemas\n\n{\"name\": \"a\"}\n{\"name\": \"b\", \"strict\": true}\n\nYou MUST strictly"));
}

TEST(DeepSeekV4ChatTools, ResponseFormatFollowsThem) {
  EXPECT_EQ(render(R"([{"role": "system", "content": "S"}, {"role": "user", "content": "x"}])",
                   {.tools = kTool, .response_format = R"({"type":"object","required":["a"]})"}),
            "S" + kToolsBlock +
                "\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n"
                "{\"type\": \"object\", \"required\": [\"a\"]}<｜User｜>x<｜Assistant｜></think>");
}

TEST(DeepSeekV4ChatCalls, StringsAreRawAndOtherValuesAreJson) {
  EXPECT_EQ(render(R"([{"role": "assistant", "content": "Let me see.", "tool_calls": [
              {"function": {"name": "f", "arguments": "{\"s\":\"a\\n\\\"b\\\" é\",\"n\":1.0,\"l\":[1,{\"k\":null}]}"}},
              {"function": {"name": "g", "arguments": "{\"b\": true}"}}]}])"),
            "Let me see.\n\n<｜DSML｜tool_calls>\n"
            "<｜DSML｜invoke name=\"f\">\n"
            "<｜DSML｜parameter name=\"s\" string=\"true\">a\n\"b\" é</｜DSML｜parameter>\n"
            "<｜DSML｜parameter name=\"n\" string=\"false\">1.0</｜DSML｜parameter>\n"
            "<｜DSML｜parameter name=\"l\" string=\"false\">[1, {\"k\": null}]</｜DSML｜parameter>\n"
            "</｜DSML｜invoke>\n"
            "<｜DSML｜invoke name=\"g\">\n"
            "<｜DSML｜parameter name=\"b\" string=\"false\">true</｜DSML｜parameter>\n"
            "</｜DSML｜invoke>\n"
            "</｜DSML｜tool_calls><｜end▁of▁sentence｜>");
}

TEST(DeepSeekV4ChatCalls, WithoutArgumentsALineStaysEmpty) {
  for (const char* arguments : {"{}", "", " "}) {
    EXPECT_EQ(render(R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": ")" +
                     std::string(arguments) + "\"}}]}]"),
              "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>"
              "<｜end▁of▁sentence｜>");
  }
}

TEST(DeepSeekV4ChatCalls, ArgumentsThatAreNoJsonAreOneParameter) {
  EXPECT_THAT(render(R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{oops"}}]}])"),
              HasSubstr("<｜DSML｜parameter name=\"arguments\" string=\"true\">{oops</｜DSML｜parameter>"));
}

constexpr char kAbsoluteMaximum[] =
    "Reasoning Effort: Absolute maximum with no shortcuts permitted.\n"
    "You MUST be very thorough in your thinking and comprehensively decompose the problem to resolve the root cause, "
    "rigorously stress-testing your logic against all potential paths, edge cases, and adversarial scenarios.\n"
    "Explicitly write out your entire deliberation process, documenting every intermediate step, considered "
    "alternative, and rejected hypothesis to ensure absolutely no assumption is left unchecked.\n\n";
constexpr char kBeyondMaximum[] =
    "Reasoning Effort: Beyond maximum — exhaustive, relentless, and uncompromising.\n"
    "You MUST reason with the utmost depth and rigor, leaving absolutely nothing to chance: exhaustively decompose the "
    "problem into its most fundamental components, trace every causal chain to its root, and resolve the underlying "
    "cause rather than any surface symptom.\n"
    "Do not stop reasoning until you have independently verified the solution from multiple angles and are certain "
    "that no assumption remains unchecked and no error remains undiscovered.\n\n";

std::string effort_prefix(DeepSeekV4EffortProfile profile, std::optional<std::string> effort, bool thinking = true) {
  const std::string prompt = render(R"([{"role": "system", "content": "S"}])",
                                    {.thinking = thinking, .effort = std::move(effort), .profile = profile});
  EXPECT_THAT(prompt, EndsWith("S"));
  return prompt.substr(0, prompt.size() - 1);
}

TEST(DeepSeekV4ChatEffort, PreviewProfile) {
  constexpr auto kProfile = DeepSeekV4EffortProfile::kPreview;
  EXPECT_EQ(effort_prefix(kProfile, std::nullopt), "");
  for (const char* level : {"minimal", "low", "medium", "high"}) EXPECT_EQ(effort_prefix(kProfile, level), "");
  for (const char* level : {"xhigh", "max"}) EXPECT_EQ(effort_prefix(kProfile, level), kAbsoluteMaximum);
  EXPECT_EQ(error_of(R"([{"role": "user", "content": "x"}])", {.thinking = true, .effort = "huge"}),
            "reasoning_effort: expected one of minimal, low, medium, high, xhigh, max, found \"huge\"");
}

TEST(DeepSeekV4ChatEffort, OfficialProfile) {
  constexpr auto kProfile = DeepSeekV4EffortProfile::kOfficial;
  EXPECT_EQ(effort_prefix(kProfile, std::nullopt), "");
  for (const char* level : {"minimal", "low", "medium"}) EXPECT_EQ(effort_prefix(kProfile, level), "");
  EXPECT_EQ(effort_prefix(kProfile, "high"), kAbsoluteMaximum);
  for (const char* level : {"xhigh", "max"}) EXPECT_EQ(effort_prefix(kProfile, level), kBeyondMaximum);
  EXPECT_THAT(error_of(R"([{"role": "user", "content": "x"}])", {.effort = "huge", .profile = kProfile}),
              HasSubstr("medium, high, xhigh, max"));
}

TEST(DeepSeekV4ChatEffort, ChatModeHasNoPrefix) {
  EXPECT_EQ(effort_prefix(DeepSeekV4EffortProfile::kPreview, "max", false), "");
}

TEST(DeepSeekV4ChatEffort, PrefixPrecedesTheFirstMessageThatIsLeft) {
  EXPECT_THAT(render(R"([{"role": "developer", "content": "D"}, {"role": "user", "content": "U"}])",
                     {.thinking = true, .effort = "max"}),
              EndsWith("unchecked.\n\n<｜User｜>U<｜Assistant｜><think>"));
}

constexpr char kOfficialSource[] = R"(
EFFORT_PROMPTS: Dict[str, str] = {
    "low": "",
    'high' : "a",
    "max": "b",
}
DEFAULT_REASONING_EFFORT: str = "low"
)";

TEST(DeepSeekV4ChatEffort, ProfileIsReadFromTheEncodersSource) {
  const auto without = [](std::string_view part) {
    std::string source(kOfficialSource);
    source.erase(source.find(part), part.size());
    return detect_deepseek_v4_effort_profile(source);
  };
  EXPECT_EQ(detect_deepseek_v4_effort_profile(kOfficialSource), DeepSeekV4EffortProfile::kOfficial);
  EXPECT_EQ(detect_deepseek_v4_effort_profile(""), DeepSeekV4EffortProfile::kPreview);
  EXPECT_EQ(detect_deepseek_v4_effort_profile("# DEFAULT_EFFORT = 'low'\n{\"low\": 1, \"high\": 2, \"max\": 3}"),
            DeepSeekV4EffortProfile::kPreview);
  EXPECT_EQ(detect_deepseek_v4_effort_profile("assert reasoning_effort in ['max', None, 'high']"),
            DeepSeekV4EffortProfile::kPreview);
  for (const char* part : {"\"low\": \"\",", "'high' :", "\"max\":", "DEFAULT_REASONING_EFFORT"}) {
    EXPECT_EQ(without(part), DeepSeekV4EffortProfile::kPreview) << part;
  }
}

TEST(DeepSeekV4ChatEffort, ProfileOfAModelFolder) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "deepseek_v4_chat_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder / "encoding");
  const auto profile = [&] {
    const auto encoding = load_deepseek_v4_chat(folder.string());
    EXPECT_TRUE(encoding.ok()) << encoding.status().message();
    return dynamic_cast<const DeepSeekV4Chat&>(**encoding).options().effort_profile;
  };
  EXPECT_EQ(profile(), DeepSeekV4EffortProfile::kPreview);
  std::ofstream(folder / "encoding" / "encoding_dsv4.py") << kOfficialSource;
  EXPECT_EQ(profile(), DeepSeekV4EffortProfile::kOfficial);
  EXPECT_TRUE(load_chat_encoding("deepseek_v4", folder.string()).ok());
  std::filesystem::remove_all(folder);
}

TEST(DeepSeekV4ChatRender, NoMessagesIsAnError) {
  EXPECT_THAT(DeepSeekV4Chat({}).render({}).status().message(), HasSubstr("at least one message"));
}

TEST(DeepSeekV4ChatRender, TheParserStartsWhereThePromptEnds) {
  const DeepSeekV4Chat chat({});
  using Kind = ChatDelta::Kind;
  EXPECT_EQ(chat.make_parser(true, false)->push("a").front().kind, Kind::kReasoning);
  EXPECT_EQ(chat.make_parser(false, false)->push("a").front().kind, Kind::kContent);
  const auto open = [&](std::string_view messages, bool thinking) {
    ChatRequest request;
    request.messages = *parse_chat_messages(*parse_json(messages, "messages"));
    request.thinking = thinking;
    return chat.render(request)->reasoning_open;
  };
  EXPECT_TRUE(open(R"([{"role": "user", "content": "a"}])", true));
  EXPECT_FALSE(open(R"([{"role": "user", "content": "<think>"}])", false));
  EXPECT_FALSE(open(R"([{"role": "user", "content": "a", "task": "action"}])", true));
}

// A whole request, the new turn included; `thinking` as the client said.
std::string render_all(std::string_view messages, std::optional<bool> thinking = {}) {
  ChatRequest request;
  request.messages = *parse_chat_messages(*parse_json(messages, "messages"));
  request.thinking = thinking;
  const auto prompt = DeepSeekV4Chat({}).render(request);
  if (!prompt.ok()) return "! " + prompt.status().message();
  return prompt->text.bytes.substr(std::string("<｜begin▁of▁sentence｜>").size()) +
         (prompt->reasoning_open ? " (reasoning)" : "");
}

TEST(DeepSeekV4ChatRender, AfterAnAnswerANewTurnBegins) {
  constexpr char kAnswered[] = R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])";
  EXPECT_EQ(render_all(kAnswered),
            "<｜User｜>a<｜Assistant｜></"
            "think>b<｜end▁of▁sentence｜><｜Assistant｜></think>");
  EXPECT_EQ(render_all(kAnswered, true),
            "<｜User｜>a<｜Assistant｜><think></"
            "think>b<｜end▁of▁sentence｜><｜Assistant｜><think> (reasoning)");
}

TEST(DeepSeekV4ChatRender, APrefixIsContinued) {
  const std::string question = R"([{"role": "user", "content": "a"}, {"role": "assistant", "prefix": true, )";
  EXPECT_EQ(render_all(question + R"("content": "b"}])"), "<｜User｜>a<｜Assistant｜></think>b");
  EXPECT_EQ(render_all(question + R"("content": "b", "reasoning_content": "R"}])", true),
            "<｜User｜>a<｜Assistant｜><think>R</think>b");
  EXPECT_EQ(render_all(question + R"("content": "", "reasoning_content": "R"}])"),
            "<｜User｜>a<｜Assistant｜><think>R (reasoning)");
  EXPECT_THAT(render_all(question + R"("content": null, "reasoning_content": "R"}])", false), HasSubstr("thinking"));
  EXPECT_THAT(render_all(question + R"("content": "b"}, {"role": "user", "content": "c"}])"),
              HasSubstr("last message"));
  EXPECT_THAT(render_all(R"([{"role": "user", "content": "c", "prefix": true}])"), HasSubstr("assistant"));
  EXPECT_THAT(render_all(question + R"("tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}])"),
              HasSubstr("tool calls"));
}

// Text from a client is marked as such wherever it stands; the encoding itself writes the rest.
TEST(DeepSeekV4ChatRender, WhatIsTheClientsIsMarked) {
  ChatRequest request;
  request.messages = *parse_chat_messages(*parse_json(R"([{"role": "system", "content": "C1"},
      {"role": "user", "content": "C2"}, {"role": "assistant", "reasoning_content": "C3", "content": "C4", "tool_calls":
       [{"id": "x", "function": {"name": "C5", "arguments": "{\"C6\": \"C7\", \"C8\": [\"C9\"]}"}}]},
      {"role": "tool", "tool_call_id": "x", "content": "C0"}])",
                                                      "messages"));
  request.thinking = true;
  request.tools = *parse_chat_tools(*parse_json(R"([{"type": "function", "function": {"name": "C5"}}])", "tools"));
  request.response_format = *parse_json(R"({"C": 1})", "format");
  const auto prompt = DeepSeekV4Chat({}).render(request);
  ASSERT_TRUE(prompt.ok());
  std::string own, clients;
  for (std::size_t i = 0; i < prompt->text.size(); ++i) {
    (prompt->text.is_own(i, i + 1) ? own : clients) += prompt->text.bytes[i];
  }
  EXPECT_EQ(clients, R"(C1{"name": "C5"}{"C": 1}C2C3C4C5C6C7C8["C9"]C0)");
  std::vector<std::string> opened;
  for (const std::size_t at : prompt->messages) opened.push_back(prompt->text.bytes.substr(at, 8));
  EXPECT_EQ(opened.size(), 4U);
}

}  // namespace
}  // namespace sluice::deepseek_v4_chat_test
