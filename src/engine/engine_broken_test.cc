// A device that breaks down: everybody hears of it, nobody gets a wrong token, and the process goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine_testing.h"
#include "kernels/device/emulated_device.h"

namespace sluice::engine_broken_test {
namespace {

using ::testing::HasSubstr;

TEST(EngineBrokenTest, ABrokenDeviceEndsItsRequestsWithAMessage) {
  EngineSetup options = small_options();
  options.machine.device = "emulated";
  for (const auto async : {AsyncScheduling::kOn, AsyncScheduling::kOff}) {
    options.scheduler.async_scheduling = async;
    const std::vector<TokenId> prompt = random_tokens(100, 1), other = random_tokens(90, 2);
    const std::vector<TokenId> whole = alone(prompt, 3000, {.temperature = 0});
    auto runner = Runner::create(std::make_unique<FakeModel>(), nullptr, options).value();
    auto* device = static_cast<EmulatedDevice*>(runner->exec().device);
    auto engine = start_engine(std::move(runner), options, {1, 2}).value();
    Answer first, second(3);
    ASSERT_TRUE(engine->submit(request(first, prompt, 3000)).ok());
    ASSERT_TRUE(engine->submit(request(second, other, 3000, {.temperature = 1, .seed = 3}, 3)).ok());
    first.wait_for_tokens(20);
    device->break_down();
    const Output last = first.wait();
    EXPECT_EQ(last.reason, FinishReason::kError);
    EXPECT_THAT(last.status.message(), HasSubstr("told to break down"));
    const std::vector<TokenId> tokens = first.tokens();
    ASSERT_LE(tokens.size(), whole.size());
    EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), whole.begin())) << "a token that was never computed";
    for (int choice = 0; choice < 3; ++choice) EXPECT_EQ(second.wait(choice).reason, FinishReason::kError);

    Answer late;
    const auto refused = engine->submit(request(late, prompt, 5));
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.status().message(), HasSubstr("told to break down"));
    EXPECT_EQ(engine->stats().running + engine->stats().waiting, 0);
  }
}

}  // namespace
}  // namespace sluice::engine_broken_test
