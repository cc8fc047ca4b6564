// Tests of a file of the weights that changes while it is served: every request is notified, and none gets a token
// computed from it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/storage/temp_folder_testing.h"
#include "engine/engine_testing.h"

namespace sluice::engine_files_test {
namespace {

using ::testing::HasSubstr;

struct Served {
  TempFolder folder;
  std::string path = folder.write("model.safetensors", std::string(4096, 'x'));
  MappedFile file = MappedFile::open(path).value();
  std::shared_ptr<ServedFiles> files = std::make_shared<ServedFiles>();

  Served() { files->add(file.share()); }
  void cut() const { std::filesystem::resize_file(path, 10); }
};

std::unique_ptr<Engine> serve(const Served& served, const EngineSetup& options, FakeModel::Settings settings = {}) {
  settings.files = served.files;
  return make_engine(options, std::move(settings));
}

TEST(EngineFilesTest, AChangeDuringAStepLeavesNoTokenOfIt) {
  for (const auto async : {AsyncScheduling::kOff, AsyncScheduling::kOn}) {
    const Served served;
    StepGate gate;
    FakeModel::Settings settings;
    settings.on_step = gate.hook();
    EngineSetup options = small_options();
    options.scheduler.async_scheduling = async;
    auto engine = serve(served, options, settings);
    gate.close();
    Answer running, choices(3);
    ASSERT_TRUE(engine->submit(request(running, random_tokens(100, 1), 3000)).ok());
    ASSERT_TRUE(engine->submit(request(choices, random_tokens(90, 2), 50, {.temperature = 1, .seed = 3}, 3)).ok());
    gate.pass(5);
    gate.wait_for_step();
    const std::size_t before = running.tokens().size();
    served.cut();
    gate.open();
    const Output last = running.wait();
    EXPECT_EQ(last.reason, FinishReason::kError);
    EXPECT_EQ(last.status.code(), StatusCode::kUnavailable);
    EXPECT_THAT(last.status.message(), HasSubstr("model.safetensors"));
    EXPECT_EQ(running.tokens().size(), before) << "a token of the step that the change fell into";
    for (int choice = 0; choice < 3; ++choice) EXPECT_EQ(choices.wait(choice).reason, FinishReason::kError);
    Answer late;
    EXPECT_EQ(engine->submit(request(late, random_tokens(10, 1), 5)).status().code(), StatusCode::kUnavailable);
    EXPECT_FALSE(engine->health().ok());
    EXPECT_FALSE(engine->self_test(1));
    EXPECT_EQ(engine->stats().running + engine->stats().waiting, 0);
    EXPECT_TRUE(engine->stats().failed);
  }
}

TEST(EngineFilesTest, AChangeIsNoticedWhileNothingRuns) {
  const Served served;
  auto engine = serve(served, small_options());
  EXPECT_TRUE(engine->health().ok());
  EXPECT_FALSE(engine->stats().failed);
  const auto began = std::chrono::steady_clock::now();
  served.cut();
  while (engine->health().ok() && std::chrono::steady_clock::now() - began < kTestPatience) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_THAT(engine->health().message(), HasSubstr("model.safetensors"));
  EXPECT_FALSE(engine->ping(1));
}

// A step may take longer than it may take to say so.
TEST(EngineFilesTest, AChangeIsNoticedDuringALongStep) {
  const Served served;
  StepGate gate;
  FakeModel::Settings settings;
  settings.on_step = gate.hook();
  auto engine = serve(served, small_options(), settings);
  gate.close();
  Answer running;
  ASSERT_TRUE(engine->submit(request(running, random_tokens(10, 1), 5)).ok());
  gate.wait_for_step();
  served.cut();
  const auto began = std::chrono::steady_clock::now();
  while (engine->health().ok() && std::chrono::steady_clock::now() - began < kTestPatience) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_FALSE(engine->health().ok());
  Answer late;
  EXPECT_FALSE(engine->submit(request(late, random_tokens(10, 1), 5)).ok());
  gate.open();
  EXPECT_EQ(running.wait().reason, FinishReason::kError);
  EXPECT_TRUE(running.tokens().empty());
}

TEST(EngineFilesTest, ARunnersStepFails) {
  const Served served;
  FakeModel::Settings settings;
  settings.files = served.files;
  auto runner = Runner::create(std::make_unique<FakeModel>(settings), nullptr, small_options()).value();
  const StateSlot sequence = runner->sequences().open().value();
  const std::vector<TokenId> ids = random_tokens(10, 1);
  const StepSpan span{.sequence = sequence, .ids = ids, .logit_rows = {}};
  EXPECT_TRUE(runner->run_step({&span, 1}).ok());
  served.cut();
  EXPECT_EQ(runner->run_step({&span, 1}).code(), StatusCode::kUnavailable);
  EXPECT_EQ(runner->sequences().position(sequence), 10) << "nothing has changed";
}

}  // namespace
}  // namespace sluice::engine_files_test
