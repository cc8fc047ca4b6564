#include "sim/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace sluice::workload_test {
namespace {

using testing::HasSubstr;

Trace make(const std::string& name, int requests, double rate, std::uint64_t seed = 1) {
  WorkloadOptions options;
  options.name = name;
  options.requests = requests;
  options.rate = rate;
  options.seed = seed;
  Result<Trace> trace = make_workload(options);
  EXPECT_TRUE(trace.ok()) << trace.status().message();
  return std::move(trace).value();
}

double mean(const Trace& trace, int TraceRequest::* value) {
  double sum = 0;
  for (const TraceRequest& request : trace.requests) sum += request.*value;
  return sum / static_cast<double>(trace.requests.size());
}

TEST(WorkloadTest, DefaultHasItsMeansAndRate) {
  const Trace trace = make("default", 100'000, 50);
  ASSERT_EQ(trace.requests.size(), 100'000U);
  EXPECT_NEAR(mean(trace, &TraceRequest::input_length), 512, 5);  // 3 standard deviations
  EXPECT_NEAR(mean(trace, &TraceRequest::output_length), 128, 1.3);
  EXPECT_NEAR(trace.requests.back().arrival_ms, 2'000'000, 20'000);
  int shortest = 1 << 30, longest = 0;
  double squares = 0, last = 0;
  for (const TraceRequest& r : trace.requests) {
    shortest = std::min(shortest, r.input_length);
    longest = std::max(longest, r.input_length);
    const double gap = r.arrival_ms - last;
    EXPECT_GE(gap, 0);
    squares += gap * gap;
    last = r.arrival_ms;
  }
  EXPECT_EQ(shortest, 1);
  EXPECT_GT(longest, 512 * 8);
  // An exponential distribution has a mean square of twice the square of the mean.
  EXPECT_NEAR(squares / 100'000 / (20.0 * 20.0), 2, 0.1);
}

TEST(WorkloadTest, TheSameSeedGivesTheSameTraceOnEveryMachine) {
  for (const std::string& name : workload_names()) {
    SCOPED_TRACE(name);
    const Trace a = make(name, 500, 2, 3), b = make(name, 500, 2, 3), c = make(name, 500, 2, 4);
    bool differs = name == "bulk";
    for (std::size_t i = 0; i < 500; ++i) {
      EXPECT_EQ(a.requests[i].arrival_ms, b.requests[i].arrival_ms);
      EXPECT_EQ(a.requests[i].input_length, b.requests[i].input_length);
      EXPECT_EQ(a.requests[i].output_length, b.requests[i].output_length);
      EXPECT_EQ(a.requests[i].hash_ids, b.requests[i].hash_ids);
      differs |= a.requests[i].arrival_ms != c.requests[i].arrival_ms;
    }
    EXPECT_TRUE(differs);
  }
  // Fixed numbers: another compiler or library may not change them.
  const Trace trace = make("default", 3, 1, 0);
  std::string found;
  for (const TraceRequest& r : trace.requests) {
    found += std::to_string(r.arrival_ms) + " " + std::to_string(r.input_length) + " " +
             std::to_string(r.output_length) + "; ";
  }
  EXPECT_EQ(found, "509.237707 1834 3; 2057.429016 1395 77; 3307.837903 551 37; ");
}

TEST(WorkloadTest, ChatTurnsContinueTheirConversation) {
  const Trace trace = make("chat", 5000, 1);
  EXPECT_EQ(trace.hash_block_tokens, 128);
  int followers = 0;
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    const TraceRequest& turn = trace.requests[i];
    EXPECT_EQ(turn.hash_ids.size(), static_cast<std::size_t>((turn.input_length + turn.output_length + 127) / 128));
    EXPECT_TRUE(std::is_sorted(turn.message_starts.begin(), turn.message_starts.end()));
    EXPECT_LT(turn.message_starts.back(), turn.input_length);
    if (turn.after < 0) continue;
    ++followers;
    ASSERT_EQ(turn.after, static_cast<int>(i) - 1);
    const TraceRequest& before = trace.requests[i - 1];
    EXPECT_GT(turn.input_length, before.input_length + before.output_length);
    // The prompt is the earlier prompt and answer, and something more.
    for (Position p = 0; p < before.input_length + before.output_length; p += 61) {
      ASSERT_EQ(trace_token(trace, i, p), trace_token(trace, i - 1, p));
    }
  }
  const double turns = 5000.0 / (5000 - followers);
  EXPECT_NEAR(turns, 6, 0.6);
}

TEST(WorkloadTest, ReuseHasEveryWayInWhichPromptsBeginAlike) {
  const Trace trace = make("reuse", 5000, 1);
  int again = 0, changed = 0, next_turn = 0, unmarked = 0;
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    const TraceRequest& turn = trace.requests[i];
    unmarked += turn.message_starts.empty() ? 1 : 0;
    if (turn.after < 0 || turn.message_starts.empty()) continue;
    ASSERT_EQ(turn.after, static_cast<int>(i) - 1);
    const TraceRequest& before = trace.requests[i - 1];
    const auto message_block = static_cast<std::size_t>(turn.message_starts.back() / 128);
    const bool same_message =
        turn.input_length == before.input_length && turn.hash_ids[message_block] == before.hash_ids[message_block];
    if (turn.message_starts.size() > before.message_starts.size()) {
      ++next_turn;
    } else {
      ASSERT_EQ(turn.message_starts, before.message_starts);
      same_message ? ++again : ++changed;
    }
    // The common part is all of the shorter prompt, or all up to the last message's block.
    const int last_message = turn.message_starts.back() / 128 * 128;
    const int common = same_message ? turn.input_length : std::min(last_message, before.input_length);
    for (Position p = 0; p < common; p += 13) ASSERT_EQ(trace_token(trace, i, p), trace_token(trace, i - 1, p));
    if (same_message) {
      const Position in_answer = (turn.input_length / 128 + 1) * 128;
      EXPECT_NE(trace_token(trace, i, in_answer), trace_token(trace, i - 1, in_answer));
    }
  }
  EXPECT_GT(again, 250);
  EXPECT_GT(changed, 150);
  EXPECT_GT(next_turn, 1500);
  EXPECT_GT(unmarked, 600);
}

TEST(WorkloadTest, MixedAndBehindLongHaveLongPrompts) {
  const Trace mixed = make("mixed", 20000, 5);
  const auto is_long = [](const TraceRequest& r) { return r.input_length > 8000; };
  EXPECT_NEAR(static_cast<double>(std::count_if(mixed.requests.begin(), mixed.requests.end(), is_long)), 1000, 100);
  const Trace behind = make("behind-long", 2000, 4);
  EXPECT_EQ(std::count_if(behind.requests.begin(), behind.requests.end(), is_long), 3);
  EXPECT_TRUE(std::is_sorted(behind.requests.begin(), behind.requests.end(),
                             [](const auto& a, const auto& b) { return a.arrival_ms < b.arrival_ms; }));
}

TEST(WorkloadTest, RefusesWhatItCannotMake) {
  WorkloadOptions options;
  options.name = "nothing";
  EXPECT_THAT(make_workload(options).status().message(), HasSubstr("expected one of default, chat"));
  options.name = "default";
  options.rate = 0;
  EXPECT_THAT(make_workload(options).status().message(), HasSubstr("--rate"));
  options.rate = 1;
  options.requests = 0;
  EXPECT_THAT(make_workload(options).status().message(), HasSubstr("--requests"));
}

}  // namespace
}  // namespace sluice::workload_test
