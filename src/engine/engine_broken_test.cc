// Tests of a device that breaks down: every request is notified, none gets a wrong token, and the process goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "base/test_paths_testing.h"
#include "engine/engine_testing.h"
#include "kernels/device/device_group.h"
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

// The threads of rank 1 no longer come to where ranks meet: its device has failed, or does not come to an end.
TEST(EngineBrokenTest, ARankThatFailsOrStallsEndsTheRequestsWithItsName) {
  EngineSetup options = small_options();
  options.model.folder = test_data_dir() + "/oracles/llama-like";
  options.machine.device = "emulated", options.machine.tensor_parallel_size = 2;
  options.machine.collective_timeout = 1;
  for (const bool stalls : {false, true}) {
    SCOPED_TRACE(stalls ? "stalls" : "fails");
    auto runner = Runner::load(options).value();
    auto& rank = static_cast<EmulatedDevice&>(static_cast<DeviceGroup&>(*runner->exec().device).device(1));
    auto engine = start_engine(std::move(runner), options, {}).value();
    Answer first;
    ASSERT_TRUE(engine->submit(request(first, random_tokens(50, 1), 3000)).ok());
    first.wait_for_tokens(3);
    std::atomic<bool> goes_on = false;
    if (stalls) {
      rank.enqueue([&goes_on] { goes_on.wait(false); });
    } else {
      rank.break_down();
    }
    const auto begin = std::chrono::steady_clock::now();
    const Output last = first.wait();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3)) << "a limit of 1 s";
    EXPECT_EQ(last.reason, FinishReason::kError);
    EXPECT_THAT(last.status.message(), HasSubstr("rank 1 of 2"));
    if (!stalls) EXPECT_THAT(last.status.message(), HasSubstr("told to break down"));
    Answer late;
    EXPECT_THAT(engine->submit(request(late, random_tokens(50, 1), 5)).status().message(), HasSubstr("rank 1 of 2"));
    goes_on = true, goes_on.notify_all();
  }
}

}  // namespace
}  // namespace sluice::engine_broken_test
