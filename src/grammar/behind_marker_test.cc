#include "grammar/behind_marker.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "grammar/gbnf.h"

namespace sluice::behind_marker_test {
namespace {

struct Fixture {
  Fixture()
      : texts({"a", "</", "think", ">", "</think>", ">7", ">x", "7", "<", "/think>7", "<</think>77", "</think>a"}) {
    std::vector<std::string_view> views(texts.begin(), texts.end());
    views.emplace_back();
    end = static_cast<std::int32_t>(texts.size());
    trie = std::make_shared<TokenTrie>(views, std::vector<std::int32_t>{end});
    masks = std::make_shared<TokenMasks>(trie, *compile_gbnf("root ::= [0-9]{1,3}"));
  }
  std::vector<std::string> allowed(TokenConstraint& constraint) const {
    std::vector<std::uint32_t> words(trie->words());
    EXPECT_TRUE(constraint.allowed(words).ok());
    std::vector<std::string> out;
    for (std::int32_t id = 0; id <= end; ++id) {
      if ((words[0] >> id & 1U) != 0) out.push_back(id == end ? "end" : texts[static_cast<std::size_t>(id)]);
    }
    return out;
  }
  std::int32_t id(std::string_view text) const {
    return static_cast<std::int32_t>(std::ranges::find(texts, text) - texts.begin());
  }

  std::vector<std::string> texts;
  std::int32_t end = 0;
  std::shared_ptr<const TokenTrie> trie;
  std::shared_ptr<const TokenMasks> masks;
};

using Texts = std::vector<std::string>;

TEST(BehindMarkerTest, BeginsBehindTheMarker) {
  const Fixture f;
  BehindMarker constraint("</think>", Matcher(f.masks));
  const Texts free{"a", "</", "think", ">", "</think>", ">7", ">x", "7", "<", "/think>7", "<</think>77"};
  EXPECT_EQ(f.allowed(constraint), free);
  EXPECT_FALSE(constraint.accept(f.end));
  EXPECT_FALSE(constraint.accept(f.id("</think>a")));
  ASSERT_TRUE(constraint.accept(f.id("</")) && constraint.accept(f.id("think")));
  EXPECT_EQ(f.allowed(constraint),
            (Texts{"a", "</", "think", ">", "</think>", ">7", "7", "<", "/think>7", "<</think>77"}));
  const auto other = constraint.copy();
  ASSERT_TRUE(constraint.accept(f.id(">7")));
  EXPECT_EQ(f.allowed(constraint), (Texts{"7", "end"}));
  ASSERT_TRUE(constraint.accept(f.id("7")) && constraint.accept(f.end));
  constraint.rollback(3);
  EXPECT_EQ(f.allowed(constraint), f.allowed(*other));
  ASSERT_TRUE(constraint.accept(f.id(">")));
  EXPECT_EQ(f.allowed(constraint), Texts{"7"});
  constraint.rollback(1);
  ASSERT_TRUE(constraint.accept(f.id("a")));
  EXPECT_EQ(f.allowed(constraint), free);
  ASSERT_TRUE(constraint.accept(f.id("<</think>77")));
  EXPECT_EQ(f.allowed(constraint), (Texts{"7", "end"}));
}

}  // namespace
}  // namespace sluice::behind_marker_test
