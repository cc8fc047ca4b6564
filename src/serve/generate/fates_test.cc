// A request of every fate, and what each counter and histogram says of it: all of them, each by the table of
// fates_testing.h.
#include <atomic>
#include <condition_variable>
#include <mutex>

#include "serve/api/api_testing.h"
#include "serve/generate/fates_testing.h"
#include "telemetry/metric_table.h"

namespace sluice::fates_test {
namespace {

using namespace std::chrono_literals;
TEST(MetricTable, HasWhatTheseTestsExpect) {
  std::vector<std::string> listed, expected;
  for (const MetricInfo& metric : metric_table()) {
    EXPECT_FALSE(metric.unit.empty() || metric.text.empty() || metric.partly.empty()) << metric.name;
    EXPECT_EQ(find_metric(metric.name), &metric) << "it is there twice";
    EXPECT_EQ(metric.type == "counter", metric.name.ends_with("_total")) << metric.name;
    if (metric.type != "gauge") listed.emplace_back(metric.name);
  }
  for (const auto& [name, expect] : expectations()) expected.push_back(name);
  EXPECT_THAT(listed, ::testing::UnorderedElementsAreArray(expected))
      << "say here what a request of each fate adds to a metric";
}

// A clock that moves by kGap before each output of the engine, which can be held.
class FatesTest : public ApiTest {
 protected:
  FatesTest() {
    options_.now = [this] { return now(); };
    engine_.now = options_.now;
    engine_.admitted_after = std::chrono::milliseconds(static_cast<int>(kAdmittedAfter * 1000));
    engine_.before_output = [this] {
      std::unique_lock lock(mutex_);
      is_held_ = outputs_ >= limit_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return outputs_ < limit_; });
      is_held_ = false;
      ++outputs_;
      ticks_ += static_cast<std::int64_t>(kGap * 1'000'000);
    };
    engine_.cached_tokens = 1;
    say("one two");  // two tokens, and the end token
  }
  // No other thread asks for the time, or waits to go on, any more when this object is gone.
  ~FatesTest() override {
    go_on();
    server_.reset();
    EXPECT_TRUE(engine_.wait_idle());
  }

  // The engine gives this many outputs, and waits with the next ones in its hands.
  void hold_after(int outputs) {
    const std::lock_guard lock(mutex_);
    outputs_ = 0;
    limit_ = outputs;
  }
  void wait_held() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, 60s, [this] { return is_held_; }));
  }
  // Waits until the engine has been asked to end the request in whose output it is held.
  void wait_cancelled() {
    const auto patience = std::chrono::steady_clock::now() + 60s;
    while (!engine_.is_cancelled() && std::chrono::steady_clock::now() < patience) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(engine_.is_cancelled());
  }
  // Waits until the server has got this many tokens since `before`.
  void wait_told(const Samples& before, int tokens) {
    const std::string name = options_.metrics_prefix + "generation_tokens_total";
    const auto patience = std::chrono::steady_clock::now() + 60s;
    while (read().at(name) < before.at(name) + tokens && std::chrono::steady_clock::now() < patience) {
      std::this_thread::sleep_for(1ms);
    }
    wait_held();
  }
  void go_on() {
    const std::lock_guard lock(mutex_);
    limit_ = std::numeric_limits<int>::max();
    changed_.notify_all();
  }

  // Reads all counters, and the counts and sums of all histograms.
  Samples read() {
    Samples samples;
    const std::string text = get("/metrics").body;
    std::string type;
    for (std::size_t start = 0; start < text.size();) {
      const std::size_t end = text.find('\n', start);
      const std::string line = text.substr(start, end - start);
      start = end + 1;
      if (line.starts_with("# TYPE")) type = line.substr(line.rfind(' ') + 1);
      const bool is_reading = line.find("path=\"/metrics\"") != std::string::npos;
      if (line.starts_with("#") || type == "gauge" || is_reading || line.find("_bucket{") != std::string::npos)
        continue;
      const std::size_t space = line.rfind(' ');
      samples[line.substr(0, space)] = std::stod(line.substr(space + 1));
    }
    return samples;
  }

  // Every metric has grown by what the table says of it, since `before`.
  void expect(const Samples& before, const Facts& facts) {
    EXPECT_TRUE(engine_.wait_idle());
    const Samples after = read();
    const bool is_vllm = options_.metrics_prefix == "vllm:";
    Samples expected;
    for (const auto& [name, expect_of] : expectations()) {
      const std::string rest = name.substr(name.find_first_of("_:") + 1);
      const bool is_replaced = expectations().contains("vllm:" + rest) && name.starts_with("sluice_");
      if (is_vllm ? is_replaced : name.starts_with("vllm:")) continue;
      expect_of(facts, options_.metrics_prefix + rest, expected);
    }
    for (const auto& [name, value] : after) {
      const auto was = before.find(name);
      const double change = value - (was != before.end() ? was->second : 0);
      const auto found = expected.find(name);
      const double wanted = found != expected.end() ? found->second : 0;
      if (name.ends_with("stream_delay_seconds_sum")) continue;
      if (wanted == kSome) {
        EXPECT_GT(change, 0) << name;
      } else {
        EXPECT_DOUBLE_EQ(change, wanted) << name;
      }
    }
    for (const auto& [name, wanted] : expected) {
      EXPECT_TRUE(wanted == 0 || after.contains(name)) << name << " is missing";
    }
  }

  // The data of the last event that has a usage.
  static boost::json::value last_usage(const std::string& body) {
    boost::json::value found;
    for (std::size_t at_line = 0; (at_line = body.find("data: {", at_line)) != std::string::npos; ++at_line) {
      const boost::json::value event = parsed(body.substr(at_line + 6, body.find('\n', at_line) - at_line - 6));
      for (const char* path : {"usage", "response/usage"}) {
        if (at(event, path).is_object()) found = at(event, path);
      }
    }
    return found;
  }

  // The facts of `answers` answers of `tokens` tokens each that run side by side, token by token in turn.
  static Facts facts_of(int answers, int tokens, int prompt_tokens) {
    Facts facts;
    facts.reasons = {{"stop", answers}};
    facts.prompt_tokens = prompt_tokens;
    facts.completion_tokens = answers * tokens;
    facts.first_tokens = answers;
    facts.first_token_seconds = kGap * answers * (answers + 1) / 2;
    facts.next_token_seconds = kGap * answers * answers * (tokens - 1);
    facts.queue = kAdmittedAfter;
    facts.prefill = kGap - kAdmittedAfter;
    facts.decode = kGap * (answers * tokens - 1);
    return facts;
  }
  static int length(std::string_view text) { return static_cast<int>(ids_of(text).size()); }
  Facts of_one(int tokens = 3) { return facts_of(1, tokens, length("Once upon")); }
  // It was cut when its answer had this many tokens.
  Facts cut_after(int tokens, const std::string& reason) {
    Facts facts = tokens > 0 ? of_one(tokens) : Facts{.first_tokens = 0};
    facts.ended = false;
    facts.reasons = {{reason, 1}};
    return facts;
  }

  std::chrono::steady_clock::time_point now() const {
    return std::chrono::steady_clock::time_point(std::chrono::microseconds(ticks_.load()));
  }

  std::atomic<std::int64_t> ticks_{1'000'000};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_held_ = false;
  int outputs_ = 0, limit_ = std::numeric_limits<int>::max();
};

class FatesUnderAName : public FatesTest, public ::testing::WithParamInterface<const char*> {
 protected:
  FatesUnderAName() { options_.metrics_prefix = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Names, FatesUnderAName, ::testing::Values("sluice_", "vllm:"),
                         [](const auto& info) { return info.index == 0 ? "Own" : "Vllm"; });

TEST_P(FatesUnderAName, EndToken) {
  const Samples before = read();
  EXPECT_EQ(complete().status, 200);
  expect(before, of_one());
}

TEST_F(FatesTest, Stream) {
  const Samples before = read();
  EXPECT_EQ(complete(R"(,"stream":true)").status, 200);
  Facts facts = of_one();
  facts.streams = true;
  expect(before, facts);
}

TEST_F(FatesTest, Limit) {
  const Samples before = read();
  EXPECT_EQ(complete(R"(,"max_tokens":2,"mood":1)").status, 200);
  Facts facts = of_one(2);
  facts.reasons = {{"length", 1}};
  facts.ignored = 1;
  expect(before, facts);
}

TEST_F(FatesTest, NoToken) {
  const Samples before = read();
  EXPECT_EQ(complete(R"(,"max_tokens":0)").status, 200);
  Facts facts{.reasons = {{"length", 1}}, .prompt_tokens = length("Once upon"), .first_tokens = 0};
  facts.queue = kGap;
  expect(before, facts);
}

// The engine goes on for a while; its further outputs go nowhere.
TEST_P(FatesUnderAName, StopString) {
  const Samples before = read();
  engine_.endless = true;
  hold_after(4);
  EXPECT_EQ(complete(R"(,"max_tokens":50,"stop":["two"])").status, 200);
  go_on();
  expect(before, of_one(2));
}

TEST_F(FatesTest, FourAnswers) {
  const Samples before = read();
  EXPECT_EQ(complete(R"(,"n":4,"temperature":1)").status, 200);
  expect(before, facts_of(4, 3, length("Once upon")));
}

// Choices that are not shown were made, too.
TEST_F(FatesTest, TheBestTwoOfFour) {
  const Samples before = read();
  EXPECT_EQ(complete(R"(,"n":2,"best_of":4,"temperature":1)").status, 200);
  expect(before, facts_of(4, 3, length("Once upon")));
}

TEST_P(FatesUnderAName, ThreePrompts) {
  const Samples before = read();
  engine_.begins_with = 3;
  EXPECT_EQ(post("/v1/completions", R"({"prompt":["Once","two","three four"]})").status, 200);
  expect(before, facts_of(3, 3, length("Once") + length("two") + length("three four")));
}

TEST_F(FatesTest, ThreePromptsOfTwoAnswers) {
  const Samples before = read();
  engine_.begins_with = 6;
  EXPECT_EQ(post("/v1/completions", R"({"prompt":["Once","two","three four"],"n":2,"temperature":1})").status, 200);
  expect(before, facts_of(6, 3, length("Once") + length("two") + length("three four")));
}

TEST_P(FatesUnderAName, ACallOfTools) {
  const std::string call =
      "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get\">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>";
  say(call);
  const Samples before = read();
  EXPECT_EQ(chat(R"(,"tools":[{"type":"function","function":{"name":"get"}}])").status, 200);
  Facts facts = facts_of(1, length(call) + 1, static_cast<int>(engine_.seen().at(0).prompt.size()));
  facts.reasons = {{"tool_calls", 1}};
  facts.path = "/v1/chat/completions";
  expect(before, facts);
}

// Neither an error of the server nor a quick request.
TEST_P(FatesUnderAName, Left) {
  engine_.endless = true;
  for (const bool streams : {true, false}) {
    SCOPED_TRACE(streams);
    const Samples before = read();
    hold_after(3);
    {
      TestClient client(server_->port());
      client.send_request("POST", "/v1/completions",
                          fmt::format(R"({{"prompt":"Once upon","max_tokens":50,"stream":{}}})", streams));
      wait_told(before, 3);
    }
    wait_cancelled();
    go_on();
    Facts facts = cut_after(3, "abort");
    facts.streams = streams;
    facts.status = streams ? "200" : "499";
    facts.error = "client_left";
    facts.cancelled = true;
    expect(before, facts);
  }
}

TEST_F(FatesTest, LeftBeforeItsFirstTokenWithFourAnswers) {
  hold_after(0);
  const Samples before = read();
  {
    TestClient client(server_->port());
    client.send_request("POST", "/v1/completions", R"({"prompt":"Once upon","n":4,"temperature":1})");
    wait_held();
  }
  wait_cancelled();
  go_on();
  Facts facts = cut_after(0, "abort");
  facts.reasons = {{"abort", 4}};
  facts.status = "499";
  facts.error = "client_left";
  facts.cancelled = true;
  expect(before, facts);
}

// An answer that has ended before counts as it ended.
TEST_F(FatesTest, LeftWhenOneOfTwoAnswersHadEnded) {
  engine_.script_of_choice = [](const Request&, int choice) {
    return ids_of(choice == 0 ? "one" : "on and on and on");
  };
  hold_after(5);
  const Samples before = read();
  {
    TestClient client(server_->port());
    client.send_request("POST", "/v1/completions",
                        R"({"prompt":"Once upon","n":2,"temperature":1,"stream":true,"max_tokens":50})");
    wait_told(before, 5);
  }
  wait_cancelled();
  go_on();
  Facts facts = cut_after(5, "abort");
  facts.reasons = {{"abort", 1}, {"stop", 1}};
  facts.streams = true;
  facts.error = "client_left";
  facts.cancelled = true;
  facts.first_tokens = 2;
  facts.first_token_seconds = kGap * (1 + 2);
  facts.next_token_seconds = kGap * (2 + 2 + 1);
  expect(before, facts);
}

TEST_P(FatesUnderAName, Late) {
  engine_.endless = true;
  for (const bool streams : {true, false}) {
    for (const int tokens : {3, 0}) {
      if (options_.metrics_prefix == "vllm:" && tokens == 0) continue;
      SCOPED_TRACE(fmt::format("{} after {}", streams ? "a stream" : "whole", tokens));
      const Samples before = read();
      hold_after(tokens);
      TestClient client(server_->port());
      client.send_request("POST", "/v1/completions",
                          fmt::format(R"({{"prompt":"Once upon","max_tokens":50,"stream":{}}})", streams),
                          tokens > 0 ? "X-Request-Timeout: 1\r\n" : "X-Request-Timeout: 0.05\r\n");
      EXPECT_EQ(client.read_answer().status, streams ? 200 : 503);
      go_on();
      Facts facts = cut_after(tokens, "deadline");
      facts.streams = streams && tokens > 0;
      facts.status = streams ? "200" : "503";
      facts.error = "unavailable";
      facts.refusal = tokens > 0 ? "deadline_running" : "deadline";
      facts.cancelled = true;
      expect(before, facts);
    }
  }
}

TEST_P(FatesUnderAName, Failed) {
  for (const bool streams : {true, false}) {
    SCOPED_TRACE(streams);
    engine_.fails_after = 2;
    const Samples before = read();
    EXPECT_EQ(complete(fmt::format(R"(,"stream":{})", streams)).status, streams ? 200 : 500);
    Facts facts = cut_after(2, "error");
    facts.streams = streams;
    facts.status = streams ? "200" : "500";
    facts.error = "internal";
    expect(before, facts);
  }
}

// As at a shutdown, or by other weights.
TEST_F(FatesTest, CancelledByTheServer) {
  engine_.endless = true;
  hold_after(2);
  const Samples before = read();
  TestClient client(server_->port());
  client.send_request("POST", "/v1/completions", R"({"prompt":"Once upon","max_tokens":50})");
  wait_held();
  engine_.cancel(1);
  go_on();
  EXPECT_EQ(client.read_answer().status, 503);
  Facts facts = cut_after(3, "abort");
  facts.status = "503";
  facts.error = "unavailable";
  facts.cancelled = true;
  expect(before, facts);
}

TEST_F(FatesTest, Refused) {
  Facts facts{.generates = false, .reasons = {}, .first_tokens = 0};
  Samples before = read();
  EXPECT_EQ(complete(R"(,"max_tokens":-1)").status, 400);
  facts.status = "400";
  facts.error = "invalid_request";
  expect(before, facts);
  engine_.refuse = [](const Request&) { return resource_exhausted("no room for it ever"); };
  before = read();
  EXPECT_EQ(complete().status, 400);
  expect(before, facts);
  server_.reset();
  options_.waiting.max_requests = 0;
  before = read();
  EXPECT_EQ(complete().status, 429);
  facts.status = "429";
  facts.error = "rate_limit";
  facts.refusal = "waiting_requests";
  expect(before, facts);
}

// The four APIs name the same numbers, whole and streamed, and so do the metrics.
TEST_F(FatesTest, UsageOfEveryApi) {
  struct Api {
    const char *path, *body;
    std::string_view input, cached, output, reasoning;  // "": it has no such number
  };
  constexpr std::string_view kPrompt = "prompt_tokens", kCached = "prompt_tokens_details/cached_tokens",
                             kCompletion = "completion_tokens",
                             kReasoned = "completion_tokens_details/reasoning_tokens";
  const Api apis[] = {
      {"/v1/chat/completions",
       R"("messages":[{"role":"user","content":"Hi"}],"chat_template_kwargs":{"thinking":true})", kPrompt, kCached,
       kCompletion, kReasoned},
      {"/v1/completions", R"("prompt":"Once upon")", kPrompt, kCached, kCompletion, kReasoned},
      {"/v1/responses", R"("input":"Hi","reasoning":{"effort":"high"})", "input_tokens",
       "input_tokens_details/cached_tokens", "output_tokens", "output_tokens_details/reasoning_tokens"},
      {"/v1/messages",
       R"("messages":[{"role":"user","content":"Hi"}],"max_tokens":100,"thinking":{"type":"enabled","budget_tokens":1024})",
       "input_tokens", "cache_read_input_tokens", "output_tokens", ""}};
  const std::string thought = "a long thought", said = "</think>Yes";
  say(thought + said);
  const int made = length(thought + said) + 1;
  for (const Api& api : apis) {
    for (const bool streams : {false, true}) {
      SCOPED_TRACE(fmt::format("{}{}", api.path, streams ? " streamed" : ""));
      const Samples before = read();
      const TestAnswer answer = post(api.path, fmt::format(R"({{{},"stream":{}{}}})", api.body, streams,
                                                           streams && std::string_view(api.input) == kPrompt
                                                               ? R"(,"stream_options":{"include_usage":true})"
                                                               : ""));
      ASSERT_EQ(answer.status, 200) << answer.body;
      boost::json::value usage = streams ? last_usage(answer.body) : at(parsed(answer.body), "usage");
      const bool is_messages = api.reasoning.empty();
      const int prompt = static_cast<int>(engine_.seen().back().prompt.size());
      EXPECT_EQ(number_at(usage, api.input), is_messages ? prompt - 1 : prompt) << "Messages counts cached ones apart";
      EXPECT_EQ(number_at(usage, api.cached), 1);
      EXPECT_EQ(number_at(usage, api.output), made);
      const bool reasons = std::string_view(api.path) != "/v1/completions";
      if (!is_messages) {
        EXPECT_EQ(number_at(usage, api.reasoning), reasons ? length(thought) : 0);
        EXPECT_EQ(number_at(usage, "total_tokens"), prompt + made);
      }
      Facts facts = facts_of(1, made, prompt);
      facts.path = api.path;
      facts.streams = streams;
      expect(before, facts);
    }
  }
}

}  // namespace
}  // namespace sluice::fates_test
