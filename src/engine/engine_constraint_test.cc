// Answers that are bound: the engine asks the constraint before every draw and tells it every token.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/engine_testing.h"

namespace sluice::engine_constraint_test {
namespace {

// Only tokens at most one larger than the last one, and never the same twice in a row; `refuses_at` fails there.
class Stairs final : public TokenConstraint {
 public:
  explicit Stairs(std::size_t refuses_at = 1000) : refuses_at_(refuses_at) {}

  Status allowed(std::span<std::uint32_t> words) override {
    if (tokens_.size() == refuses_at_) return invalid_argument("no further");
    std::ranges::fill(words, 0U);
    for (std::int32_t id = 3; id < static_cast<std::int32_t>(32 * words.size()); ++id) {
      if (fits(id)) words[static_cast<std::size_t>(id) / 32] |= 1U << (static_cast<unsigned>(id) % 32);
    }
    return {};
  }
  bool accept(std::int32_t token) override {
    if (!fits(token)) return false;
    tokens_.push_back(token);
    return true;
  }
  void rollback(std::size_t tokens) override { tokens_.resize(tokens_.size() - tokens); }
  std::unique_ptr<TokenConstraint> copy() const override { return std::make_unique<Stairs>(*this); }

 private:
  bool fits(std::int32_t id) const {
    return id >= 3 && id <= 20 && (tokens_.empty() ? id < 6 : id <= tokens_.back() + 1 && id != tokens_.back());
  }

  std::size_t refuses_at_;
  std::vector<std::int32_t> tokens_;
};

Request request_of(Answer& answer, int n = 1) {
  Request request;
  request.prompt = {5, 6, 7};
  request.max_tokens = 20;
  request.n = n;
  request.sampling.seed = 3;
  request.constraint = std::make_shared<Stairs>();
  request.on_output = answer.sink();
  return request;
}

TEST(EngineConstraintTest, EveryTokenIsAllowed) {
  const auto engine = make_engine();
  Answer many(4), one;
  ASSERT_TRUE(engine->submit(request_of(many, 4)).ok());
  ASSERT_TRUE(engine->submit(request_of(one)).ok());
  for (int choice = 0; choice < 4; ++choice) {
    EXPECT_EQ(many.wait(choice).reason, FinishReason::kLength);
    const std::vector<std::int32_t> tokens = many.tokens(choice);
    ASSERT_EQ(tokens.size(), 20U);
    Stairs stairs;
    for (const std::int32_t token : tokens) EXPECT_TRUE(stairs.accept(token)) << token;
  }
  one.wait();
  EXPECT_EQ(one.tokens(), many.tokens(0)) << "other choices change nothing";
}

TEST(EngineConstraintTest, AConstraintThatFailsEndsItsAnswer) {
  const auto engine = make_engine();
  Answer failed, other;
  Request request = request_of(failed);
  request.constraint = std::make_shared<Stairs>(4);
  ASSERT_TRUE(engine->submit(std::move(request)).ok());
  ASSERT_TRUE(engine->submit(request_of(other)).ok());
  const Output last = failed.wait();
  EXPECT_EQ(last.reason, FinishReason::kError);
  EXPECT_EQ(last.status.message(), "no further");
  EXPECT_EQ(failed.tokens().size(), 4U);
  EXPECT_EQ(other.wait().reason, FinishReason::kLength);
}

}  // namespace
}  // namespace sluice::engine_constraint_test
