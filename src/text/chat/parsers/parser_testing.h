// Shared parts of the tests of output parsers: deltas that are easy to write, and the property that an answer gives the
// same deltas however it is cut.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "files/json.h"
#include "text/chat/chat.h"

namespace sluice {

inline void PrintTo(const ChatDelta& delta, std::ostream* out) {
  *out << "{" << static_cast<int>(delta.kind) << ", " << delta.index << ", \"" << delta.text << "\"}";
}

namespace parser_testing {

using Kind = ChatDelta::Kind;
using Deltas = std::vector<ChatDelta>;
using MakeParser = std::function<std::unique_ptr<ChatOutputParser>()>;

inline ChatDelta reasoning(std::string text) {
  return {Kind::kReasoning, std::move(text), 0};
}
inline ChatDelta content(std::string text) {
  return {Kind::kContent, std::move(text), 0};
}
inline ChatDelta call(int index, std::string name) {
  return {Kind::kToolCall, std::move(name), index};
}
inline ChatDelta arguments(int index, std::string text) {
  return {Kind::kToolCallArguments, std::move(text), index};
}

// Adjacent texts become one: how a text is cut is up to the pushes.
inline void append(Deltas& all, Deltas more) {
  for (ChatDelta& delta : more) {
    EXPECT_FALSE(delta.text.empty());
    if (!all.empty() && delta.kind != Kind::kToolCall && all.back().kind == delta.kind) {
      EXPECT_EQ(all.back().index, delta.index);
      all.back().text += delta.text;
    } else {
      all.push_back(std::move(delta));
    }
  }
}

// Parses the pieces of `text` between `cuts`, which ascend.
inline Deltas parse_cut(const MakeParser& make, std::string_view text, const std::vector<std::size_t>& cuts) {
  const std::unique_ptr<ChatOutputParser> parser = make();
  Deltas all;
  std::size_t start = 0;
  for (const std::size_t cut : cuts) {
    append(all, parser->push(text.substr(start, cut - start)));
    start = cut;
  }
  append(all, parser->push(text.substr(start)));
  append(all, parser->finish(AnswerEnd::kComplete));
  const bool called = std::ranges::any_of(all, [](const ChatDelta& d) { return d.kind == Kind::kToolCall; });
  EXPECT_EQ(parser->had_tool_calls(), called);
  EXPECT_TRUE(parser->push("late").empty());
  EXPECT_TRUE(parser->finish(AnswerEnd::kComplete).empty());
  return all;
}

inline Deltas parse(const MakeParser& make, std::string_view text) {
  return parse_cut(make, text, {});
}

// Checks the rules for any answer: calls are counted from 0, each is followed by its arguments, and these are JSON.
inline void expect_well_formed(const Deltas& deltas) {
  int calls = 0;
  for (std::size_t i = 0; i < deltas.size(); ++i) {
    if (deltas[i].kind != Kind::kToolCall) continue;
    EXPECT_EQ(deltas[i].index, calls++);
    ASSERT_LT(i + 1, deltas.size());
    ASSERT_EQ(deltas[i + 1].kind, Kind::kToolCallArguments);
    EXPECT_TRUE(parse_json(deltas[i + 1].text, "arguments").ok() ||
                deltas[i + 1].text.find("\": ") != std::string::npos)  // a doubled key
        << deltas[i + 1].text;
  }
}

// Byte by byte, in two pieces at each place, and at random places: always the same.
inline void expect_same_however_cut(const MakeParser& make, const std::string& text, std::mt19937& random) {
  const Deltas whole = parse(make, text);
  std::vector<std::size_t> every(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) every[i] = i;
  EXPECT_EQ(parse_cut(make, text, every), whole) << text;
  for (std::size_t i = 0; i < text.size() && text.size() < 160; ++i)
    EXPECT_EQ(parse_cut(make, text, {i}), whole) << text;
  for (int round = 0; round < 3 && !text.empty(); ++round) {
    std::vector<std::size_t> cuts(random() % 8);
    for (std::size_t& cut : cuts) cut = random() % text.size();
    std::ranges::sort(cuts);
    EXPECT_EQ(parse_cut(make, text, cuts), whole) << text;
  }
}

}  // namespace parser_testing
}  // namespace sluice
