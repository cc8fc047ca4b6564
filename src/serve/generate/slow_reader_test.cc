// Clients that read too slowly: their answers pause and are whole in the end. And a loop that is stuck.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "serve/api/api_testing.h"
#include "serve/guard/watchdog.h"

namespace sluice::slow_reader_test {
namespace {

using ::testing::HasSubstr;

constexpr int kTokens = 3000;  // with 20 alternatives each far more bytes than the system keeps for such a reader
constexpr int kReceiveBytes = 4096;

template <class Holds>
bool comes(const Holds& holds) {
  for (int i = 0; i < 20000 && !holds(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return holds();
}

class SlowReaderTest : public ApiTest {
 protected:
  // Returns whether the answer pauses before all of it is made.
  bool pauses() {
    bool begun = false;
    return comes([&] {
             const int running = engine_.stats().running;
             begun = begun || running > 0;
             return engine_.stats().paused == 1 || (begun && running == 0);
           }) &&
           engine_.stats().paused == 1;
  }

  void SetUp() override {
    ApiTest::SetUp();
    options_.http.max_unread_bytes = 100'000;
    engine_.context_tokens = 2 * kTokens;
    engine_.step = std::chrono::milliseconds(1);
    engine_.script = [](const Request&) {
      std::vector<std::int32_t> ids;
      for (int i = 0; i < kTokens; ++i) ids.push_back(300 + i % 2000);
      return ids;
    };
    start();
  }

  static std::string body() {
    return fmt::format(
        R"({{"messages":[{{"role":"user","content":"x"}}],"stream":true,"logprobs":true,"top_logprobs":20,"max_tokens":{}}})",
        kTokens);
  }
};

TEST_F(SlowReaderTest, AnAnswerPausesUntilItsReaderHasCaughtUp) {
  TestClient client(server_->port(), kReceiveBytes);
  client.send_request("POST", "/v1/chat/completions", body());
  ASSERT_TRUE(pauses()) << "it goes on though nobody reads";
  EXPECT_THAT(get("/metrics").body, HasSubstr("sluice_num_requests_paused 1"));
  EXPECT_EQ(engine_.stats().running, 1);

  const TestAnswer answer = client.read_answer();
  ASSERT_TRUE(answer.whole);
  std::string text;
  for (const std::string& event : events_of(answer.body)) {
    if (event == "[DONE]") continue;
    text += text_at(parsed(event), "choices/0/delta/content");
  }
  std::vector<std::int32_t> ids;
  for (int i = 0; i < kTokens; ++i) ids.push_back(300 + i % 2000);
  EXPECT_EQ(text, tokenizer().decode(ids, true));
  EXPECT_GE(engine_.pauses(), 1);
  EXPECT_TRUE(engine_.wait_idle());
}

// The bytes that the system keeps for the client are counted. The engine makes a token when the network's thread has
// seen the last.
TEST_F(SlowReaderTest, AtMostAMebibyteIsUnread) {
  server_.reset();
  options_.http.max_unread_bytes = HttpServerOptions().max_unread_bytes;
  std::atomic<std::size_t> made = 0;
  engine_.before_output = [&] {
    if (engine_.pauses() > 0) return;
    EXPECT_EQ(get("/version").status, 200);
    ++made;
  };
  start();
  TestClient client(server_->port(), kReceiveBytes);
  client.send_request("POST", "/v1/chat/completions", body());
  ASSERT_TRUE(pauses());
  const std::size_t tokens = made;
  const TestAnswer answer = client.read_answer();
  ASSERT_TRUE(answer.whole);
  const std::vector<std::string> events = events_of(answer.body);
  ASSERT_GT(events.size(), tokens);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < tokens; ++i) bytes += events[i].size();
  constexpr std::size_t kMebibyte = 1 << 20;
  EXPECT_GT(bytes, kMebibyte / 4);
  EXPECT_LT(bytes, kMebibyte + kMebibyte / 16) << "of " << tokens << " tokens; the client's own buffer is small";
}

TEST_F(SlowReaderTest, OnePausedAnswerHoldsUpNoOther) {
  TestClient client(server_->port(), kReceiveBytes);
  client.send_request("POST", "/v1/chat/completions", body());
  ASSERT_TRUE(pauses());
  engine_.script = {};
  EXPECT_EQ(request(server_->port(), "POST", "/v1/completions", R"({"prompt":[5],"max_tokens":3})").status, 200);
  client.close();
  EXPECT_TRUE(engine_.wait_idle()) << "a client that leaves ends its paused answer";
}

// Three prompts, two choices each: six answers over one connection.
class SlowReaderOfManyTest : public SlowReaderTest {
 protected:
  static constexpr int kPrompts = 3, kChoices = 2, kAnswers = kPrompts * kChoices;

  static std::string body() {
    return fmt::format(
        R"({{"prompt":[[5],[6],[7]],"n":2,"stream":true,"logprobs":20,"temperature":1,"seed":1,"max_tokens":{}}})",
        kTokens);
  }
  // Returns whether all of them pause before one is made.
  bool all_pause() {
    bool begun = false, ended = false;
    comes([&] {
      const EngineStats stats = engine_.stats();
      begun = begun || stats.running == kAnswers;
      ended = begun && stats.running < kAnswers;
      return ended || stats.paused == kAnswers;
    });
    return !ended && engine_.stats().paused == kAnswers;
  }
};

TEST_F(SlowReaderOfManyTest, EveryAnswerPausesUntilItsReaderHasCaughtUp) {
  TestClient client(server_->port(), kReceiveBytes);
  client.send_request("POST", "/v1/completions", body());
  ASSERT_TRUE(all_pause()) << engine_.stats().paused << " of " << kAnswers << " pause";
  EXPECT_EQ(engine_.stats().running, kAnswers);
  const TestAnswer answer = client.read_answer();
  ASSERT_TRUE(answer.whole);
  std::vector<int> tokens(kAnswers);
  for (const std::string& event : events_of(answer.body)) {
    if (event == "[DONE]") continue;
    const boost::json::value value = parsed(event);
    const boost::json::value ids = at(value, "choices/0/logprobs/tokens");
    if (ids.is_array())
      tokens[static_cast<std::size_t>(number_at(value, "choices/0/index"))] += static_cast<int>(ids.get_array().size());
  }
  EXPECT_THAT(tokens, ::testing::Each(kTokens));
  EXPECT_TRUE(engine_.wait_idle());
}

TEST_F(SlowReaderOfManyTest, AClientThatLeavesEndsAllOfThem) {
  TestClient client(server_->port(), kReceiveBytes);
  client.send_request("POST", "/v1/completions", body());
  ASSERT_TRUE(all_pause());
  client.close();
  EXPECT_TRUE(engine_.wait_idle());
  EXPECT_EQ(engine_.stats().cancelled_requests, static_cast<std::uint64_t>(kAnswers));
}

TEST_F(SlowReaderOfManyTest, ADeadlineEndsAllOfThemPausedOrNot) {
  server_.reset();
  options_.request_timeout_seconds = 2;
  engine_.step = std::chrono::milliseconds(50);  // so that the other does not fill its connection
  start();
  for (const bool reads : {true, false}) {
    const std::uint64_t before = engine_.stats().cancelled_requests;
    if (!reads) engine_.step = std::chrono::milliseconds(1);
    TestClient client(server_->port(), kReceiveBytes);
    client.send_request("POST", "/v1/completions", body());
    if (reads) {
      EXPECT_THAT(client.read_answer().body, HasSubstr("deadline_exceeded"));
    } else {
      ASSERT_TRUE(all_pause());
    }
    ASSERT_TRUE(comes([&] { return engine_.stats().cancelled_requests == before + kAnswers; }))
        << engine_.stats().cancelled_requests - before << " of " << kAnswers << " ended";
    EXPECT_TRUE(engine_.wait_idle());
  }
}

TEST(WatchdogTest, SaysInWhichStepTheLoopIsStuckAndThatItGoesOn) {
  set_log_level(LogLevel::kInfo);
  ::testing::internal::CaptureStderr();
  LoopWatch watch(4);
  EngineStats stats;
  stats.steps = 41;
  stats.waiting = 3;
  for (const double seconds : {0.0, 3.9, 4.5, 5.5, 0.1, 0.2}) {
    stats.turn_seconds = seconds;
    watch.look(stats);
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("has been in step 42 for 4.5 s (0 sequences run, 3 wait)"));
  EXPECT_THAT(log, HasSubstr("goes on; a step took over 5.5 s"));
  EXPECT_EQ(std::ranges::count(log, '\n'), 2);
  set_log_level(LogLevel::kOff);
}

TEST(WatchdogTest, LooksAgainAndAgain) {
  FakeEngine engine;
  const Watchdog watchdog(engine, 0.04);
  EXPECT_TRUE(comes([&] { return engine.readings() >= 3; }));
}

}  // namespace
}  // namespace sluice::slow_reader_test
