// API keys and their limits, deadlines, request ids, health and the line of a request in the log.
#include <atomic>
#include <fstream>
#include <future>

#include "base/storage/temp_folder_testing.h"
#include "serve/api/api_testing.h"
#include "serve/guard/access.h"
#include "serve/guard/api_keys.h"
#include "serve/guard/key_limits.h"

namespace sluice::keys_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

class KeysTest : public ApiTest {
 protected:
  TestAnswer send(std::string_view path, std::string_view header, std::string_view body = "") {
    if (!server_) start();
    return request(server_->port(), body.empty() ? "GET" : "POST", path, body, header);
  }
};

constexpr std::string_view kBody = R"({"prompt":[5,6,7]})";

TEST(ApiKeys, SourcesAndNames) {
  const TempFolder folder;
  std::ofstream(folder.path() + "/keys") << "# ours\nann:s1 \r\nsecret-two\n\n";
  auto keys = ApiKeys::load({.keys = {"bob:b:c"}, .file = folder.path() + "/keys", .admin_environment = "root x:y"});
  ASSERT_TRUE(keys.ok()) << keys.status().message();
  EXPECT_EQ(keys->find("b:c")->name, "bob");
  EXPECT_EQ(keys->find("s1")->name, "ann");
  EXPECT_EQ(keys->find("secret-two")->name, "key3");
  EXPECT_FALSE(keys->find("secret-two")->is_admin);
  EXPECT_TRUE(keys->find("root")->is_admin);
  EXPECT_EQ(keys->find("y")->name, "x");
  for (const char* wrong : {"", "s", "s11", "ann:s1", "S1", "bob"}) EXPECT_EQ(keys->find(wrong), nullptr) << wrong;
}

TEST(ApiKeys, MistakesAreNamedWithoutTheSecret) {
  const TempFolder folder;
  std::ofstream(folder.path() + "/none") << "# nothing\n";
  for (const ApiKeys::Sources& sources :
       {ApiKeys::Sources{.keys = {"a b:topsecret"}}, ApiKeys::Sources{.keys = {"a:topsecret", "a:other"}},
        ApiKeys::Sources{.keys = {"a:topsecret", "b:topsecret"}}, ApiKeys::Sources{.keys = {"a:"}},
        ApiKeys::Sources{.file = folder.path() + "/none"}, ApiKeys::Sources{.file = folder.path() + "/missing"}}) {
    const auto keys = ApiKeys::load(sources);
    ASSERT_FALSE(keys.ok());
    EXPECT_THAT(keys.status().message(), Not(HasSubstr("topsecret")));
  }
}

TEST_F(KeysTest, OnlyKeysOpenTheServer) {
  options_.keys = {.keys = {"ann:s3cret"}, .admin_keys = {"root:boss"}};
  say("one");
  for (const char* header : {"", "Authorization: Bearer wrong\r\n", "Authorization: Basic s3cret\r\n",
                             "x-api-key: s3cre\r\n", "Authorization: Bearer \r\n"}) {
    const TestAnswer answer = send("/v1/completions", header, kBody);
    expect_error(answer, 401, "", "API key");
    EXPECT_THAT(answer.head, HasSubstr("WWW-Authenticate: Bearer"));
    EXPECT_EQ(send("/metrics", header).status, 401);
    EXPECT_EQ(send("/debug/cache", header).status, 401);
  }
  EXPECT_TRUE(engine_.seen().empty());
  for (const char* header : {"Authorization: Bearer s3cret\r\n", "authorization: bearer s3cret\r\n",
                             "X-API-Key: s3cret\r\n", "x-api-key: boss\r\n"}) {
    EXPECT_EQ(send("/v1/completions", header, kBody).status, 200) << header;
  }
  for (const char* path : {"/health", "/health/live", "/health/ready", "/"}) EXPECT_EQ(send(path, "").status, 200);
  EXPECT_NE(send("/page/any", "").status, 401);
  EXPECT_EQ(send("/v1/weights/reload", "x-api-key: s3cret\r\n", "{}").status, 403);
  EXPECT_EQ(send("/debug/cache", "x-api-key: s3cret\r\n").status, 403);
  EXPECT_EQ(send("/debug/cache", "x-api-key: boss\r\nVia: 1.1 proxy\r\n").status, 200);
}

TEST_F(KeysTest, AnAdminsKeyAloneClosesDebugOnly) {
  options_.keys = {.admin_keys = {"root:boss"}};
  EXPECT_EQ(send("/v1/models", "").status, 200);
  EXPECT_EQ(send("/debug/cache", "").status, 401);
  EXPECT_EQ(send("/debug/cache", "x-api-key: boss\r\n").status, 200);
}

TEST_F(KeysTest, FilesAreReadAgain) {
  const TempFolder folder;
  options_.keys.file = folder.path() + "/keys";
  std::ofstream(options_.keys.file) << "old";
  EXPECT_EQ(send("/v1/models", "x-api-key: old\r\n").status, 200);
  std::ofstream(options_.keys.file) << "new";
  server_->reload();
  EXPECT_EQ(send("/v1/models", "x-api-key: old\r\n").status, 401);
  EXPECT_EQ(send("/v1/models", "x-api-key: new\r\n").status, 200);
  std::ofstream(options_.keys.file) << "a!:c";
  server_->reload();
  EXPECT_EQ(send("/v1/models", "x-api-key: new\r\n").status, 200) << "a broken file changes nothing";
}

TEST(KeyLimits, FlowBackEvenly) {
  const auto limits = std::make_shared<KeyLimits>(KeyLimitOptions{.requests_per_minute = 2, .tokens_per_minute = 60});
  KeyLimits::Time now{};
  const auto enter = [&](std::string_view key) -> int {  // 0, or when to try again
    auto entered = limits->enter(key, now);
    const auto* refusal = std::get_if<KeyLimits::Refusal>(&entered);
    return refusal == nullptr ? 0 : refusal->retry_after;
  };
  EXPECT_EQ(enter("a"), 0);
  EXPECT_EQ(enter("a"), 0);
  EXPECT_EQ(enter("a"), 30);
  EXPECT_EQ(enter("b"), 0) << "each key by itself";
  now += 29s;
  EXPECT_EQ(enter("a"), 1);
  now += 1s;
  EXPECT_EQ(enter("a"), 0);
  now += 10min;
  auto ticket = std::get<0>(limits->enter("a", now));
  ticket->use_tokens(100);
  EXPECT_EQ(enter("a"), 41) << "until one of 60 tokens is free again";
  now += 41s;
  EXPECT_EQ(enter("a"), 0);
}

TEST_F(KeysTest, RunningRequestsOfAKeyAreLimited) {
  options_.keys = {.keys = {"ann:a", "bob:b"}};
  options_.key_limits.max_running = 1;
  std::promise<void> go;
  engine_.before_output = [wait = go.get_future().share()] { wait.wait(); };
  say("one");
  start();
  TestClient first(server_->port());
  first.send_request("POST", "/v1/completions", kBody, "x-api-key: a\r\n");
  while (engine_.seen().empty()) std::this_thread::sleep_for(1ms);
  const TestAnswer refused = send("/v1/completions", "x-api-key: a\r\n", kBody);
  expect_error(refused, 429, "", "at once");
  EXPECT_THAT(refused.head, HasSubstr("Retry-After: 1"));
  TestClient other(server_->port());
  other.send_request("POST", "/v1/completions", kBody, "x-api-key: b\r\n");
  go.set_value();
  EXPECT_EQ(other.read_answer().status, 200);
  EXPECT_EQ(first.read_answer().status, 200);
  engine_.wait_idle();
  EXPECT_EQ(send("/v1/completions", "x-api-key: a\r\n", kBody).status, 200);
  EXPECT_THAT(get("/health").head, HasSubstr("200"));
  EXPECT_THAT(send("/metrics", "x-api-key: a\r\n").body,
              HasSubstr("sluice_requests_refused_total{model_name=\"tiny\",reason=\"key_running\"} 1"));
}

// The engine's thread lets go of a request some time after it has told of its end.
TEST_F(KeysTest, WhoHasItsAnswerMayAskAgainAtOnce) {
  options_.keys = {.keys = {"ann:a", "bob:b"}};
  options_.key_limits.max_running = 1;
  std::promise<void> alone, both, go;
  int outputs = 0;
  engine_.before_output = [&, begun = both.get_future().share(), wait = go.get_future().share()] {
    if (++outputs == 1) {  // ann's token, a turn of its own; then her end and bob's token are one turn of the engine
      alone.set_value();
      begun.wait();
    }
    if (outputs == 3) wait.wait();
  };
  say("one");
  start();
  TestClient ann(server_->port()), bob(server_->port());
  ann.send_request("POST", "/v1/completions", kBody, "x-api-key: a\r\n");
  alone.get_future().wait();
  bob.send_request("POST", "/v1/completions", kBody, "x-api-key: b\r\n");
  while (engine_.seen().size() < 2) std::this_thread::sleep_for(1ms);
  both.set_value();
  EXPECT_EQ(ann.read_answer().status, 200);
  auto again = std::async(std::launch::async, [&] { return send("/v1/completions", "x-api-key: a\r\n", kBody); });
  while (engine_.seen().size() < 3 && again.wait_for(1ms) != std::future_status::ready) {
  }
  go.set_value();
  EXPECT_EQ(again.get().status, 200);
  EXPECT_EQ(bob.read_answer().status, 200);
}

// Calls that compute nothing with the model are counted by the minute, under deadlines, but not as running and without
// tokens.
TEST_F(KeysTest, CallsThatGenerateNothingHaveTheLimitsThatMakeSense) {
  struct Call {
    const char *path, *body;
  };
  constexpr Call kCalls[] = {
      {"/tokenize", R"({"prompt":"one two three"})"},
      {"/detokenize", R"({"tokens":[300]})"},
      {"/v1/chat/completions/render", R"({"messages":[{"role":"user","content":"x"}]})"},
      {"/v1/messages/count_tokens", R"({"messages":[{"role":"user","content":"x"}]})"},
      {"/v1/responses/input_tokens", R"({"input":"x"})"},
  };
  options_.keys = {.keys = {"ann:a", "bob:b"}};
  options_.key_limits.requests_per_minute = 6;
  options_.key_limits.tokens_per_minute = 3;
  options_.key_limits.max_running = 1;
  say("one");
  auto time = std::make_shared<std::atomic<std::int64_t>>(0);  // moves only when the test moves it
  auto step = std::make_shared<std::atomic<std::int64_t>>(0);
  options_.now = [time, step] {
    return std::chrono::steady_clock::time_point(std::chrono::milliseconds(*time += *step));
  };
  EXPECT_EQ(send("/v1/completions", "x-api-key: a\r\n", kBody).status, 200);
  for (const Call& call : kCalls) {  // though the minute's tokens are used up
    EXPECT_EQ(send(call.path, "x-api-key: a\r\n", call.body).status, 200) << call.path;
  }
  for (const Call& call : kCalls) {
    const TestAnswer refused = send(call.path, "x-api-key: a\r\n", call.body);
    EXPECT_EQ(refused.status, 429) << call.path;
    EXPECT_THAT(refused.body, HasSubstr("requests a minute"));
    EXPECT_THAT(refused.head, HasSubstr("Retry-After: "));
    EXPECT_EQ(send(call.path, "x-api-key: b\r\n", call.body).status, 200);
  }
  *time += 600000;
  *step = 100;
  for (const Call& call : kCalls) {
    const TestAnswer late = send(call.path, "x-api-key: a\r\nX-Request-Timeout: 0.05\r\n", call.body);
    EXPECT_EQ(late.status, 503) << call.path;
    EXPECT_THAT(late.body, HasSubstr("nothing was computed"));
  }
}

TEST_F(KeysTest, CallsThatGenerateNothingWaitAmongTheOthers) {
  options_.waiting.max_requests = 0;
  const TestAnswer refused = post("/tokenize", R"({"prompt":"one"})");
  expect_error(refused, 429, "", "too many requests wait");
}

TEST_F(KeysTest, TokensAMinuteCountPromptsAndAnswers) {
  options_.key_limits.tokens_per_minute = 3;
  say("one two three");
  EXPECT_EQ(post("/v1/completions", kBody).status, 200);
  const TestAnswer refused = post("/v1/completions", kBody);
  expect_error(refused, 429, "", "tokens a minute");
  EXPECT_EQ(text_at(parsed(refused.body), "error/code"), "tokens_per_minute");
}

TEST_F(KeysTest, WhatExpiresWhileItWaitsNeverRuns) {
  say("one");
  auto time = std::make_shared<std::atomic<std::int64_t>>(0);
  options_.now = [time] { return std::chrono::steady_clock::time_point(std::chrono::milliseconds((*time)++ * 100)); };
  const TestAnswer answer = send("/v1/completions", "X-Request-Timeout: 0.05\r\n", kBody);
  expect_error(answer, 503, "", "nothing was computed");
  EXPECT_EQ(text_at(parsed(answer.body), "error/code"), "deadline_exceeded");
  EXPECT_THAT(answer.head, HasSubstr("Retry-After: 1"));
  EXPECT_TRUE(engine_.seen().empty());
  for (const char* wrong : {"0", "-1", "soon", "1s", "nan", "1e9"}) {
    expect_error(send("/v1/completions", fmt::format("X-Request-Timeout: {}\r\n", wrong), kBody), 400, "", "Timeout");
  }
}

// The clock stands still and the network's thread waits for the first token, so that the timer alone ends the request,
// and not before it has begun.
TEST_F(KeysTest, ARunningRequestIsCutAtItsDeadline) {
  say("one ");
  engine_.endless = true;
  engine_.step = 5ms;
  std::atomic<int> outputs = 0;
  engine_.before_output = [&] { ++outputs; };
  engine_.submitted = [&] {
    for (const int before = outputs; outputs < before + 2;) std::this_thread::sleep_for(1ms);
  };
  options_.now = [] { return std::chrono::steady_clock::time_point(1h); };
  options_.request_timeout_seconds = 0.2;
  expect_error(complete(R"(,"max_tokens":4000)"), 503, "", "before its answer was complete");
  const TestAnswer stream = complete(R"(,"max_tokens":4000,"stream":true)");
  EXPECT_EQ(stream.status, 200);
  EXPECT_TRUE(stream.whole);
  EXPECT_THAT(stream.body, HasSubstr("deadline_exceeded"));
  EXPECT_TRUE(engine_.wait_idle()) << "its memory is free";
  engine_.submitted = {};
  EXPECT_EQ(send("/v1/completions", "X-Request-Timeout: 600\r\n", R"({"prompt":[5],"max_tokens":3})").status, 200);
}

TEST_F(KeysTest, RequestIdsComeBackOrAreMade) {
  say("one");
  for (const char* path : {"/v1/models", "/nowhere", "/metrics"}) {
    EXPECT_THAT(send(path, "X-Request-Id: abc 1\r\n").head, HasSubstr("X-Request-Id: abc 1\r\n"));
    EXPECT_THAT(send(path, "").head, HasSubstr("X-Request-Id: req-"));
  }
  const std::string longest(128, 'x');
  EXPECT_THAT(send("/v1/models", fmt::format("X-Request-Id: {}\r\n", longest)).head, HasSubstr(longest));
  EXPECT_THAT(send("/v1/models", fmt::format("X-Request-Id: {}y\r\n", longest)).head, Not(HasSubstr(longest)));
  EXPECT_THAT(send("/v1/models", "X-Request-Id: a\xC3\xA4\r\n").head, HasSubstr("X-Request-Id: req-"));
  for (const char* stream : {"false", "true"}) {
    EXPECT_THAT(
        send("/v1/completions", "X-Request-Id: s\r\n", fmt::format(R"({{"prompt":[5],"stream":{}}})", stream)).head,
        HasSubstr("X-Request-Id: s\r\n"));
  }
  TestClient broken(server_->port());
  broken.send("nonsense\r\n\r\n");
  EXPECT_THAT(broken.read_answer().head, HasSubstr("X-Request-Id: req-"));
}

TEST_F(KeysTest, HealthLiveAndReady) {
  engine_.alive = false;
  EXPECT_EQ(get("/health/live").status, 200);
  EXPECT_EQ(get("/health/ready").status, 503);
  engine_.alive = true;
  EXPECT_EQ(get("/health/ready").status, 200);
  engine_.turns = false;
  EXPECT_EQ(get("/health/live").status, 503);
  engine_.turns = true;
  engine_.counters.turn_seconds = 29;
  EXPECT_EQ(get("/health/live").status, 200);
  engine_.counters.turn_seconds = 31;
  EXPECT_THAT(get("/health/live").body, HasSubstr("in one step for 31 seconds"));
}

TEST_F(KeysTest, WithoutAWatchdogALongStepIsAlive) {
  options_.watchdog_seconds = 0;
  engine_.counters.turn_seconds = 31;
  EXPECT_EQ(get("/health/live").status, 200);  // the engine is still given time to answer
  engine_.turns = false;
  EXPECT_EQ(get("/health/live").status, 503);
}

TEST_F(KeysTest, AnAnswerSaysWhichSpanOfItsTraceItWas) {
  const std::string trace = "0af7651916cd43dd8448eb211c80319c";
  const std::string parent = "traceparent: 00-" + trace + "-b7ad6b7169203331-01\r\n";
  for (const char* path : {"/v1/models", "/nothing"}) {
    const std::string head = send(path, parent).head;
    EXPECT_THAT(head, ::testing::ContainsRegex("\r\nTraceparent: 00-" + trace + "-[0-9a-f]+-01\r\nTraceresponse: 00-" +
                                               trace + "-[0-9a-f]+-01\r\n"));
    EXPECT_THAT(head, Not(HasSubstr("b7ad6b7169203331"))) << "it is a span of its own";
  }
  EXPECT_THAT(send("/v1/models", "traceparent: 00-" + trace + "-b7ad6b7169203331-00\r\n").head, HasSubstr("-00\r\n"));
  EXPECT_THAT(send("/v1/models", "traceparent: 00-0-0-01\r\n").head, Not(HasSubstr("Trace")));
  EXPECT_THAT(get("/v1/models").head, Not(HasSubstr("Trace"))) << "nobody would look for it";
}

TEST_F(KeysTest, VersionAndInfoWithoutSecrets) {
  options_.keys = {.keys = {"ann:s3cret"}};
  options_.version = "1.2.3";
  options_.configuration = {{"--max-num-seqs", "7"}};
  EXPECT_EQ(send("/version", "x-api-key: s3cret\r\n").body, R"({"version":"1.2.3"})");
  const TestAnswer info = send("/server_info", "x-api-key: s3cret\r\n");
  EXPECT_EQ(text_at(parsed(info.body), "options/--max-num-seqs"), "7");
  EXPECT_EQ(text_at(parsed(info.body), "profile"), "fake");
  EXPECT_THAT(info.body, Not(HasSubstr("s3cret")));
}

class RequestLogTest : public KeysTest {
 protected:
  // The line of a request, whose text is "one".
  std::string line_of(std::string_view header) {
    set_log_level(LogLevel::kInfo);
    ::testing::internal::CaptureStderr();
    say("one");
    EXPECT_EQ(send("/v1/completions", header, R"({"prompt":"Once upon","seed":1})").status, 200);
    server_->stop(60s);
    const std::string log = ::testing::internal::GetCapturedStderr();
    set_log_level(LogLevel::kOff);
    set_log_format(LogFormat::kText);
    const std::size_t start = log.find("request");
    return log.substr(log.rfind('\n', start) + 1, log.find('\n', start) - log.rfind('\n', start) - 1);
  }
};

TEST_F(RequestLogTest, OneLineWithoutTexts) {
  options_.keys = {.keys = {"ann:s3cret"}};
  const std::string line = line_of("x-api-key: s3cret\r\nX-Request-Id: my \"id\r\n");
  for (const char* part : {R"(id="my \"id")", "key=ann", "status=200", "completion_tokens=2",
                           "ttft_s=", "total_s=", "finish=stop", "path=/v1/completions"}) {
    EXPECT_THAT(line, HasSubstr(part));
  }
  EXPECT_THAT(line, Not(HasSubstr("s3cret")));
  EXPECT_THAT(line, Not(HasSubstr("Once")));
}

TEST_F(RequestLogTest, AsJsonAndWithTextsIfWanted) {
  set_log_format(LogFormat::kJson);
  options_.log_text = true;
  const boost::json::value line = parsed(line_of("X-Request-Id: my \"id\r\n"));
  EXPECT_EQ(text_at(line, "id"), "my \"id");
  EXPECT_EQ(text_at(line, "message"), "request");
  EXPECT_EQ(number_at(line, "completion_tokens"), 2);
  EXPECT_THAT(text_at(line, "prompt"), HasSubstr("Once upon"));
  EXPECT_THAT(text_at(line, "answers"), HasSubstr("one"));
}

}  // namespace
}  // namespace sluice::keys_test
