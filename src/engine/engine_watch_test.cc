// Watching an engine changes no token.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "engine/engine_testing.h"

namespace sluice::engine_watch_test {
namespace {

constexpr int kRequests = 12, kTokens = 60;

std::vector<std::vector<TokenId>> answers(bool watched, std::uint64_t* records) {
  EngineSetup options = small_options();
  options.scheduler.max_num_seqs = 5;
  options.testing.force_preempt_every = 6;
  auto engine = make_engine(options);
  std::atomic<bool> stop = false;
  std::atomic<std::uint64_t> looks = 0, read = 0;
  std::thread watcher([&] {
    for (std::uint64_t next = 0; watched && !stop;) {
      const std::vector<StepRecord> steps = engine->steps(next, 512);
      if (!steps.empty()) next = steps.back().number + 1;
      read += steps.size();
      EngineSnapshot snapshot;
      looks += engine->snapshot(100, &snapshot);
    }
  });
  if (watched) {
    while (looks == 0) std::this_thread::yield();
  }
  std::vector<Answer> open(kRequests);
  for (int i = 0; i < kRequests; ++i) {
    const auto seed = static_cast<std::uint64_t>(i);
    EXPECT_TRUE(engine
                    ->submit(request(open[static_cast<std::size_t>(i)], random_tokens(20 + 40 * i, 7), kTokens,
                                     {.temperature = 1, .seed = seed}))
                    .ok());
  }
  std::vector<std::vector<TokenId>> tokens;
  for (Answer& answer : open) {
    answer.wait();
    tokens.push_back(answer.tokens());
  }
  while (watched && read < engine->steps_recorded()) std::this_thread::yield();
  stop = true;
  watcher.join();
  *records = read;
  return tokens;
}

TEST(EngineWatchTest, TokensAreTheSameBitsWhoeverWatches) {
  std::uint64_t records = 0, none = 0;
  const auto watched = answers(true, &records), alone = answers(false, &none);
  EXPECT_GT(records, 60U);
  EXPECT_EQ(none, 0U);
  EXPECT_EQ(watched, alone);
}

}  // namespace
}  // namespace sluice::engine_watch_test
