#include "cache/pages/retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::retention_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr RetentionRules kNone{.every_64th = false,
                               .before_prompt_end = false,
                               .at_prompt_end = false,
                               .message_start = false,
                               .finished = false,
                               .preempted = false,
                               .demand = false};

std::vector<int> kept(const RetentionRules& rules, int prompt_tokens, std::vector<Position> message_starts = {}) {
  return blocks_to_keep(rules, prompt_tokens, message_starts);
}

TEST(RetentionTest, TheLastBlockThatEndsBeforeThePromptsLastToken) {
  RetentionRules rules = kNone;
  rules.before_prompt_end = true;
  for (const int n : {0, 1, 127, 128}) EXPECT_THAT(kept(rules, n), IsEmpty()) << n;
  EXPECT_THAT(kept(rules, 129), ElementsAre(0));
  EXPECT_THAT(kept(rules, 256), ElementsAre(0));  // the last token is the last of block 1
  EXPECT_THAT(kept(rules, 257), ElementsAre(1));
  EXPECT_THAT(kept(rules, 1000), ElementsAre(6));
}

TEST(RetentionTest, TheBlockThatEndsWithThePrompt) {
  RetentionRules rules = kNone;
  rules.at_prompt_end = true;
  for (const int n : {0, 1, 127, 129, 257}) EXPECT_THAT(kept(rules, n), IsEmpty()) << n;
  EXPECT_THAT(kept(rules, 128), ElementsAre(0));
  EXPECT_THAT(kept(rules, 256), ElementsAre(1));
}

TEST(RetentionTest, TheLastFullBlockBeforeEachMessage) {
  RetentionRules rules = kNone;
  rules.message_start = true;
  EXPECT_THAT(kept(rules, 1000, {0, 100, 127}), IsEmpty());
  EXPECT_THAT(kept(rules, 1000, {0, 128, 200, 255, 256, 700}), ElementsAre(0, 1, 4));
  EXPECT_THAT(kept(rules, 300, {200, 5000}), ElementsAre(0, 1));  // a start beyond the prompt: the prompt's end
}

TEST(RetentionTest, TheRulesAddUpAndNameABlockOnce) {
  EXPECT_THAT(kept(RetentionRules(), 512, {256, 300, 385}), ElementsAre(1, 2, 3));
  EXPECT_THAT(kept(kNone, 512, {256, 300, 385}), IsEmpty());
}

}  // namespace
}  // namespace sluice::retention_test
