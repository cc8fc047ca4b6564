// The parts of the load generator that need no server: URLs, events, answers, faults of streams, traces, figures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>

#include "base/storage/temp_folder_testing.h"
#include "base/test_seed_testing.h"
#include "loadgen/answer_reader.h"
#include "loadgen/event_reader.h"
#include "loadgen/load_prompts.h"
#include "loadgen/plain_trace.h"
#include "loadgen/stream_faults.h"
#include "loadgen/traffic_report.h"
#include "net/server_url.h"
#include "sim/draws.h"

namespace sluice::load_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ServerUrl, IsReadAsUsersTypeIt) {
  const auto parts = [](const char* text) {
    const Result<ServerUrl> url = parse_server_url(text);
    return url.ok() ? url->authority() + url->prefix : url.status().message();
  };
  EXPECT_EQ(parts("http://127.0.0.1:8000"), "127.0.0.1:8000");
  EXPECT_EQ(parts("http://host:8000/v1/"), "host:8000");
  EXPECT_EQ(parts("http://host/proxy/v1"), "host:80/proxy");
  EXPECT_EQ(parts("localhost:9"), "localhost:9");
  EXPECT_EQ(parts("http://[::1]:8000"), "[::1]:8000");
  EXPECT_EQ(parts("https://host/v1"), "host:443");
  EXPECT_TRUE(parse_server_url("https://host:8443")->tls);
  EXPECT_FALSE(parse_server_url("http://host:443")->tls);
  for (const char* wrong : {"ftp://host", "http://", "http://:80", "host:0", "host:70000", "host:8000x", "http://a b",
                            "http://user@host", "http://host/?q", "[::1"})
    EXPECT_THAT(parts(wrong), HasSubstr("found '")) << wrong;
}

TEST(EventReader, GivesTheSameEventsHoweverBytesAreCut) {
  const std::string stream =
      ": a comment\r\n\r\ndata: one\n\ndata:two\ndata: lines\n\nevent: x\nid: 3\n\ndata: [DONE]\n\n";
  const std::uint64_t seed = test_seed();
  Draws draws(seed);
  for (int round = 0; round < 200; ++round) {
    EventReader reader;
    std::vector<std::string> events;
    for (std::size_t at = 0; at < stream.size();) {
      const std::size_t count = 1 + static_cast<std::size_t>(draws.below(round < 20 ? 1 : 20));
      ASSERT_TRUE(reader.feed(std::string_view(stream).substr(at, count),
                              [&](std::string_view data) { events.emplace_back(data); }));
      at += count;
    }
    ASSERT_THAT(events, ElementsAre("one", "two\nlines", "[DONE]")) << "seed " << seed;
    EXPECT_FALSE(reader.in_event());
  }
}

TEST(EventReader, AnEventWithoutEndIsNotKeptForever) {
  EventReader reader;
  const std::string much(16 << 20, 'x');
  bool fits = true;
  for (int i = 0; i < 5; ++i) fits = reader.feed(much, [](std::string_view) {});
  EXPECT_FALSE(fits);
}

AnswerRecord read_answer(const std::vector<std::string>& pieces, bool streamed = true, int status = 200,
                         CallEnd end = CallEnd::kWhole) {
  AnswerReader reader;
  AnswerRecord record;
  const HttpEvents events = reader.events([&](AnswerRecord answer) { record = std::move(answer); });
  events.on_head(status, streamed);
  for (const std::string& piece : pieces) events.on_body(piece);
  events.on_end(end, "reason");
  return record;
}

std::string chat_event(const std::string& delta, const std::string& finish = "null", const std::string& id = "a") {
  return "data: {\"id\":\"" + id + "\",\"choices\":[{\"index\":0,\"delta\":" + delta + ",\"finish_reason\":" + finish +
         "}]}\n\n";
}

TEST(AnswerReader, CountsWhatHasTextReasoningOrACall) {
  const AnswerRecord record =
      read_answer({chat_event(R"({"role":"assistant","content":""})"), chat_event(R"({"reasoning_content":"hm"})"),
                   chat_event(R"({"content":"a"})") + chat_event(R"({"content":"b"})"),
                   chat_event(R"({"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]})"),
                   chat_event("{}", "\"stop\""),
                   "data: {\"id\":\"a\",\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":5,"
                   "\"prompt_tokens_details\":{\"cached_tokens\":3}}}\n\ndata: [DONE]\n\n"});
  EXPECT_EQ(record.failure, Failure::kNone) << record.reason;
  EXPECT_THAT(record.pieces, ElementsAre("hm", "a", "b", "f{}"));
  EXPECT_EQ(record.token_times.size(), 4U);
  EXPECT_EQ(record.prompt_tokens, 7);
  EXPECT_EQ(record.completion_tokens, 5);
  EXPECT_EQ(record.cached_tokens, 3);
  EXPECT_EQ(record.finish_reason, "stop");
}

TEST(AnswerReader, ReadsWholeAnswersOfBothApis) {
  const AnswerRecord chat =
      read_answer({R"({"id":"x","choices":[{"message":{"content":"ab"},"finish_reason":"length",)"
                   R"("logprobs":{"content":[{"token":"a","logprob":-0.5},{"token":"b","logprob":-1.25}]}}],)",
                   R"("usage":{"prompt_tokens":2,"completion_tokens":2}})"},
                  false);
  EXPECT_EQ(chat.failure, Failure::kNone) << chat.reason;
  EXPECT_EQ(chat.text, "ab");
  EXPECT_EQ(chat.logprobs, "-0.5,-1.25,");
  const AnswerRecord text = read_answer(
      {R"({"id":"x","choices":[{"text":"ab","finish_reason":"length","logprobs":{"token_logprobs":[-0.5,-1.25]}}]})"},
      false);
  EXPECT_EQ(text.text, "ab");
  EXPECT_EQ(text.logprobs, chat.logprobs);
}

TEST(AnswerReader, TellsFailuresApart) {
  const std::string token = chat_event(R"({"content":"a"})"), last = chat_event("{}", "\"stop\"");
  const std::string done = "data: [DONE]\n\n";
  const auto failure = [](const AnswerRecord& record) { return record.failure; };
  EXPECT_EQ(failure(read_answer({token, last, done})), Failure::kNone);
  EXPECT_EQ(failure(read_answer({token, last})), Failure::kCut) << "no [DONE]";
  EXPECT_EQ(failure(read_answer({token, done})), Failure::kCut) << "no finish_reason";
  EXPECT_EQ(failure(read_answer({token}, true, 200, CallEnd::kBroken)), Failure::kCut);
  EXPECT_EQ(failure(read_answer({last, done})), Failure::kNoTokens);
  EXPECT_EQ(failure(read_answer({token, last, done, token})), Failure::kMalformed) << "behind [DONE]";
  EXPECT_EQ(failure(read_answer({token, "data: {\n\n"})), Failure::kMalformed);
  EXPECT_EQ(failure(read_answer({token, chat_event(R"({"content":"b"})", "null", "b"), last, done})), Failure::kMixed);
  EXPECT_EQ(failure(read_answer({"data: {\"error\":{\"message\":\"no\"}}\n\n"})), Failure::kErrorEvent);
  EXPECT_EQ(failure(read_answer({"{\"error\":{}}"}, false, 503)), Failure::kStatus);
  EXPECT_EQ(failure(read_answer({}, false, 0, CallEnd::kConnect)), Failure::kConnect);
  EXPECT_EQ(failure(read_answer({token}, true, 200, CallEnd::kTimeout)), Failure::kTimeout);
}

TEST(StreamFaults, AreFoundAsPlanted) {
  const std::string text = "the quick brown fox jumps";
  const auto count = [&](const std::vector<std::string>& pieces) {
    const StreamFaults f = find_stream_faults(text, pieces);
    return std::vector<int>{f.lost, f.duplicated, f.reordered, f.foreign};
  };
  EXPECT_THAT(count({"the ", "quick ", "brown ", "fox ", "jumps"}), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(count({"the ", "brown ", "fox ", "jumps"}), ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(count({"the ", "quick ", "brown ", "fox "}), ElementsAre(1, 0, 0, 0)) << "the end";
  EXPECT_THAT(count({"the ", "quick ", "quick ", "brown ", "fox ", "jumps"}), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(count({"the ", "brown ", "quick ", "fox ", "jumps"}), ElementsAre(0, 0, 1, 0));
  EXPECT_THAT(count({"the ", "quick ", "brown ", "cow ", "fox ", "jumps"}), ElementsAre(0, 0, 0, 1));
}

TEST(PlainTrace, KeepsLengthsRatesAndBursts) {
  PlainTraceOptions options;
  options.requests = 4000;
  options.input = 100;
  options.output = 20;
  options.spread = 0.5;
  options.rate = 10;
  options.burst = 4;
  options.seed = test_seed();
  const Result<Trace> trace = make_plain_trace(options);
  ASSERT_TRUE(trace.ok()) << trace.status().message();
  double sum = 0;
  for (std::size_t i = 0; i < trace->requests.size(); ++i) {
    const TraceRequest& request = trace->requests[i];
    EXPECT_TRUE(request.input_length >= 50 && request.input_length <= 150) << request.input_length;
    EXPECT_TRUE(request.output_length >= 10 && request.output_length <= 30) << request.output_length;
    EXPECT_EQ(request.arrival_ms, trace->requests[i - i % 4].arrival_ms);
    sum += request.input_length;
  }
  EXPECT_NEAR(sum / 4000, 100, 5);
  EXPECT_NEAR(trace->requests.back().arrival_ms, 400'000, 80'000) << "6 standard deviations";
  options.spread = 1;
  EXPECT_FALSE(make_plain_trace(options).ok());
}

TEST(TracePrompts, ShareWhatTheTraceSharesAndNothingElse) {
  PlainTraceOptions options;
  options.requests = 3;
  options.input = 320;
  options.shared_prefix = 160;
  const Trace trace = *make_plain_trace(options);
  const auto text = [&](std::size_t request, std::uint64_t salt) {
    const LoadPlan plan = plan_of_trace(trace, LoadEndpoint::kCompletions, {.base = 0, .per_word = 1}, salt);
    boost::json::object body;
    plan.prompts->add_prompt(request, body);
    return std::string(body["prompt"].get_string());
  };
  const auto common = [](const std::string& a, const std::string& b) {
    return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  };
  EXPECT_EQ(text(0, 1), text(0, 1));
  const std::string one = text(0, 1);
  EXPECT_EQ(std::count(one.begin(), one.end(), ' '), 319);
  const std::size_t shared = common(text(0, 1), text(1, 1));
  EXPECT_GE(shared, 160U * 5 - 1);
  EXPECT_LE(shared, 160U * 5 + 8);
  EXPECT_LE(common(text(0, 1), text(0, 2)), 8U);
}

TEST(Conversations, AreReadAndContinuedWithTheServersAnswers) {
  const TempFolder folder;
  const std::string path = folder.file("c.jsonl");
  std::ofstream(path) << R"({"messages":[{"role":"system","content":"S"},{"role":"user","content":"a"},)"
                      << R"({"role":"assistant","content":"theirs"},{"role":"user","content":"b"}]})" << "\n\n"
                      << R"({"conversations":[{"from":"human","value":"c"},{"from":"gpt","value":"d"}]})" << "\n";
  Result<LoadPlan> plan = plan_of_conversations(path, {.output = 9, .think_ms = 5, .rate = 0, .most = 10, .seed = 0});
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  ASSERT_EQ(plan->trace.requests.size(), 3U);
  EXPECT_EQ(plan->trace.requests[1].after, 0);
  EXPECT_EQ(plan->trace.requests[2].after, -1);
  plan->prompts->answered(0, "ours");
  boost::json::object body;
  plan->prompts->add_prompt(1, body);
  EXPECT_EQ(boost::json::serialize(body),
            R"({"messages":[{"role":"system","content":"S"},{"role":"user","content":"a"},)"
            R"({"role":"assistant","content":"ours"},{"role":"user","content":"b"}]})");
  std::ofstream(path) << "{\"messages\": 3}\n";
  EXPECT_THAT(plan_of_conversations(path, {}).status().message(), HasSubstr("c.jsonl line 1: expected a list"));
}

// A run whose times are known.
LoadRun known_run() {
  LoadRun run;
  const auto at = [](double ms) {
    return LoadClock::time_point(std::chrono::microseconds(static_cast<int>(ms * 1000)));
  };
  for (int i = 0; i < 4; ++i) {
    SentRequest sent;
    const double start = 100.0 * i;
    sent.due = at(start);
    sent.sent = at(start + 1);
    sent.asked_tokens = 3;
    sent.answer.token_times = {at(start + 11), at(start + 21), at(start + 51)};
    sent.answer.end = at(start + 52);
    sent.answer.prompt_tokens = 10;
    sent.answer.completion_tokens = i == 2 ? 2 : 3;
    if (i == 3) {
      sent.answer.failure = Failure::kCut;
      sent.answer.reason = "why";
    }
    run.requests.push_back(std::move(sent));
  }
  run.start = at(0);
  run.end = at(400);
  return run;
}

TEST(TrafficReport, HasTheFiguresOfAKnownRun) {
  const Result<ServiceLevel> slo = parse_service_level("ttft:10ms,itl:29ms");
  ASSERT_TRUE(slo.ok());
  const TrafficReport report = make_traffic_report("x", 4, known_run(), *slo);
  EXPECT_EQ(report.requests, 3);
  EXPECT_EQ(report.failures.at("cut"), 1);
  EXPECT_EQ(report.examples.at("cut"), "why");
  EXPECT_EQ(report.output_tokens, 8);
  EXPECT_EQ(report.input_tokens, 30);
  EXPECT_EQ(report.more_events, 1) << "three events of two tokens";
  EXPECT_EQ(report.short_answers, 1);
  EXPECT_NEAR(report.seconds, 0.351, 1e-9);
  EXPECT_NEAR(report.ttft.p50, 0.010, 1e-9);
  EXPECT_NEAR(report.e2e.max, 0.051, 1e-9);
  EXPECT_NEAR(report.tpot.p50, 0.020, 1e-9);
  EXPECT_NEAR(report.itl.mean, 0.020, 1e-4);
  EXPECT_NEAR(report.itl.max, 0.030, 1e-9);
  EXPECT_NEAR(report.lag.max, 0.001, 1e-9);
  EXPECT_EQ(report.goodput, 0.0) << "the longest gap is 30 ms";
  EXPECT_NEAR(*make_traffic_report("x", 4, known_run(), *parse_service_level("itl:30ms")).goodput, 3 / 0.351, 1e-6);
}

TEST(TrafficReport, IsReadBackAndCompared) {
  const TempFolder folder;
  const std::string path = folder.file("r.json");
  const std::vector<TrafficReport> reports = {make_traffic_report("4 at a time", 4, known_run(), {})};
  std::ofstream(path) << boost::json::serialize(boost::json::object{{"runs", boost::json::array{to_json(reports[0])}}});
  const Result<std::vector<TrafficReport>> read = read_traffic_reports(path);
  ASSERT_TRUE(read.ok()) << read.status().message();
  const std::string text = comparison_text(reports, *read);
  EXPECT_THAT(text, HasSubstr("ttft   mean 1.00, p50 1.00, p90 1.00, p99 1.00"));
  const std::string html = to_html("<t>", {{"a", "b&c"}}, reports, *read);
  EXPECT_THAT(html, HasSubstr("&lt;t&gt;"));
  EXPECT_THAT(html, HasSubstr("b&amp;c"));
  std::ofstream(path) << "{}";
  EXPECT_THAT(read_traffic_reports(path).status().message(), HasSubstr("found no 'runs'"));
}

TEST(ServiceLevel, NamesWhatIsWrong) {
  for (const char* wrong : {"ttft", "ttft:", "ttft:5", "ttft:-5ms", "speed:5ms", "ttft:5 ms"})
    EXPECT_FALSE(parse_service_level(wrong).ok()) << wrong;
  EXPECT_NEAR(*parse_service_level("tpot:1500us,e2e:2s").value().tpot, 0.0015, 1e-12);
}

}  // namespace
}  // namespace sluice::load_test
