#include "text/generation_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "text/chat_parsers/chat_parsers.h"
#include "text/tokenizer_testing.h"

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
  Output end;
  end.token = 'e';
  end.finished = true;
  end.reason = FinishReason::kStop;
  add(stream.push(end));
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

}  // namespace
}  // namespace sluice::generation_stream_test
