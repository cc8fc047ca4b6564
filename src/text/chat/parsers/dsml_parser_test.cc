#include "text/chat/parsers/dsml_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <random>

#include "files/json.h"
#include "text/chat/deepseek_v4_chat.h"
#include "text/chat/parsers/parser_testing.h"

namespace sluice::dsml_parser_test {
namespace {

using parser_testing::append;
using parser_testing::arguments;
using parser_testing::call;
using parser_testing::content;
using parser_testing::Deltas;
using parser_testing::Kind;
using parser_testing::reasoning;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Deltas parse_cut(std::string_view text, bool thinking, const std::vector<std::size_t>& cuts) {
  const auto make = [thinking] { return std::make_unique<DsmlOutputParser>(kDeepSeekV4Block, thinking); };
  return parser_testing::parse_cut(make, text, cuts);
}

Deltas parse(std::string_view text, bool thinking = false) {
  return parse_cut(text, thinking, {});
}

constexpr char kCall[] =
    "<｜DSML｜tool_calls>\n"
    "<｜DSML｜invoke name=\"f\">\n"
    "<｜DSML｜parameter name=\"s\" string=\"true\">a \"b\"\n<c> é</｜DSML｜parameter>\n"
    "<｜DSML｜parameter name=\"n\" string=\"false\"> [1, 2.50] </｜DSML｜parameter>\n"
    "</｜DSML｜invoke>\n"
    "</｜DSML｜tool_calls>";
constexpr char kCallArguments[] = R"({"s": "a \"b\"\n<c> é", "n": [1, 2.50]})";

// Answers good and bad; every property below holds for all of them.
std::vector<std::string> samples() {
  const std::string call_text = kCall;
  const std::string close_parameter = "</｜DSML｜parameter>";
  std::vector<std::string> all = {
      "Hello.",
      "First I think.\nA lot.</think>Then\n\nI speak.\n\n",
      "R</think>C\n\n" + call_text,
      "R</think>\n\n" + call_text + "\n\nAnd on. " + call_text + "\n",
      "R</think>a < b, </thin <｜ <｜DSML｜ <｜DSML｜tool_calls> is a tag.\n\n<｜DSML｜tool_calls>\n\n",
      "R</think>x\n\n<｜DSML｜tool_calls></｜DSML｜tool_calls>y",
      "R</think>\n\n<｜DSML｜tool_calls> <｜DSML｜invoke name=\"f\"> </｜DSML｜invoke> stray <｜DSML｜invoke "
      "name=\"g\">"
      "{\"a\": {}} </｜DSML｜invoke>\n<｜DSML｜invoke>\n<｜DSML｜parameter name=\"x\">1" +
          close_parameter + "</｜DSML｜tool_calls>",
      "R</think>\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\nhm<｜DSML｜parameter name=\"a\">5" +
          close_parameter + "<｜DSML｜parameter name=\"a\" string=\"true\">6" + close_parameter +
          "<｜DSML｜parameter string=\"true\">7" + close_parameter +
          "<｜DSML｜parameter name=\"b\" string=\"true\">x\n<｜DSML｜parameter name=\"c\" string=\"false\">nope\n"
          "</｜DSML｜invoke>\n<｜DSML｜invoke name=\"g\"\n<｜DSML｜invoke name=\"h\">\n</｜DSML｜tool_calls> end",
  };
  for (const std::size_t cut : {20, 60, 90, 130, 170, 200, 240})
    all.push_back("R</think>x\n\n" + call_text.substr(0, cut));
  return all;
}

TEST(DsmlParser, ContentOnly) {
  EXPECT_THAT(parse("Hello.\n\n"), ElementsAre(content("Hello.\n\n")));
}

TEST(DsmlParser, NothingGivesNothing) {
  EXPECT_THAT(parse(""), IsEmpty());
}

TEST(DsmlParser, ReasoningThenContent) {
  EXPECT_THAT(parse("44 * 2 = 88.</think>88.", true), ElementsAre(reasoning("44 * 2 = 88."), content("88.")));
}

TEST(DsmlParser, MissingThinkCloseIsAllReasoning) {
  EXPECT_THAT(parse(std::string("Hm.\n\n") + kCall, true), ElementsAre(reasoning(std::string("Hm.\n\n") + kCall)));
}

TEST(DsmlParser, CallAfterContent) {
  EXPECT_THAT(parse(std::string("See.\n\n") + kCall),
              ElementsAre(content("See."), call(0, "f"), arguments(0, kCallArguments)));
}

TEST(DsmlParser, CallAfterReasoning) {
  EXPECT_THAT(parse(std::string("R</think>\n\n") + kCall, true),
              ElementsAre(reasoning("R"), call(0, "f"), arguments(0, kCallArguments)));
}

TEST(DsmlParser, TheBlankLineMayBeMissingOrLonger) {
  EXPECT_THAT(parse(std::string("a") + kCall).front(), content("a"));
  EXPECT_THAT(parse(std::string("a\n") + kCall).front(), content("a"));
  EXPECT_THAT(parse(std::string("a\n\n\n") + kCall).front(), content("a\n"));
}

TEST(DsmlParser, SeveralCalls) {
  EXPECT_THAT(
      parse("<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n\n</｜DSML｜invoke>\n<｜DSML｜invoke name=\"g\">\n"
            "<｜DSML｜parameter name=\"k\" string=\"false\">null</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
            "</｜DSML｜tool_calls>"),
      ElementsAre(call(0, "f"), arguments(0, "{}"), call(1, "g"), arguments(1, R"({"k": null})")));
}

std::string one_parameter(const std::string& header, const std::string& value) {
  return "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter" + header + ">" + value +
         "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>";
}

std::string arguments_of(const std::string& header, const std::string& value) {
  const Deltas deltas = parse(one_parameter(header, value));
  return deltas.size() == 2 ? deltas[1].text : "not one call";
}

TEST(DsmlParser, Values) {
  EXPECT_EQ(arguments_of(R"( name="k" string="true")", "5"), R"({"k": "5"})");
  EXPECT_EQ(arguments_of(R"( name="k" string="true")", " a\n"), R"({"k": " a\n"})");
  EXPECT_EQ(arguments_of(R"( name="k" string="true")", ""), R"({"k": ""})");
  EXPECT_EQ(arguments_of(R"( name="k" string="false")", "5"), R"({"k": 5})");
  EXPECT_EQ(arguments_of(R"( name="k" string="false")", "five"), R"({"k": "five"})");
  EXPECT_EQ(arguments_of(R"( name="k" string="false")", ""), R"({"k": ""})");
  EXPECT_EQ(arguments_of(R"( name="k")", "[1]"), R"({"k": [1]})");
  EXPECT_EQ(arguments_of(R"( string="true" name="k")", "x"), R"({"k": "x"})");
  EXPECT_EQ(arguments_of(R"( name="a>b" string="true")", "x"), R"({"a>b": "x"})");
}

TEST(DsmlParser, StringValuesStreamAsTheyArrive) {
  DsmlOutputParser parser(kDeepSeekV4Block, false);
  parser.push("<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"k\" string=\"true\">");
  EXPECT_THAT(parser.push("one "), ElementsAre(arguments(0, "one ")));
  EXPECT_THAT(parser.push("two<"), ElementsAre(arguments(0, "two")));
  EXPECT_THAT(parser.push("three"), ElementsAre(arguments(0, "<three")));
}

TEST(DsmlParser, TextIsHeldBackOnlyWhileItMayBeAMarker) {
  DsmlOutputParser parser(kDeepSeekV4Block, true);
  EXPECT_THAT(parser.push("a</th"), ElementsAre(reasoning("a")));
  EXPECT_THAT(parser.push("e"), ElementsAre(reasoning("</the")));
  EXPECT_THAT(parser.push("</think>b\n\n"), ElementsAre(content("b")));
  EXPECT_THAT(parser.push("<｜DSML｜tool_ca"), IsEmpty());
  EXPECT_THAT(parser.push("rs"), ElementsAre(content("\n\n<｜DSML｜tool_cars")));
}

TEST(DsmlParser, ABlockWithoutCallsIsContent) {
  EXPECT_THAT(parse("Use <｜DSML｜tool_calls> to call."), ElementsAre(content("Use <｜DSML｜tool_calls> to call.")));
  EXPECT_THAT(parse("a\n\n<｜DSML｜tool_calls>\n"), ElementsAre(content("a")));
  EXPECT_THAT(parse("a\n\n<｜DSML｜tool_calls>\n</｜DSML｜tool_calls>\nb"), ElementsAre(content("a\nb")));
}

TEST(DsmlParser, TextAroundCallsIsContent) {
  EXPECT_THAT(parse("<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\none\n</｜DSML｜invoke>\ntwo\n"
                    "<｜DSML｜invoke name=\"g\">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>\n three \n"),
              ElementsAre(call(0, "f"), arguments(0, "{}"), content("one\ntwo\n"), call(1, "g"), arguments(1, "{}"),
                          content("\n three \n")));
}

TEST(DsmlParser, AJsonObjectInsteadOfParametersIsTheArguments) {
  EXPECT_THAT(parse("<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n{\"a\": [1]}\n</｜DSML｜invoke>\n"),
              ElementsAre(call(0, "f"), arguments(0, R"({"a": [1]})")));
}

TEST(DsmlParser, ANamelessCallIsContent) {
  EXPECT_THAT(parse("<｜DSML｜tool_calls>\n<｜DSML｜invoke>x</｜DSML｜tool_calls>"),
              ElementsAre(content("<｜DSML｜invoke>x")));
}

TEST(DsmlParser, ANamelessParameterIsText) {
  EXPECT_THAT(parse(one_parameter("", "x")),
              ElementsAre(call(0, "f"), arguments(0, "{}"), content("<｜DSML｜parameter>x</｜DSML｜parameter>")));
}

TEST(DsmlParser, OfTwoParametersOfOneNameTheFirstCounts) {
  EXPECT_EQ(arguments_of(R"( name="k" string="true")",
                         "1</｜DSML｜parameter>\n<｜DSML｜parameter name=\"k\" string=\"true\">2"),
            R"({"k": "1"})");
}

TEST(DsmlParser, MissingClosingTagsAreImplied) {
  EXPECT_THAT(parse("<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n"
                    "<｜DSML｜parameter name=\"a\" string=\"true\">1\n<｜DSML｜parameter name=\"b\" string=\"true\">2\n"
                    "</｜DSML｜invoke>\n<｜DSML｜invoke name=\"g\">\n<｜DSML｜invoke name=\"h\">\n"
                    "<｜DSML｜parameter name=\"c\" string=\"false\">3\n</｜DSML｜tool_calls>!"),
              ElementsAre(call(0, "f"), arguments(0, R"({"a": "1", "b": "2"})"), call(1, "g"), arguments(1, "{}"),
                          call(2, "h"), arguments(2, R"({"c": 3})"), content("!")));
}

TEST(DsmlParser, ATruncatedCallHasWhatCame) {
  const std::string text = kCall;
  const auto cut_before = [&](std::string_view mark) { return parse(text.substr(0, text.find(mark))); };
  EXPECT_THAT(cut_before("name=\"f\""), IsEmpty());
  EXPECT_THAT(cut_before("name=\"s\""), ElementsAre(call(0, "f"), arguments(0, "{}")));
  EXPECT_THAT(cut_before("\"b\""), ElementsAre(call(0, "f"), arguments(0, R"({"s": "a "})")));
  EXPECT_THAT(cut_before("DSML｜parameter>\n<"), ElementsAre(call(0, "f"), arguments(0, R"({"s": "a \"b\"\n<c> é"})")));
  EXPECT_THAT(cut_before("</｜DSML｜invoke>"), ElementsAre(call(0, "f"), arguments(0, kCallArguments)));
}

TEST(DsmlParser, AnUnfinishedMarkerOutsideABlockIsText) {
  EXPECT_THAT(parse("a\n\n<｜DSML｜tool"), ElementsAre(content("a\n\n<｜DSML｜tool")));
  EXPECT_THAT(parse("a</thi", true), ElementsAre(reasoning("a</thi")));
}

TEST(DsmlParser, AnEndlessTagIsText) {
  const std::string name(10000, 'n');
  const Deltas deltas = parse("<｜DSML｜tool_calls><｜DSML｜invoke name=\"" + name);
  ASSERT_EQ(deltas.size(), 1u);
  EXPECT_EQ(deltas[0], content("<｜DSML｜invoke name=\"" + name));
}

TEST(DsmlParserProperty, EveryCutInTwoGivesTheSame) {
  for (const std::string& text : samples()) {
    for (const bool thinking : {true, false}) {
      const Deltas whole = parse(text, thinking);
      for (std::size_t cut = 0; cut <= text.size(); ++cut) {
        ASSERT_EQ(parse_cut(text, thinking, {cut}), whole) << "cut at " << cut << " of:\n" << text;
      }
    }
  }
}

std::vector<std::size_t> random_cuts(std::mt19937& random, std::size_t size) {
  std::vector<std::size_t> cuts(std::uniform_int_distribution<std::size_t>(0, 30)(random));
  for (std::size_t& cut : cuts) cut = std::uniform_int_distribution<std::size_t>(0, size)(random);
  std::ranges::sort(cuts);
  return cuts;
}

std::vector<std::size_t> every_byte(std::size_t size) {
  std::vector<std::size_t> cuts(size);
  for (std::size_t i = 0; i < size; ++i) cuts[i] = i;
  return cuts;
}

constexpr unsigned kSeed = 20250731;

TEST(DsmlParserProperty, AnyCutsGiveTheSame) {
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937 random(kSeed);
  for (const std::string& text : samples()) {
    for (const bool thinking : {true, false}) {
      const Deltas whole = parse(text, thinking);
      ASSERT_EQ(parse_cut(text, thinking, every_byte(text.size())), whole) << text;
      for (int i = 0; i < 100; ++i) {
        const auto cuts = random_cuts(random, text.size());
        ASSERT_EQ(parse_cut(text, thinking, cuts), whole) << "cuts " << ::testing::PrintToString(cuts) << " of:\n"
                                                          << text;
      }
    }
  }
}

// An answer made of protocol pieces, plain text and damage. Words are w<number>; so that each can be looked for.
std::string random_answer(std::mt19937& random, int& words, bool with_open_tags) {
  static const std::vector<std::string> kPieces = {"</think>",
                                                   "<think>",
                                                   "\n\n<｜DSML｜tool_calls>\n",
                                                   "<｜DSML｜tool_calls>",
                                                   "\n</｜DSML｜tool_calls>",
                                                   "<｜DSML｜invoke name=\"f\">\n",
                                                   "<｜DSML｜invoke name=\"g\">",
                                                   "</｜DSML｜invoke>\n",
                                                   "<｜DSML｜parameter name=\"a\" string=\"true\">",
                                                   "<｜DSML｜parameter name=\"b\" string=\"false\">",
                                                   "</｜DSML｜parameter>\n",
                                                   "</｜DSML｜parameter>",
                                                   "\n",
                                                   " ",
                                                   "\"",
                                                   ">",
                                                   "<",
                                                   "</",
                                                   "<｜",
                                                   "｜",
                                                   "{\"a\": 1}",
                                                   "[1,",
                                                   "null",
                                                   "é😀",
                                                   "\\",
                                                   "｜DSML｜"};
  static const std::vector<std::string> kOpenTags = {"<｜DSML｜invoke", "<｜DSML｜parameter",
                                                     "<｜DSML｜parameter name=\""};
  std::string text;
  const int count = std::uniform_int_distribution<int>(0, 40)(random);
  for (int i = 0; i < count; ++i) {
    const std::size_t pick = std::uniform_int_distribution<std::size_t>(0, kPieces.size() + 7)(random);
    if (pick < kPieces.size()) {
      text += kPieces[pick];
    } else if (pick < kPieces.size() + 2 && with_open_tags) {
      text += kOpenTags[random() % kOpenTags.size()];
    } else {
      text += "w" + std::to_string(words++) + ";";
    }
  }
  return text;
}

// Checks the rules for any answer: calls are counted from 0, each is followed by its arguments, and these are JSON
// objects.
void expect_well_formed(const Deltas& deltas) {
  int calls = 0;
  for (std::size_t i = 0; i < deltas.size(); ++i) {
    if (deltas[i].kind == Kind::kToolCall) {
      EXPECT_EQ(deltas[i].index, calls++);
      ASSERT_LT(i + 1, deltas.size());
      EXPECT_EQ(deltas[i + 1].kind, Kind::kToolCallArguments);
    } else if (deltas[i].kind == Kind::kToolCallArguments) {
      EXPECT_EQ(deltas[i].index, calls - 1);
      const auto object = parse_json(deltas[i].text, "arguments");
      EXPECT_TRUE(object.ok() && object->is_object()) << deltas[i].text;
    }
  }
}

TEST(DsmlParserFuzz, AnyAnswerGivesWellFormedDeltasHoweverItIsCut) {
  for (unsigned seed = kSeed; seed < kSeed + 20000; ++seed) {
    std::mt19937 random(seed);
    int words = 0;
    const std::string text = random_answer(random, words, true);
    const bool thinking = random() % 2 == 0;
    const Deltas whole = parse(text, thinking);
    expect_well_formed(whole);
    ASSERT_EQ(parse_cut(text, thinking, random_cuts(random, text.size())), whole) << "seed " << seed << "\n" << text;
    ASSERT_FALSE(HasFailure()) << "seed " << seed << "\n" << text;
  }
}

// Only the value of a repeated parameter may be lost, so the names are made to differ.
TEST(DsmlParserFuzz, NoWordIsLost) {
  for (unsigned seed = kSeed; seed < kSeed + 20000; ++seed) {
    std::mt19937 random(seed);
    int words = 0;
    std::string text = random_answer(random, words, false);
    for (const std::string tag : {"<｜DSML｜parameter name=\"a\"", "<｜DSML｜parameter name=\"b\""}) {
      int copy = 0;
      for (std::size_t at = text.find(tag); at != std::string::npos; at = text.find(tag, at + 1)) {
        text.insert(at + tag.size() - 1, std::to_string(copy++));
      }
    }
    std::string all;
    for (const ChatDelta& delta : parse(text)) all += delta.text + "\n";
    for (int i = 0; i < words; ++i) {
      const std::string word = "w" + std::to_string(i) + ";";
      ASSERT_NE(all.find(word), std::string::npos) << word << " seed " << seed << "\n" << text;
    }
  }
}

TEST(DsmlParserFuzz, DamagedBytes) {
  for (unsigned seed = kSeed; seed < kSeed + 5000; ++seed) {
    std::mt19937 random(seed);
    const auto all = samples();
    std::string text = all[random() % all.size()];
    for (int i = 0; i < 5; ++i) text[random() % text.size()] = static_cast<char>(random());
    const Deltas whole = parse(text, true);
    ASSERT_EQ(parse_cut(text, true, random_cuts(random, text.size())), whole) << "seed " << seed;
  }
}

std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> kPieces = {"a",         "\n", "\"", "\\", "<",       "</",
                                                   "<｜DSML｜", "é",  "{",  " ",  "</think>"};
  std::string text;
  for (auto count = random() % 6; count > 0; --count) text += kPieces[random() % kPieces.size()];
  return text;
}

boost::json::value random_value(std::mt19937& random) {
  switch (random() % 6) {
    case 0:
      return static_cast<std::int64_t>(random()) - 1000;
    case 1:
      return static_cast<double>(random()) / 7.0;
    case 2:
      return nullptr;
    case 3:
      return boost::json::array{true, boost::json::string(random_text(random))};
    case 4:
      return boost::json::object{{random_text(random), 1.0}};
    default:
      return boost::json::string(random_text(random));
  }
}

TEST(DsmlParserProperty, WhatTheEncoderWritesIsReadBack) {
  for (unsigned seed = kSeed; seed < kSeed + 2000; ++seed) {
    std::mt19937 random(seed);
    ChatMessage answer{.role = ChatRole::kAssistant, .reasoning_content = "R" + std::to_string(seed), .wo_eos = true};
    answer.content = {{.type = "text", .text = "C" + std::to_string(seed)}};
    Deltas expected = {reasoning(answer.reasoning_content), content(answer.content[0].text)};
    for (int i = 0; i < 1 + static_cast<int>(random() % 3); ++i) {
      boost::json::object object;
      for (auto k = random() % 4; k > 0; --k) object["k" + std::to_string(k)] = random_value(random);
      answer.tool_calls.push_back({.id = "", .name = "f" + std::to_string(i), .arguments = dump_json_python(object)});
      expected.push_back(call(i, answer.tool_calls.back().name));
      expected.push_back(arguments(i, answer.tool_calls.back().arguments));
    }
    ChatRequest request;
    request.thinking = true;
    request.messages = {{.role = ChatRole::kUser, .content = {{.type = "text", .text = "Q"}}}};
    const DeepSeekV4Chat chat({});
    const std::string prompt = chat.render(request)->text.bytes;
    request.messages.push_back(answer);
    const std::string whole = chat.render(request)->text.bytes;
    ASSERT_TRUE(whole.starts_with(prompt));
    const auto parser = chat.make_parser(/*reasoning_open=*/true, true);
    Deltas deltas;
    append(deltas, parser->push(whole.substr(prompt.size())));
    append(deltas, parser->finish(AnswerEnd::kComplete));
    ASSERT_EQ(deltas, expected) << "seed " << seed << "\n" << whole;
  }
}

}  // namespace
}  // namespace sluice::dsml_parser_test
