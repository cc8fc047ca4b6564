// Times to tokens and of requests, by a clock of the test.
#include <atomic>

#include "serve/api/api_testing.h"

namespace sluice::latency_test {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

// The clock moves by the next of `gaps` before each output of the engine, and never else.
class LatencyTest : public ApiTest {
 protected:
  LatencyTest() {
    options_.now = [this] { return std::chrono::steady_clock::time_point(std::chrono::microseconds(now_.load())); };
    engine_.before_output = [this] { now_ += next_ < gaps_.size() ? gaps_[next_++] : 0; };
  }
  // Microseconds; let all be binary fractions of a second, so that sums are exact. While the engine is idle.
  void set_gaps(std::vector<std::int64_t> gaps) {
    gaps_ = std::move(gaps);
    next_ = 0;
  }

 private:
  std::atomic<std::int64_t> now_{1'000'000};
  std::vector<std::int64_t> gaps_;
  std::size_t next_ = 0;
};

TEST_F(LatencyTest, OfAnAnswer) {
  for (const char* stream : {"false", "true"}) {
    SCOPED_TRACE(stream);
    server_.reset();
    set_gaps({500'000, 31'250, 62'500, 2'000'000});
    engine_.script = [](const Request&) { return std::vector<std::int32_t>{500, 501, 502}; };  // and the end token
    ASSERT_EQ(complete(fmt::format(R"(,"stream":{})", stream)).status, 200);
    const std::string text = get("/metrics").body;
    for (const char* line :
         {"\nsluice_time_to_first_token_seconds_bucket{le=\"0.25\"} 0\n",
          "\nsluice_time_to_first_token_seconds_bucket{le=\"0.5\"} 1\n",
          "\nsluice_time_to_first_token_seconds_sum 0.5\n", "\nsluice_time_to_first_token_seconds_count 1\n",
          "\nsluice_time_per_output_token_seconds_bucket{le=\"0.025\"} 0\n",
          "\nsluice_time_per_output_token_seconds_bucket{le=\"0.05\"} 1\n",
          "\nsluice_time_per_output_token_seconds_bucket{le=\"0.1\"} 2\n",
          "\nsluice_time_per_output_token_seconds_bucket{le=\"1\"} 2\n",
          "\nsluice_time_per_output_token_seconds_bucket{le=\"2.5\"} 3\n",
          "\nsluice_time_per_output_token_seconds_sum 2.09375\n", "\nsluice_time_per_output_token_seconds_count 3\n",
          "\nsluice_e2e_request_latency_seconds_bucket{le=\"2.5\"} 0\n",
          "\nsluice_e2e_request_latency_seconds_bucket{le=\"5\"} 1\n",
          "\nsluice_e2e_request_latency_seconds_sum 2.59375\n", "\nsluice_e2e_request_latency_seconds_count 1\n"}) {
      EXPECT_THAT(text, HasSubstr(line));
    }
  }
}

// Each choice has a first token of its own, at 0.5 and 0.53125 s; the request ends with the last one, at 2.84375 s.
TEST_F(LatencyTest, OfTwoChoices) {
  set_gaps({500'000, 31'250, 62'500, 0, 2'000'000, 250'000});
  engine_.script = [](const Request&) { return std::vector<std::int32_t>{500, 501}; };
  ASSERT_EQ(complete(R"(,"n":2,"temperature":1)").status, 200);
  const std::string text = get("/metrics").body;
  for (const char* line :
       {"\nsluice_time_to_first_token_seconds_sum 1.03125\n", "\nsluice_time_to_first_token_seconds_count 2\n",
        "\nsluice_time_per_output_token_seconds_sum 4.40625\n", "\nsluice_time_per_output_token_seconds_count 4\n",
        "\nsluice_e2e_request_latency_seconds_sum 2.84375\n", "\nsluice_e2e_request_latency_seconds_count 1\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

// From the request to where its stop string is complete, whatever the engine still sends.
TEST_F(LatencyTest, OfAnAnswerThatAStopStringEnds) {
  say("one two");
  engine_.endless = true;
  engine_.step = 1ms;
  set_gaps({500'000, 31'250, 62'500, 2'000'000});
  ASSERT_EQ(ids_of("one two").size(), 2U);
  ASSERT_EQ(complete(R"(,"stop":["two"])").status, 200);
  const std::string text = get("/metrics").body;
  EXPECT_THAT(text, HasSubstr("\nsluice_e2e_request_latency_seconds_sum 0.53125\n"));
  EXPECT_THAT(text, HasSubstr("\nsluice_time_per_output_token_seconds_sum 0.03125\n"));
  EXPECT_TRUE(engine_.wait_idle());
}

}  // namespace
}  // namespace sluice::latency_test
