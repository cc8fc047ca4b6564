// Every parser of answers, on the same text in different pieces: the same deltas, calls in order, arguments in JSON.
#include <algorithm>
#include <array>
#include <random>

#include "base/utf8.h"
#include "files/json.h"
#include "fuzz_target.h"
#include "text/chat/parsers/chat_parsers.h"

namespace sluice {
namespace {

using Deltas = std::vector<ChatDelta>;
using Kind = ChatDelta::Kind;

constexpr std::array kSyntaxes = {"hermes",       "llama3_json", "deepseek_v3", "deepseek_v31",
                                  "deepseek_v32", "deepseek_v4", "none"};

// Adjacent texts become one: how a text is cut is up to the pushes.
void append(Deltas& all, Deltas more) {
  for (ChatDelta& delta : more) {
    fuzz_expect(!delta.text.empty(), "an empty delta");
    if (!all.empty() && delta.kind != Kind::kToolCall && all.back().kind == delta.kind) {
      fuzz_expect(all.back().index == delta.index, "a delta of another call");
      all.back().text += delta.text;
    } else {
      all.push_back(std::move(delta));
    }
  }
}

// `next_piece` says how many bytes to push next, of those that are left.
template <class NextPiece>
Deltas parse(const ChatParserNames& names, bool reasoning_open, std::string_view text, NextPiece&& next_piece) {
  const auto parser = make_chat_parser(names, reasoning_open, /*has_tools=*/true);
  Deltas all;
  while (!text.empty()) {
    const std::size_t bytes = std::min(text.size(), next_piece());
    append(all, parser->push(text.substr(0, bytes)));
    text.remove_prefix(bytes);
  }
  append(all, parser->finish(AnswerEnd::kComplete));
  const bool called = std::ranges::any_of(all, [](const ChatDelta& delta) { return delta.kind == Kind::kToolCall; });
  fuzz_expect(parser->had_tool_calls() == called, "had_tool_calls is wrong");
  fuzz_expect(parser->push("late").empty() && parser->finish(AnswerEnd::kComplete).empty(), "deltas after the end");
  return all;
}

// `is_text`: made from valid UTF-8, as a detokenizer gives it.
void expect_well_formed(const Deltas& deltas, bool is_text) {
  int calls = 0;
  for (std::size_t i = 0; i < deltas.size(); ++i) {
    if (deltas[i].kind != Kind::kToolCall) continue;
    fuzz_expect(deltas[i].index == calls++, "calls are not counted");
    fuzz_expect(i + 1 < deltas.size() && deltas[i + 1].kind == Kind::kToolCallArguments, "a call without arguments");
    if (!is_text) continue;
    const auto arguments = parse_json(deltas[i + 1].text, "arguments");
    if (arguments.ok()) continue;
    // It is what a model wrote: it may double a key, or be too large a number.
    const std::string& message = arguments.status().message();
    fuzz_expect(message.find("duplicate key") != message.npos || message.find("beyond the range") != message.npos,
                message);
  }
}

void check_parser(const ChatParserNames& names, bool reasoning_open, std::string_view text) {
  const Deltas whole = parse(names, reasoning_open, text, [&] { return text.size(); });
  expect_well_formed(whole, valid_utf8_prefix(text) == text.size());
  fuzz_expect(parse(names, reasoning_open, text, [] { return std::size_t{1}; }) == whole,
              "byte by byte it is something else");
  std::minstd_rand random(static_cast<unsigned>(hash_of(text)));
  for (const std::size_t longest : {4, 40}) {
    fuzz_expect(parse(names, reasoning_open, text, [&] { return 1 + random() % longest; }) == whole,
                "in other pieces it is something else");
  }
}

// A short input with every parser, a long one with some of them: it takes a while byte by byte.
void check(std::string_view input) {
  const std::size_t chosen = input.size() <= 256 ? 2 * kSyntaxes.size() : 3, first = hash_of(input) % 100;
  for (std::size_t i = first; i < first + chosen; ++i) {
    const std::string syntax = kSyntaxes[i / 2 % kSyntaxes.size()];
    if (i % 2 == 0) {
      check_parser({.tool_call = syntax, .reasoning = "think"}, true, input);
    } else {
      check_parser({.tool_call = syntax, .reasoning = syntax == "none" ? "think" : "none"}, false, input);
    }
  }
}

}  // namespace

FuzzTarget fuzz_target() {
  FuzzTarget target = {.name = "tool_calls", .max_bytes = 2048, .check = check};
  for (const char* word : {"<think>",
                           "</think>",
                           "<tool_call>",
                           "</tool_call>",
                           "{\"name\": \"f\", \"arguments\": {\"k\": 1}}",
                           "\"name\": ",
                           "\"arguments\": ",
                           "\"parameters\": ",
                           "<|python_tag|>",
                           "; ",
                           "<｜tool▁calls▁begin｜>",
                           "<｜tool▁calls▁end｜>",
                           "<｜tool▁call▁begin｜>",
                           "<｜tool▁call▁end｜>",
                           "<｜tool▁sep｜>",
                           "function",
                           "\n```json\n",
                           "\n```",
                           "<｜DSML｜tool_calls>",
                           "</｜DSML｜tool_calls>",
                           "<｜DSML｜function_calls>",
                           "</｜DSML｜function_calls>",
                           "<｜DSML｜invoke name=\"f\">",
                           "</｜DSML｜invoke>",
                           "<｜DSML｜parameter name=\"k\" string=\"true\">",
                           "<｜DSML｜parameter name=\"k\" string=\"false\">",
                           "</｜DSML｜parameter>",
                           "<｜DSML｜",
                           "</｜",
                           "｜",
                           "name=",
                           "\n\n",
                           " ",
                           "{",
                           "}",
                           "[",
                           "]",
                           ",",
                           ":",
                           "\"",
                           "\\",
                           "\\u00e9",
                           "\\ud83d\\ude00",
                           "\\ud800",
                           "null",
                           "true",
                           "-1.5e3",
                           "{}",
                           "[[[[[[[[[[[[",
                           "<",
                           ">"}) {
    target.words.emplace_back(word);
  }
  return target;
}

}  // namespace sluice
