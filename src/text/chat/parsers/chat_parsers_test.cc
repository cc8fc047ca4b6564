#include "text/chat/parsers/chat_parsers.h"

#include <ctime>

#include "base/test_seed_testing.h"
#include "text/chat/parsers/marker_search.h"
#include "text/chat/parsers/parser_testing.h"

namespace sluice::chat_parsers_test {
namespace {

using namespace parser_testing;  // NOLINT(google-build-using-namespace): the words of these tests
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

MakeParser maker(std::string tool_call, std::string reasoning = "none", bool reasoning_open = false,
                 bool has_tools = true) {
  return [=] { return make_chat_parser({.tool_call = tool_call, .reasoning = reasoning}, reasoning_open, has_tools); };
}

Deltas hermes(std::string_view text) {
  return parse(maker("hermes"), text);
}
Deltas llama3(std::string_view text) {
  return parse(maker("llama3_json"), text);
}
Deltas deepseek(std::string_view text) {
  return parse(maker("deepseek_v3"), text);
}

constexpr char kHermesCall[] = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, \"x\"]}}\n</tool_call>";

TEST(HermesParser, ContentAndCalls) {
  EXPECT_THAT(hermes("Hello.\n"), ElementsAre(content("Hello.\n")));
  EXPECT_THAT(hermes(std::string("See.\n\n") + kHermesCall + "\n" + kHermesCall + "\n"),
              ElementsAre(content("See."), call(0, "f"), arguments(0, R"({"a": [1, "x"]})"), call(1, "f"),
                          arguments(1, R"({"a": [1, "x"]})")));
  EXPECT_THAT(hermes(std::string(kHermesCall) + " done"),
              ElementsAre(call(0, "f"), arguments(0, R"({"a": [1, "x"]})"), content(" done")));
}

TEST(HermesParser, KeysInAnyOrderAndOddArguments) {
  EXPECT_THAT(hermes(R"(<tool_call>{"arguments": {"a": 1}, "id": 7, "name": "f"}</tool_call>)"),
              ElementsAre(call(0, "f"), arguments(0, R"({"a": 1})")));
  EXPECT_THAT(hermes(R"(<tool_call>{"name": "f"}</tool_call>)"), ElementsAre(call(0, "f"), arguments(0, "{}")));
  EXPECT_THAT(hermes(R"(<tool_call>{"name": "f", "arguments": null}</tool_call>)"),
              ElementsAre(call(0, "f"), arguments(0, "{}")));
  EXPECT_THAT(hermes(R"(<tool_call>{"name": "f", "arguments": "{\"a\": 1}"}</tool_call>)"),
              ElementsAre(call(0, "f"), arguments(0, R"({"a": 1})")));
  EXPECT_THAT(hermes(R"(<tool_call>{"name": "f", "parameters": {}, "arguments": {"b": 2}}</tool_call>)"),
              ElementsAre(call(0, "f"), arguments(0, "{}")));
}

TEST(HermesParser, ATagInAStringEndsNothing) {
  EXPECT_THAT(hermes(R"(<tool_call>{"name": "f", "arguments": {"a": "</tool_call><tool_call>"}}</tool_call>)"),
              ElementsAre(call(0, "f"), arguments(0, R"({"a": "</tool_call><tool_call>"})")));
}

TEST(HermesParser, WhatIsNoCallIsContent) {
  for (const char* text :
       {"a <tool_call> b", "<tool_call>{\"nome\": 1}</tool_call>", "x\n<tool_call>[1]</tool_call>\n",
        "<tool_call>{\"name\": 5}</tool_call>", "a <tool", "<tool_call>", "<tool_call>{\"name\": \"f"}) {
    EXPECT_THAT(hermes(text), ElementsAre(content(text)));
  }
  EXPECT_THAT(hermes(std::string("<tool_call>what? ") + kHermesCall),
              ElementsAre(content("<tool_call>what? "), call(0, "f"), arguments(0, R"({"a": [1, "x"]})")));
}

TEST(HermesParser, BrokenArgumentsAreCompleted) {
  EXPECT_THAT(hermes(R"(<tool_call>{"name": "f", "arguments": {"a": "x)"),
              ElementsAre(call(0, "f"), arguments(0, R"({"a": "x"})")));
  EXPECT_THAT(hermes(R"(<tool_call>{"name": "f", "arguments": {"a": [1, 2], "b)"),
              ElementsAre(call(0, "f"), arguments(0, R"({"a": [1, 2]})")));
  EXPECT_THAT(hermes(R"(<tool_call>{"name": "f", "arguments": {"a": tru}}</tool_call>)"),
              ElementsAre(call(0, "f"), arguments(0, "{}"), content("}}")));
  EXPECT_THAT(hermes(std::string(R"(<tool_call>{"name": "f", "arguments": {}}<tool_call>{"name": "g"})")),
              ElementsAre(call(0, "f"), arguments(0, "{}"), call(1, "g"), arguments(1, "{}")));
}

TEST(HermesParser, ArgumentsStream) {
  const auto parser = maker("hermes")();
  EXPECT_THAT(parser->push("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"x"),
              ElementsAre(call(0, "f"), arguments(0, "{\"a\": \"x")));
  EXPECT_THAT(parser->push("y\\"), ElementsAre(arguments(0, "y")));
  EXPECT_THAT(parser->push("n\""), ElementsAre(arguments(0, "\\n\"")));
  EXPECT_THAT(parser->push(", \"b\": 1"), IsEmpty());
  EXPECT_THAT(parser->push("2}}"), ElementsAre(arguments(0, ", \"b\": 12}")));
}

TEST(Llama3Parser, Calls) {
  EXPECT_THAT(llama3(R"({"name": "f", "parameters": {"a": 1}})"),
              ElementsAre(call(0, "f"), arguments(0, R"({"a": 1})")));
  EXPECT_THAT(llama3(R"( {"name": "f", "parameters": {}}; {"name": "g", "parameters": {"b": "x"}} )"),
              ElementsAre(call(0, "f"), arguments(0, "{}"), call(1, "g"), arguments(1, R"({"b": "x"})")));
  EXPECT_THAT(llama3(R"(Sure.<|python_tag|>{"type": "function", "name": "f", "parameters": {}})"),
              ElementsAre(content("Sure."), call(0, "f"), arguments(0, "{}")));
}

TEST(Llama3Parser, WhatIsNoCallIsContent) {
  for (const char* text :
       {"Hello {\"name\": \"f\", \"parameters\": {}}", R"({"name": "Bob", "age": 5})", R"({"answer": 42} and more)",
        "{", R"({"name": "f")", "  ", R"(<|python_tag|>brave_search.call(query="x"))", "a <|python"}) {
    EXPECT_THAT(llama3(text), ElementsAre(content(text)));
  }
  EXPECT_THAT(llama3(R"({"name": "f", "parameters": {}} is what I do)"),
              ElementsAre(call(0, "f"), arguments(0, "{}"), content(" is what I do")));
}

constexpr char kV3Call[] =
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": 1}\n```<｜tool▁call▁end｜>\n"
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
constexpr char kV31Call[] =
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜>"
    "<｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>";

TEST(DeepSeekV3Parser, CallsOfBothForms) {
  for (const char* text : {kV3Call, kV31Call}) {
    EXPECT_THAT(
        deepseek(std::string("See.\n") + text + "\n"),
        ElementsAre(content("See."), call(0, "f"), arguments(0, R"({"a": 1})"), call(1, "g"), arguments(1, "{}")));
  }
}

TEST(DeepSeekV3Parser, MalformedAnswers) {
  EXPECT_THAT(deepseek("<｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": [1,"),
              ElementsAre(call(0, "f"), arguments(0, R"({"a": [1]})")));
  EXPECT_THAT(deepseek("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜><｜tool▁call▁end｜>"),
              ElementsAre(call(0, "f"), arguments(0, "{}")));
  EXPECT_THAT(deepseek("<｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": x}<｜tool▁call▁end｜> hm"),
              ElementsAre(call(0, "f"), arguments(0, "{}"), content("x} hm")));
  EXPECT_THAT(deepseek("<｜tool▁call▁begin｜><｜tool▁sep｜>{}<｜tool▁call▁end｜>"), ElementsAre(content("{}")));
  EXPECT_THAT(deepseek("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_wea"), IsEmpty());
  EXPECT_THAT(deepseek("a < b <｜tool"), ElementsAre(content("a < b <｜tool")));
}

Deltas think(std::string_view text, bool reasoning_open = false) {
  return parse(maker("hermes", "think", reasoning_open), text);
}

TEST(ThinkParser, ReasoningAtTheStartOrOpenFromThePrompt) {
  EXPECT_THAT(think("<think>\nHm.\n</think>\n\nYes.\n"), ElementsAre(reasoning("Hm."), content("Yes.\n")));
  EXPECT_THAT(think("Hm.\n\nSo.</think>Yes.", true), ElementsAre(reasoning("Hm.\n\nSo."), content("Yes.")));
  EXPECT_THAT(think("<think>Hm.</think>Yes.", true), ElementsAre(reasoning("Hm."), content("Yes.")));
  EXPECT_THAT(think("<think>\n\n</think>\n\nYes."), ElementsAre(content("Yes.")));
  EXPECT_THAT(think("Yes. <think> no </think>"), ElementsAre(content("Yes. <think> no </think>")));
  EXPECT_THAT(think("\n\nYes.", false), ElementsAre(content("\n\nYes.")));
  EXPECT_THAT(think("Hm.\n", true), ElementsAre(reasoning("Hm.")));
}

TEST(ThinkParser, CallsFollowReasoning) {
  EXPECT_THAT(think(std::string("<think>\nHm.\n</think>\n\n") + kHermesCall),
              ElementsAre(reasoning("Hm."), call(0, "f"), arguments(0, R"({"a": [1, "x"]})")));
  EXPECT_THAT(think(std::string("Hm. ") + kHermesCall, "<think>"),
              ElementsAre(reasoning(std::string("Hm. ") + kHermesCall)));
}

TEST(ChatParsers, WithoutToolsNothingIsACall) {
  EXPECT_THAT(parse(maker("hermes", "none", false, /*has_tools=*/false), kHermesCall),
              ElementsAre(content(kHermesCall)));
}

TEST(ChatParsers, FollowFromTheTemplatesText) {
  const auto chosen = [](std::string_view text) {
    const auto names = choose_chat_parsers(text, {});
    return names.ok() ? names->tool_call + " " + names->reasoning : "! " + names.status().message();
  };
  EXPECT_EQ(chosen("<|im_start|>"), "none none");
  EXPECT_EQ(chosen("<tool_call>\n{...}\n</tool_call>"), "hermes none");
  EXPECT_EQ(chosen("<tool_call> <think>"), "hermes think");
  EXPECT_EQ(chosen("<tool_call><function=f>"), "none none");
  EXPECT_EQ(chosen(R"(<|start_header_id|> {"name": n, "parameters": p})"), "llama3_json none");
  EXPECT_EQ(chosen("function<｜tool▁sep｜>f\n```json"), "deepseek_v3 none");
  EXPECT_EQ(chosen("f<｜tool▁sep｜>{} </think>"), "deepseek_v31 think");
  EXPECT_EQ(chosen("<｜DSML｜function_calls>"), "deepseek_v32 none");
  EXPECT_EQ(chosen("<｜DSML｜tool_calls>"), "deepseek_v4 none");
}

TEST(ChatParsers, NamesOverrideAndAreChecked) {
  const auto names = choose_chat_parsers("<tool_call>", {.tool_call = "llama3_json", .reasoning = "think"});
  ASSERT_TRUE(names.ok());
  EXPECT_EQ(names->tool_call, "llama3_json");
  EXPECT_EQ(names->reasoning, "think");
  EXPECT_THAT(choose_chat_parsers("", {.tool_call = "x"}).status().message(), HasSubstr("hermes"));
  EXPECT_THAT(choose_chat_parsers("", {.reasoning = "x"}).status().message(), HasSubstr("think, none"));
}

const std::vector<std::string>& names() {
  static const std::vector<std::string> kNames = {"hermes",       "llama3_json", "deepseek_v3", "deepseek_v31",
                                                  "deepseek_v32", "deepseek_v4", "none"};
  return kNames;
}

// Answers of any sort, out of the words of all syntaxes.
std::string random_answer(std::mt19937& random) {
  static const std::vector<std::string> kPieces = {"<think>",
                                                   "</think>",
                                                   "<tool_call>",
                                                   "</tool_call>",
                                                   "<|python_tag|>",
                                                   kHermesCall,
                                                   kV3Call,
                                                   kV31Call,
                                                   "<｜tool▁calls▁begin｜>",
                                                   "<｜tool▁call▁begin｜>",
                                                   "<｜tool▁sep｜>",
                                                   "<｜tool▁call▁end｜>",
                                                   "<｜tool▁calls▁end｜>",
                                                   "function",
                                                   "\n```json\n",
                                                   "\n```",
                                                   "{\"name\": \"f\", ",
                                                   "\"arguments\": {",
                                                   "\"parameters\": {\"a\": ",
                                                   "}",
                                                   "}}",
                                                   "\"a\": \"",
                                                   "\"",
                                                   "\\",
                                                   "\\u00e9",
                                                   "\\ud83d\\ude00",
                                                   "\\ud83d",
                                                   "[1, 2.5e3, -0]",
                                                   "[",
                                                   "]",
                                                   ", ",
                                                   ": ",
                                                   "true",
                                                   "nul",
                                                   "1",
                                                   "-",
                                                   "é😀",
                                                   "word ",
                                                   "\n",
                                                   "\n\n",
                                                   " ",
                                                   "<",
                                                   "</",
                                                   "<｜",
                                                   ";",
                                                   "{",
                                                   "<｜DSML｜function_calls>\n",
                                                   "<｜DSML｜invoke name=\"f\">\n",
                                                   "<｜DSML｜parameter name=\"a\" string=\"true\">",
                                                   "</｜DSML｜parameter>",
                                                   "</｜DSML｜invoke>",
                                                   "</｜DSML｜function_calls>"};
  std::string text;
  const std::size_t count = random() % 14;
  for (std::size_t i = 0; i < count; ++i) text += kPieces[random() % kPieces.size()];
  return text;
}

TEST(ChatParsersProperty, AnyAnswerGivesTheSameHoweverItIsCut) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(::testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 80 && !::testing::Test::HasFailure(); ++i) {
    const std::string text = random_answer(random);
    for (const std::string& name : names()) {
      const MakeParser make = maker(name, i % 2 == 0 ? "think" : "none", i % 4 == 0);
      SCOPED_TRACE(name);
      expect_same_however_cut(make, text, random);
      expect_well_formed(parse(make, text));
    }
  }
}

// An answer with content and calls, by the name of its syntax.
std::vector<std::pair<std::string, std::string>> answers_of_each_syntax() {
  const std::string dsml =
      "<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" string=\"true\">x</｜DSML｜parameter>\n"
      "</｜DSML｜invoke>\n";
  return {
      {"hermes", std::string("A.\n\n") + kHermesCall + "\n"},
      {"llama3_json",
       R"(A.<|python_tag|>{"name": "f", "parameters": {"a": "\u00e9"}}; {"name": "g", "parameters": {}})"},
      {"deepseek_v3", std::string("A.") + kV3Call},
      {"deepseek_v31", std::string("A.") + kV31Call},
      {"deepseek_v32", "A.\n\n<｜DSML｜function_calls>\n" + dsml + "</｜DSML｜function_calls>"},
      {"deepseek_v4", "A.\n\n<｜DSML｜tool_calls>\n" + dsml + "</｜DSML｜tool_calls>"},
  };
}

// All cuts into three pieces of one answer in each syntax: every marker is cut at every place, and cut twice.
TEST(ChatParsersProperty, ThreePiecesOfEachSyntax) {
  for (const auto& [name, answer] : answers_of_each_syntax()) {
    SCOPED_TRACE(name);
    const std::string text = "<think>\nHm.\n</think>\n\n" + answer;
    const MakeParser make = maker(name, "think");
    const Deltas whole = parse(make, text);
    ASSERT_GE(whole.size(), 4U);
    EXPECT_EQ(whole[0], reasoning("Hm."));
    EXPECT_EQ(whole[1], content("A."));
    EXPECT_EQ(whole[2], call(0, "f"));
    for (std::size_t i = 0; i < text.size(); ++i) {
      for (std::size_t j = i; j < text.size(); ++j) ASSERT_EQ(parse_cut(make, text, {i, j}), whole) << i << " " << j;
    }
  }
}

// The texts of an answer, by what they are; of each call its name and arguments.
struct Gathered {
  std::string reasoning, content;
  std::vector<std::pair<std::string, std::string>> calls;
};

Gathered gather(const Deltas& deltas) {
  Gathered out;
  for (const ChatDelta& delta : deltas) {
    if (delta.kind == Kind::kReasoning) out.reasoning += delta.text;
    if (delta.kind == Kind::kContent) out.content += delta.text;
    if (delta.kind == Kind::kToolCall) out.calls.emplace_back(delta.text, "");
    if (delta.kind == Kind::kToolCallArguments) out.calls.back().second += delta.text;
  }
  return out;
}

Gathered parse_end(const MakeParser& make, std::string_view text, AnswerEnd end) {
  const auto parser = make();
  Deltas deltas = parser->push(text);
  append(deltas, parser->finish(end));
  const Gathered out = gather(deltas);
  const bool whole =
      std::ranges::all_of(out.calls, [](const auto& called) { return parse_json(called.second, "arguments").ok(); });
  EXPECT_EQ(parser->had_tool_calls(), whole && !out.calls.empty()) << text;
  return out;
}

// Wherever an answer of calls is cut, it has the beginning of what the whole one has, and no piece of any marker; a
// call that the cut goes through is no JSON.
TEST(ChatParsersProperty, ACutAnswerIsTheBeginningOfTheWholeOne) {
  for (const auto& [name, answer] : answers_of_each_syntax()) {
    SCOPED_TRACE(name);
    const std::string text = "<think>\nHm.\n</think>\n\n" + answer;
    const MakeParser make = maker(name, "think");
    const Gathered whole = parse_end(make, text, AnswerEnd::kComplete);
    ASSERT_FALSE(whole.calls.empty());
    int cut_calls = 0;
    for (std::size_t size = 0; size < text.size(); ++size) {
      SCOPED_TRACE(text.substr(0, size));
      const Gathered cut = parse_end(make, text.substr(0, size), AnswerEnd::kCut);
      EXPECT_TRUE(whole.reasoning.starts_with(cut.reasoning)) << cut.reasoning;
      EXPECT_TRUE(whole.content.starts_with(trim_markup(cut.content))) << cut.content;
      ASSERT_LE(cut.calls.size(), whole.calls.size());
      for (std::size_t i = 0; i < cut.calls.size(); ++i) {
        EXPECT_EQ(cut.calls[i].first, whole.calls[i].first);
        if (cut.calls[i].second == whole.calls[i].second) continue;
        EXPECT_TRUE(whole.calls[i].second.starts_with(cut.calls[i].second)) << cut.calls[i].second;
        EXPECT_FALSE(parse_json(cut.calls[i].second, "arguments").ok()) << cut.calls[i].second;
        EXPECT_FALSE(cut.calls[i].second.empty());
        EXPECT_EQ(i + 1, cut.calls.size());
        ++cut_calls;
      }
    }
    EXPECT_GT(cut_calls, 5);
  }
}

TEST(ChatParsers, AStopStringWithinACallLeavesItOpen) {
  const MakeParser dsml = maker("deepseek_v4");
  const std::string opening = "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n";
  const std::string parameter = "<｜DSML｜parameter name=\"a\" string=\"true\">x <";
  EXPECT_EQ(parse_end(dsml, opening + parameter, AnswerEnd::kCut).calls[0].second, "{\"a\": \"x ");
  EXPECT_EQ(parse_end(dsml, opening, AnswerEnd::kCut).calls[0].second, "{");
  EXPECT_EQ(parse_end(dsml, opening + "{\"a\": 1}", AnswerEnd::kCut).calls[0].second, "{\"a\": 1");
  EXPECT_EQ(parse_end(dsml, "1 <", AnswerEnd::kComplete).content, "1 <");
  EXPECT_EQ(parse_end(maker("hermes"), "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 12", AnswerEnd::kCut)
                .calls[0]
                .second,
            "{\"a\": 12");
}

TEST(ChatParsersFuzz, DamagedAnswersDoNoHarm) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(::testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 2000 && !::testing::Test::HasFailure(); ++i) {
    std::string text = random_answer(random) + random_answer(random);
    for (std::size_t flips = random() % 4; flips > 0 && !text.empty(); --flips) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    const MakeParser make = maker(names()[random() % names().size()], i % 2 == 0 ? "think" : "none");
    const Deltas deltas = parse(make, text);
    std::vector<std::size_t> cuts(random() % 8);
    for (std::size_t& cut : cuts) cut = text.empty() ? 0 : random() % text.size();
    std::ranges::sort(cuts);
    EXPECT_EQ(parse_cut(make, text, cuts), deltas) << text;
  }
}

// Returns the processor seconds for `count` times the same piece; the least of three runs, as caches are cold at first.
double seconds_of(const std::string& name, const std::string& piece, int count) {
  double least = 1e9;
  for (int i = 0; i < 3; ++i) {
    const auto parser = maker(name, "think")();
    const std::clock_t start = std::clock();
    for (int k = 0; k < count; ++k) parser->push(piece);
    parser->finish(AnswerEnd::kComplete);
    least = std::min(least, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return least;
}

// Eight times the text takes about eight times as long. Were every piece to look again at all that came before it, that
// would be 64 times. A measurement that something disturbed is repeated.
TEST(ChatParsersFuzz, LongAnswersTakeLinearTime) {
  constexpr int kPieces = 2'500, kTimes = 8, kMostTimes = 3 * kTimes, kAttempts = 3;
  for (const std::string& name : names()) {
    for (const std::string piece :
         {"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [", "<", "{", "\n", "<｜tool▁call▁begin｜>"}) {
      double ratio = 1e9;
      for (int i = 0; i < kAttempts && ratio > kMostTimes; ++i) {
        ratio = seconds_of(name, piece, kTimes * kPieces) / std::max(1e-6, seconds_of(name, piece, kPieces));
      }
      EXPECT_LE(ratio, kMostTimes) << name << ", '" << piece << "'";
    }
  }
}

// White space is held back in many states: a model that writes nothing else must not make every token cost more.
TEST(ChatParsersFuzz, EndlessWhiteSpaceTakesLinearTime) {
  for (const char* name : {"hermes", "llama3_json", "deepseek_v4"}) {
    for (const char* before : {"", "<think>a", "<think>a</think>", "{\"name\": \"f\", \"parameters\": {}}"}) {
      for (const char* piece : {" ", "\n"}) {
        const auto parser = maker(name, "think")();
        const std::clock_t start = std::clock();
        Deltas deltas;
        append(deltas, parser->push(before));
        for (int i = 0; i < 200'000; ++i) append(deltas, parser->push(piece));
        append(deltas, parser->push("z"));
        append(deltas, parser->finish(AnswerEnd::kComplete));
        EXPECT_EQ(deltas.back().text.back(), 'z') << name;
        // Rather more than it takes with a sanitizer; a scan of all that is held back takes longer without.
        EXPECT_LT((std::clock() - start) / CLOCKS_PER_SEC, 5) << name << ", '" << before << "'";
      }
    }
  }
}

}  // namespace
}  // namespace sluice::chat_parsers_test
