#include "grammar/reasoning_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grammar/behind_marker.h"
#include "grammar/gbnf.h"

namespace sluice::reasoning_budget_test {
namespace {

using ::testing::ElementsAre;

struct Fixture {
  Fixture() {
    std::vector<std::string_view> views(texts.begin(), texts.end());
    views.emplace_back();
    trie = std::make_shared<TokenTrie>(views, std::vector<std::int32_t>{end()});
  }
  std::int32_t end() const { return static_cast<std::int32_t>(texts.size()); }
  std::int32_t id(std::string_view text) const {
    return static_cast<std::int32_t>(std::ranges::find(texts, text) - texts.begin());
  }
  std::vector<std::string> allowed(TokenConstraint& constraint) const {
    std::vector<std::uint32_t> words(trie->words());
    EXPECT_TRUE(constraint.allowed(words).ok());
    std::vector<std::string> out;
    for (std::int32_t i = 0; i <= end(); ++i) {
      if ((words[0] >> i & 1U) != 0) out.push_back(i == end() ? "end" : texts[static_cast<std::size_t>(i)]);
    }
    return out;
  }

  std::vector<std::string> texts = {"a", "<", "</", "/think", ">", "</think>", "<think>", "7", " "};
  std::shared_ptr<const TokenTrie> trie;
};

TEST(ReasoningBudgetTest, ThenItsEndIsAllThatMayCome) {
  const Fixture f;
  ReasoningBudget budget(f.trie, {.opens = "", .ends = "</think>"}, 2, nullptr);
  EXPECT_EQ(f.allowed(budget).size(), 10U);
  EXPECT_TRUE(budget.accept(f.id("a")));
  EXPECT_TRUE(budget.accept(f.id("a")));
  EXPECT_THAT(f.allowed(budget), ElementsAre("</think>"));
  EXPECT_FALSE(budget.accept(f.id("a")));
  budget.rollback(1);
  EXPECT_EQ(f.allowed(budget).size(), 10U);
  EXPECT_TRUE(budget.accept(f.id("<")));  // which may be of the end
  EXPECT_THAT(f.allowed(budget), ElementsAre("/think"));
  std::int32_t forced = -1;
  EXPECT_EQ(budget.forced({&forced, 1}), 1);
  EXPECT_EQ(forced, f.id("/think"));
  const auto copy = budget.copy();
  EXPECT_TRUE(copy->accept(f.id("/think")));
  EXPECT_THAT(f.allowed(*copy), ElementsAre(">"));
  EXPECT_TRUE(copy->accept(f.id(">")));
  EXPECT_EQ(f.allowed(*copy).size(), 10U);
  EXPECT_THAT(f.allowed(budget), ElementsAre("/think")) << "a copy is its own";
}

TEST(ReasoningBudgetTest, OnlyReasoningCounts) {
  const Fixture f;
  for (const bool thinks : {true, false}) {
    ReasoningBudget budget(f.trie, {.opens = "<think>", .ends = "</think>"}, 0, nullptr);
    EXPECT_TRUE(budget.accept(f.id(" ")));
    EXPECT_EQ(f.allowed(budget).size(), 10U);
    EXPECT_TRUE(budget.accept(f.id(thinks ? "<think>" : "a")));
    EXPECT_EQ(f.allowed(budget).size(), thinks ? 1U : 10U);
  }
}

TEST(ReasoningBudgetTest, BeforeAConstraint) {
  const Fixture f;
  const Matcher seven(std::make_shared<TokenMasks>(f.trie, *compile_gbnf("root ::= \"7\"")));
  ReasoningBudget budget(f.trie, {.opens = "", .ends = "</think>"}, 1,
                         std::make_unique<BehindMarker>("</think>", seven));
  EXPECT_TRUE(budget.accept(f.id("a")));
  EXPECT_THAT(f.allowed(budget), ElementsAre("</think>"));
  EXPECT_TRUE(budget.accept(f.id("</think>")));
  EXPECT_THAT(f.allowed(budget), ElementsAre("7"));
  EXPECT_TRUE(budget.accept(f.id("7")));
  EXPECT_THAT(f.allowed(budget), ElementsAre("end"));
  budget.rollback(3);
  EXPECT_EQ(f.allowed(budget).size(), 9U);  // the end token is the constraint's
}

}  // namespace
}  // namespace sluice::reasoning_budget_test
