// Tests of the limits on kept compiled grammars.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/automata/matcher.h"
#include "grammar/grammar.h"

namespace sluice::grammar_cache_test {
namespace {

std::shared_ptr<const TokenTrie> letters() {
  static const std::string kLetters = "abcdefghijklmnopqrstuvwxyz";
  std::vector<std::string_view> tokens;
  for (std::size_t i = 0; i < kLetters.size(); ++i) tokens.push_back(std::string_view(kLetters).substr(i, 1));
  tokens.emplace_back();
  return std::make_shared<const TokenTrie>(tokens, std::vector<std::int32_t>{26});
}

GrammarSource letters_source(int i) {
  return {.kind = GrammarSource::Kind::kRegex, .text = "[a-z]{" + std::to_string(i + 1) + "}"};
}

TEST(GrammarCacheTest, KeepsTheGrammarsUsedLast) {
  GrammarCache cache(letters);
  const auto first = cache.get(letters_source(0));
  ASSERT_TRUE(first.ok());
  for (int i = 1; i < static_cast<int>(kMostGrammars); ++i) ASSERT_TRUE(cache.get(letters_source(i)).ok());
  EXPECT_EQ(cache.size(), kMostGrammars);
  EXPECT_EQ(*cache.get(letters_source(0)), *first) << "compiled once";
  ASSERT_TRUE(cache.get(letters_source(100)).ok());
  EXPECT_EQ(cache.size(), kMostGrammars);
  EXPECT_EQ(*cache.get(letters_source(0)), *first) << "it was used lately";
}

// Sources that differ in one field are different grammars.
TEST(GrammarCacheTest, EveryFieldOfASourceCounts) {
  GrammarCache cache(letters);
  std::vector<GrammarSource> sources;
  const std::string schema = R"({"type":"array","items":{"type":"boolean"}})";
  sources.push_back({.text = schema});
  sources.push_back({.text = schema, .compact = true});
  sources.push_back({.kind = GrammarSource::Kind::kChoice, .text = schema, .choices = {"a"}});
  sources.push_back({.kind = GrammarSource::Kind::kChoice, .text = schema, .choices = {"b"}});
  std::set<std::shared_ptr<const TokenMasks>> made;
  for (const GrammarSource& source : sources) {
    const auto masks = cache.get(source);
    ASSERT_TRUE(masks.ok()) << masks.status().message();
    made.insert(*masks);
  }
  EXPECT_EQ(made.size(), sources.size());
  for (const bool compact : {true, false, true}) {
    Matcher matcher(*cache.get({.text = schema, .compact = compact}));
    EXPECT_EQ(matcher.accept_bytes("[true, false]"), !compact);
  }
}

TEST(GrammarCacheTest, KeepsNoMoreBytesThanItMay) {
  constexpr std::size_t kMost = 200'000;
  GrammarCache cache(letters, kMost);
  for (int i = 0; i < 40; ++i) {
    const auto masks = cache.get(letters_source(200 + i));
    ASSERT_TRUE(masks.ok());
    EXPECT_LE(cache.bytes(), kMost);
    EXPECT_GE(cache.size(), 1U);
  }
  EXPECT_GT(cache.size(), 1U);
  EXPECT_LT(cache.size(), 40U);
  // One that is larger than that is kept alone, as its answers need it anyway.
  ASSERT_TRUE(cache.get(letters_source(9000)).ok());
  EXPECT_EQ(cache.size(), 1U);
  EXPECT_GT(cache.bytes(), kMost);
}

TEST(GrammarCacheTest, MasksCountWhenTheyAreMade) {
  GrammarCache cache(letters);
  const auto masks = cache.get(letters_source(50));
  ASSERT_TRUE(masks.ok());
  const std::size_t before = cache.bytes();
  Matcher matcher(*masks);
  std::vector<std::uint32_t> words(1);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(matcher.allowed(words).ok());
    ASSERT_TRUE(matcher.accept(i));
  }
  EXPECT_GT(cache.bytes(), before + 20 * 8);
}

TEST(GrammarCacheTest, WhatMasksShareCounts) {
  GrammarCache cache(letters);
  const auto masks = cache.get({.kind = GrammarSource::Kind::kRegex, .text = "[a-z]{3,40}"});
  ASSERT_TRUE(masks.ok());
  const TokenTrie& trie = (*masks)->trie();
  EXPECT_GT(trie.runs_bytes(), 26 * sizeof(std::uint32_t));
  EXPECT_EQ(cache.bytes(), (*masks)->bytes() + trie.runs_bytes());
  // However many classes there are, only those asked for last are kept.
  ByteClass bytes;
  std::size_t most = 0;
  for (std::size_t i = 0; i < 3 * kMostTokenRuns; ++i) {
    trie.runs(bytes.set(128 + i));
    if (i + 1 == kMostTokenRuns) most = trie.runs_bytes();
  }
  EXPECT_EQ(trie.runs_bytes(), most);
}

}  // namespace
}  // namespace sluice::grammar_cache_test
