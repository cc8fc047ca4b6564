#include "text/generation_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "text/chat/parsers/chat_parsers.h"
#include "text/tokenizer/tokenizer_testing.h"

namespace sluice::generation_stream_test {
namespace {

using Kind = ChatDelta::Kind;

// Bytes, and special tokens from 300.
std::unique_ptr<Tokenizer> tokenizer(const std::vector<std::string>& special) {
  auto json = small_tokenizer_json();
  for (std::size_t i = 0; i < special.size(); ++i) {
    const boost::json::object token = {{"id", 300 + i}, {"content", special[i]}, {"special", true}};
    set_json(json, "added_tokens/" + std::to_string(i), boost::json::serialize(token));
  }
  return Tokenizer::from_json(boost::json::serialize(json)).value();
}

// "(reasoning)content|name|arguments|..." of an answer of special tokens (by index) and bytes.
std::string answer(const std::vector<std::string>& special, const ChatParserNames& names, bool shows,
                   const std::vector<std::string>& pieces) {
  const auto tokens = tokenizer(special);
  GenerationStream stream(*tokens, {}, false, make_chat_parser(names, false, true),
                          {.special_tokens = shows, .markup = answer_markup(names)});
  std::string out;
  const auto add = [&](const GenerationDelta& delta) {
    for (const ChatDelta& d : delta.text) {
      out += d.kind == Kind::kToolCall ? "|" + d.text + "|" : d.kind == Kind::kReasoning ? "(" + d.text + ")" : d.text;
    }
  };
  const auto push = [&](std::int32_t id) {
    Output output;
    output.token = id;
    add(stream.push(output));
  };
  for (const std::string& piece : pieces) {
    const auto at = std::ranges::find(special, piece);
    if (at != special.end()) {
      push(static_cast<std::int32_t>(300 + (at - special.begin())));
    } else {
      for (const char byte : piece) push(static_cast<unsigned char>(byte));
    }
  }
  add(stream.push({.token = 'e', .finished = true, .reason = FinishReason::kStop}));
  return out;
}

TEST(GenerationStream, SpecialTokensAreHiddenButForWhatTheParserReads) {
  const std::vector<std::string> hermes = {"<tool_call>", "</tool_call>", "<x>", "<think>"};
  const std::vector<std::string> call = {
      "<x>", "a", "<x>", "<tool_call>", R"({"name": "f", "arguments": {"k": 1}})", "</tool_call>"};
  EXPECT_EQ(answer(hermes, {"hermes", "none"}, false, call), R"(a|f|{"k": 1})");
  EXPECT_EQ(answer(hermes, {"hermes", "none"}, true, call), R"(<x>a<x>|f|{"k": 1})");
  EXPECT_EQ(answer(hermes, {"none", "none"}, false, {"<x>", "a", "<think>", "<tool_call>"}), "a");
  const std::vector<std::string> thinks = {"<think>", "</think>", "<x>"};
  EXPECT_EQ(answer(thinks, {"none", "think"}, false, {"<think>", "<x>", "a", "</think>", "<x>", "b"}), "(a)b");
  const std::vector<std::string> v31 = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>",
                                        "<｜tool▁call▁end｜>",    "<｜tool▁calls▁end｜>",  "<｜User｜>"};
  EXPECT_EQ(answer(v31, {"deepseek_v31", "none"}, false, {v31[5], v31[0], v31[1], "f", v31[2], "{}", v31[3], v31[4]}),
            "|f|{}");
  const std::string d = "｜DSML｜";
  EXPECT_EQ(answer({d, "<y>"}, {"deepseek_v4", "think"}, false,
                   {"<y>", "<", d, "tool_calls>\n<", d, "invoke name=\"f\">\n</", d, "invoke>\n</", d, "tool_calls>"}),
            "|f|{}");
}

// Returns "(reasoning)content|name|arguments" and the finish reason of bytes that come one by one, with stop strings.
// `cut`: only this many bytes are the whole answer.
std::string stopped(const ChatParserNames& names, std::string_view text, const std::vector<std::string>& stops,
                    std::size_t cut = std::string::npos) {
  static const auto tokens = tokenizer({});
  GenerationStream stream(*tokens, stops, false, make_chat_parser(names, false, true));
  std::string out;
  ChatDelta::Kind last = Kind::kToolCallArguments;
  const auto add = [&](const GenerationDelta& delta) {
    for (const ChatDelta& d : delta.text) {
      if (d.kind == Kind::kToolCall) out += "|" + d.text + "|";
      if (d.kind == Kind::kReasoning && last != Kind::kReasoning) out += "R:";
      if (d.kind == Kind::kContent && last != Kind::kContent) out += "C:";
      if (d.kind != Kind::kToolCall) out += d.text;
      last = d.kind;
    }
    if (delta.finished) out += "=" + std::string(delta.finish_reason);
  };
  for (std::size_t i = 0; i < std::min(cut, text.size()); ++i) {
    Output output;
    output.token = static_cast<unsigned char>(text[i]);
    output.finished = i + 1 == cut;
    output.reason = FinishReason::kLength;
    add(stream.push(output));
  }
  add(stream.push({.token = 'e', .finished = true, .reason = FinishReason::kStop}));
  return out;
}

struct Syntax {
  ChatParserNames names;
  std::string_view call;
};
constexpr std::string_view kDsml =
    "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"k\" string=\"true\">a b\n"
    "Observation:</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>";
const std::vector<Syntax>& syntaxes() {
  static const std::vector<Syntax> kAll = {
      {{"deepseek_v4", "none"}, kDsml},
      {{"hermes", "none"},
       "\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"k\": \"a b\\nObservation:\"}}\n</tool_call>"},
      {{"llama3_json", "none"}, "\n\n{\"name\": \"f\", \"parameters\": {\"k\": \"a b\\nObservation:\"}}"},
      {{"deepseek_v31", "none"},
       "\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"k\": \"a b\\nObservation:\"}"
       "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
      {{"deepseek_v3", "none"},
       "\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"k\": \"a "
       "b\\nObservation:\"}\n```"
       "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
  };
  return kAll;
}

TEST(GenerationStream, StopStringsNeverCutACall) {
  for (const Syntax& syntax : syntaxes()) {
    for (const char* stop : {"\n", "\"", "<", ">", "{", "}", ":", "name", "f", "k", "Observation:", " ", "｜",
                             "parameter", "\n\n", "tool", "</", "a b"}) {
      EXPECT_EQ(stopped(syntax.names, syntax.call, {stop}), R"(|f|{"k": "a b\nObservation:"}=tool_calls)")
          << syntax.names.tool_call << " " << stop;
    }
    EXPECT_EQ(stopped(syntax.names, "I look." + std::string(syntax.call), {"look"}), "C:I =stop");
    if (syntax.names.tool_call == "llama3_json") continue;  // whose calls come first
    EXPECT_EQ(stopped(syntax.names, "I look." + std::string(syntax.call), {".\n"}),
              R"(C:I look.|f|{"k": "a b\nObservation:"}=tool_calls)");
  }
}

TEST(GenerationStream, ACutAnywhereShowsNoMarkup) {
  for (const Syntax& syntax : syntaxes()) {
    for (std::size_t cut = 1; cut < syntax.call.size(); ++cut) {
      for (const std::vector<std::string>& stops : {std::vector<std::string>(), {"\n"}, {"<"}, {"zz"}}) {
        const std::string told = stopped(syntax.names, syntax.call, stops, cut);
        const std::size_t content = told.find("C:");  // blank lines at most
        const bool is_clean = content == std::string::npos || told[told.find_first_not_of('\n', content + 2)] == '=';
        EXPECT_TRUE(is_clean) << syntax.names.tool_call << " " << cut << ": " << told;
      }
    }
  }
}

TEST(GenerationStream, StopStringsAreLookedForInReasoningAndContentApart) {
  const ChatParserNames thinks{"none", "think"};
  EXPECT_EQ(stopped(thinks, "<think>ab</think>cd", {"b"}), "R:a=stop");
  EXPECT_EQ(stopped(thinks, "<think>ab</think>cd", {"d"}), "R:abC:c=stop");
  EXPECT_EQ(stopped(thinks, "<think>ab</think>cd", {"bc"}), "R:abC:cd=stop") << "they are two texts";
  EXPECT_EQ(stopped(thinks, "<think>ab</think>bc", {"bb", "</think>"}), "R:abC:bc=stop");
  EXPECT_EQ(stopped({"none", "none"}, "abcabd", {"abd"}), "C:abc=stop");
}

}  // namespace
}  // namespace sluice::generation_stream_test
