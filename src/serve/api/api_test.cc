// The endpoints: answers, errors, clients that leave, the end of a server.
#include <atomic>
#include <future>
#include <map>
#include <thread>

#include "serve/api/api_testing.h"

namespace sluice::api_test {
namespace {

namespace json = boost::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

TEST_F(ApiTest, ChatWhole) {
  say("The answer is 42.");
  const TestAnswer answer = chat();
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json::value body = parsed(answer.body);
  EXPECT_THAT(text_at(body, "id"), ::testing::StartsWith("chatcmpl-"));
  EXPECT_EQ(text_at(body, "object"), "chat.completion");
  EXPECT_EQ(text_at(body, "model"), "tiny");
  EXPECT_EQ(text_at(body, "system_fingerprint"), "fake");
  EXPECT_EQ(text_at(body, "choices/0/message/role"), "assistant");
  EXPECT_EQ(text_at(body, "choices/0/message/content"), "The answer is 42.");
  EXPECT_EQ(text_at(body, "choices/0/finish_reason"), "stop");
  EXPECT_TRUE(at(body, "choices/0/logprobs").is_null());
  const auto prompt = ids_of("<｜begin▁of▁sentence｜><｜User｜>Hi<｜Assistant｜></think>");
  EXPECT_EQ(engine_.seen().at(0).prompt, prompt);
  EXPECT_EQ(number_at(body, "usage/prompt_tokens"), static_cast<std::int64_t>(prompt.size()));
  EXPECT_EQ(number_at(body, "usage/completion_tokens"),
            static_cast<std::int64_t>(ids_of("The answer is 42.").size() + 1));
  EXPECT_EQ(number_at(body, "usage/prompt_tokens_details/cached_tokens"), 0);
}

TEST_F(ApiTest, ChatStream) {
  say("Grüße, 世界!");
  const TestAnswer answer = chat(R"(,"stream":true,"stream_options":{"include_usage":true})");
  EXPECT_THAT(answer.head, HasSubstr("text/event-stream"));
  EXPECT_TRUE(answer.whole);
  const auto events = events_of(answer.body);
  ASSERT_GE(events.size(), 5U);
  EXPECT_EQ(text_at(parsed(events[0]), "choices/0/delta/role"), "assistant");
  std::string content;
  for (std::size_t i = 0; i + 2 < events.size(); ++i) {
    const json::value chunk = parsed(events[i]);
    EXPECT_EQ(text_at(chunk, "object"), "chat.completion.chunk");
    EXPECT_EQ(text_at(chunk, "id"), text_at(parsed(events[0]), "id"));
    EXPECT_TRUE(at(chunk, "usage").is_null());
    content += text_at(chunk, "choices/0/delta/content");
    EXPECT_EQ(text_at(chunk, "choices/0/finish_reason"), i + 3 < events.size() ? "" : "stop");
  }
  EXPECT_EQ(content, "Grüße, 世界!");
  const json::value usage = parsed(events[events.size() - 2]);
  EXPECT_TRUE(at(usage, "choices").get_array().empty());
  EXPECT_GT(number_at(usage, "usage/total_tokens"), 0);
  EXPECT_EQ(events.back(), "[DONE]");
}

TEST_F(ApiTest, UsageSoFarInEveryChunk) {
  say("one two three");
  const auto events =
      events_of(chat(R"(,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true})").body);
  ASSERT_GE(events.size(), 5U);
  std::int64_t before = 0;
  for (std::size_t i = 0; i + 1 < events.size(); ++i) {
    const json::value chunk = parsed(events[i]);
    const std::int64_t tokens = number_at(chunk, "usage/completion_tokens");
    EXPECT_GE(tokens, before) << events[i];
    EXPECT_EQ(number_at(chunk, "usage/total_tokens"), number_at(chunk, "usage/prompt_tokens") + tokens);
    before = tokens;
  }
  EXPECT_EQ(number_at(parsed(events[0]), "usage/completion_tokens"), 0);
  EXPECT_EQ(before, static_cast<std::int64_t>(ids_of("one two three").size() + 1));
}

TEST_F(ApiTest, OneReadingOfTheMetricsIsOneSnapshot) {
  start();
  const int before = engine_.readings();
  const std::string text = get("/metrics").body;
  EXPECT_THAT(text, HasSubstr("sluice_num_requests_running 0"));
  EXPECT_EQ(engine_.readings(), before + 1);
}

TEST_F(ApiTest, ThinkingIsReasoningContent) {
  say("2 + 2 is 4</think>Four.");
  const json::value body = parsed(chat(R"(,"chat_template_kwargs":{"thinking":true})").body);
  EXPECT_EQ(text_at(body, "choices/0/message/reasoning_content"), "2 + 2 is 4");
  EXPECT_EQ(text_at(body, "choices/0/message/content"), "Four.");
  EXPECT_EQ(number_at(body, "usage/completion_tokens_details/reasoning_tokens"),
            static_cast<std::int64_t>(ids_of("2 + 2 is 4").size()));
  EXPECT_EQ(engine_.seen().at(0).prompt.back(), ids_of("<think>").at(0));
}

constexpr std::string_view kTools =
    R"(,"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object"}}}])";
constexpr std::string_view kCall =
    "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" "
    "string=\"true\">Oslo"
    "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>";

TEST_F(ApiTest, ToolCallWholeAndStreamed) {
  say(kCall);
  const json::value body = parsed(chat(kTools).body);
  EXPECT_EQ(text_at(body, "choices/0/finish_reason"), "tool_calls");
  EXPECT_TRUE(at(body, "choices/0/message/content").is_null());
  EXPECT_EQ(text_at(body, "choices/0/message/tool_calls/0/function/name"), "get_weather");
  EXPECT_EQ(at(parsed(text_at(body, "choices/0/message/tool_calls/0/function/arguments")), "city"), "Oslo");
  EXPECT_THAT(text_at(body, "choices/0/message/tool_calls/0/id"), ::testing::StartsWith("call_"));

  std::string name, arguments, finish;
  for (const std::string& event : events_of(chat(std::string(kTools) + R"(,"stream":true)").body)) {
    if (event == "[DONE]") continue;
    const json::value chunk = parsed(event);
    name += text_at(chunk, "choices/0/delta/tool_calls/0/function/name");
    arguments += text_at(chunk, "choices/0/delta/tool_calls/0/function/arguments");
    finish += text_at(chunk, "choices/0/finish_reason");
  }
  EXPECT_EQ(name, "get_weather");
  EXPECT_EQ(at(parsed(arguments), "city"), "Oslo");
  EXPECT_EQ(finish, "tool_calls");

  chat(std::string(kTools) + R"(,"tool_choice":"none")");
  EXPECT_LT(engine_.seen().back().prompt.size(), 20U);
  EXPECT_EQ(chat(std::string(kTools) + R"(,"tool_choice":"required")").status, 200);
  EXPECT_NE(engine_.seen().back().constraint, nullptr);
  expect_error(chat(R"(,"chat_template_kwargs":{"x":1})"), 400, "chat_template_kwargs", "unknown field");
}

TEST_F(ApiTest, ACutToolCallIsNoJson) {
  say(kCall);
  const std::size_t whole = ids_of(kCall).size();
  int open = 0;
  for (std::size_t tokens = 1; tokens < whole; ++tokens) {
    const json::value body = parsed(chat(fmt::format("{},\"max_tokens\":{}", kTools, tokens)).body);
    EXPECT_EQ(text_at(body, "choices/0/finish_reason"), "length");
    EXPECT_THAT(text_at(body, "choices/0/message/content"), ::testing::Not(HasSubstr("<")));
    if (at(body, "choices/0/message/tool_calls").is_null()) continue;
    const std::string arguments = text_at(body, "choices/0/message/tool_calls/0/function/arguments");
    const bool is_whole = arguments == R"({"city": "Oslo"})";
    EXPECT_EQ(parse_json(arguments, "arguments").ok(), is_whole) << arguments;
    EXPECT_TRUE(std::string_view(R"({"city": "Oslo"})").starts_with(arguments)) << arguments;
    open += !is_whole;
  }
  EXPECT_GT(open, 5);
  EXPECT_EQ(text_at(parsed(chat(std::string(kTools) + R"(,"stop":["slo"])").body),
                    "choices/0/message/tool_calls/0/function/arguments"),
            R"({"city": "Oslo"})")
      << "stop strings are about the text that the client gets";
}

TEST_F(ApiTest, StopStringsEndTheAnswerAndTheRequest) {
  say("one two three four");
  engine_.endless = true;
  engine_.step = 1ms;
  const json::value body = parsed(chat(R"(,"stop":["e f","zzz"])").body);
  EXPECT_EQ(text_at(body, "choices/0/message/content"), "one two thre");
  EXPECT_EQ(text_at(body, "choices/0/finish_reason"), "stop");
  EXPECT_TRUE(engine_.wait_idle());
  EXPECT_EQ(engine_.stats().cancelled_requests, 1U);
}

// The answer ends while its last word may still become a stop string: it is no less part of it.
TEST_F(ApiTest, TextHeldBackForAStopStringIsToldWhenTheAnswerEnds) {
  const std::size_t tokens = ids_of("one two three").size();
  for (const bool by_length : {true, false}) {
    say(by_length ? "one two three four" : "one two three");
    const std::string more = fmt::format(R"(,"stop":["three five","e 5"],"max_tokens":{})", tokens + !by_length);
    const char* reason = by_length ? "length" : "stop";
    const json::value whole = parsed(chat(more).body), completion = parsed(complete(more).body);
    EXPECT_EQ(text_at(whole, "choices/0/message/content"), "one two three");
    EXPECT_EQ(text_at(whole, "choices/0/finish_reason"), reason);
    EXPECT_EQ(text_at(completion, "choices/0/text"), "one two three");
    EXPECT_EQ(text_at(completion, "choices/0/finish_reason"), reason);
    std::string streamed, finish;
    for (const std::string& event : events_of(chat(more + R"(,"stream":true)").body)) {
      if (event == "[DONE]") continue;
      streamed += text_at(parsed(event), "choices/0/delta/content");
      finish += text_at(parsed(event), "choices/0/finish_reason");
    }
    EXPECT_EQ(streamed, "one two three");
    EXPECT_EQ(finish, reason);
    streamed.clear();
    for (const std::string& event : events_of(complete(more + R"(,"stream":true)").body)) {
      if (event != "[DONE]") streamed += text_at(parsed(event), "choices/0/text");
    }
    EXPECT_EQ(streamed, "one two three");
  }
}

TEST_F(ApiTest, MaxTokensEndWithLength) {
  say("one two three four");
  for (const char* field : {"max_tokens", "max_completion_tokens"}) {
    const json::value body = parsed(chat(fmt::format(R"(,"{}":2)", field)).body);
    EXPECT_EQ(text_at(body, "choices/0/finish_reason"), "length");
    EXPECT_EQ(number_at(body, "usage/completion_tokens"), 2);
  }
}

TEST_F(ApiTest, LogprobsListEveryToken) {
  say("one</think>Yes 世");
  const std::string_view more = R"(,"chat_template_kwargs":{"thinking":true},"logprobs":true,"top_logprobs":2)";
  const json::value body = parsed(chat(more).body);
  const json::value content = at(body, "choices/0/logprobs/content");
  ASSERT_TRUE(content.is_array());
  const json::array& items = content.get_array();
  EXPECT_EQ(static_cast<std::int64_t>(items.size()), number_at(body, "usage/completion_tokens"));
  EXPECT_EQ(text_at(items[0], "token"), "one");
  EXPECT_EQ(at(items[0], "bytes"), (json::array{'o', 'n', 'e'}));
  EXPECT_EQ(at(items[0], "logprob"), -0.5);
  EXPECT_EQ(at(items[0], "top_logprobs").get_array().size(), 2U);
  std::size_t streamed = 0;
  for (const std::string& event : events_of(chat(std::string(more) + R"(,"stream":true)").body)) {
    if (event == "[DONE]") continue;
    const json::value list = at(parsed(event), "choices/0/logprobs/content");
    if (list.is_array()) streamed += list.get_array().size();
  }
  EXPECT_EQ(streamed, items.size());
}

TEST_F(ApiTest, CompletionOfSeveralPrompts) {
  engine_.script = [](const Request& request) { return request.prompt; };
  const auto answer = post("/v1/completions", R"({"prompt":["one two","three"],"max_tokens":50,"echo":true})");
  const json::value body = parsed(answer.body);
  EXPECT_EQ(text_at(body, "object"), "text_completion");
  EXPECT_EQ(text_at(body, "choices/0/text"), "one twoone two");
  EXPECT_EQ(text_at(body, "choices/1/text"), "threethree");
  EXPECT_EQ(number_at(body, "choices/1/index"), 1);
  std::map<std::int64_t, std::string> texts;
  for (const std::string& event :
       events_of(post("/v1/completions", R"({"prompt":["one two",[500,501]],"stream":true})").body)) {
    if (event == "[DONE]") continue;
    texts[number_at(parsed(event), "choices/0/index")] += text_at(parsed(event), "choices/0/text");
  }
  EXPECT_EQ(texts[0], "one two");
  EXPECT_EQ(texts[1], tokenizer().decode(std::vector<std::int32_t>{500, 501}, false));
}

TEST_F(ApiTest, CompletionLogprobs) {
  say("one 世");
  const json::value body = parsed(complete(R"(,"logprobs":3)").body);
  const json::value lists = at(body, "choices/0/logprobs");
  const std::size_t count = static_cast<std::size_t>(number_at(body, "usage/completion_tokens"));
  for (const char* list : {"tokens", "token_logprobs", "top_logprobs", "text_offset"}) {
    EXPECT_EQ(at(lists, list).get_array().size(), count) << list;
  }
  EXPECT_EQ(number_at(lists, "text_offset/0"), 0);
  EXPECT_EQ(text_at(lists, "tokens/0"), "one");
  EXPECT_EQ(number_at(lists, "text_offset/1"), 3);
}

TEST_F(ApiTest, SamplingDefaultsComeFromTheModelAndSeedsAreDrawn) {
  complete();
  complete(R"(,"temperature":0,"top_p":0.5,"top_k":-1,"min_p":0.1,"seed":-7)");
  const auto seen = engine_.seen();
  EXPECT_FLOAT_EQ(seen[0].sampling.temperature, 0.6F);
  EXPECT_FLOAT_EQ(seen[0].sampling.top_p, 0.9F);
  EXPECT_EQ(seen[0].sampling.top_k, 40);
  EXPECT_EQ(seen[0].max_tokens, 16);
  EXPECT_THAT(seen[0].stop_token_ids, ElementsAre(1));
  EXPECT_EQ(seen[1].sampling.temperature, 0.0F);
  EXPECT_EQ(seen[1].sampling.top_k, -1);
  EXPECT_EQ(seen[1].sampling.seed, static_cast<std::uint64_t>(-7));
  complete(R"(,"ignore_eos":true,"stop_token_ids":[5])");
  EXPECT_THAT(engine_.seen()[2].stop_token_ids, ElementsAre(5));
  post("/v1/completions", R"({"prompt":["a","a"]})");
  EXPECT_NE(engine_.seen()[3].sampling.seed, engine_.seen()[4].sampling.seed);
}

TEST_F(ApiTest, PenaltiesOfTheModelAreARequestsDefaults) {
  defaults_.min_p = 0.2F;
  defaults_.repetition_penalty = 1.3F;
  defaults_.presence_penalty = 0.5F;
  complete();
  chat();
  post("/v1/responses", R"({"input":"Hi"})");
  post("/v1/messages", R"({"max_tokens":5,"messages":[{"role":"user","content":"Hi"}]})");
  complete(R"(,"repetition_penalty":1,"presence_penalty":0,"frequency_penalty":1.5,"min_p":0)");
  complete(R"(,"repetition_penalty":1,"presence_penalty":0)");
  const auto seen = engine_.seen();
  ASSERT_EQ(seen.size(), 6U);
  for (std::size_t i = 0; i < 4; ++i) {
    ASSERT_NE(seen[i].rules, nullptr) << i;
    EXPECT_FLOAT_EQ(seen[i].rules->repetition_penalty, 1.3F);
    EXPECT_FLOAT_EQ(seen[i].rules->presence_penalty, 0.5F);
    EXPECT_FLOAT_EQ(seen[i].sampling.min_p, 0.2F);
  }
  EXPECT_EQ(seen[4].rules->repetition_penalty, 1.0F);
  EXPECT_EQ(seen[4].rules->frequency_penalty, 1.5F);
  EXPECT_EQ(seen[4].sampling.min_p, 0.0F);
  EXPECT_EQ(seen[5].rules, nullptr);
}

TEST_F(ApiTest, PromptsBeyondTheContext) {
  engine_.context_tokens = 20;
  expect_error(complete(R"(,"max_tokens":19)"), 400, "max_tokens", "20 tokens");
  expect_error(post("/v1/completions", R"({"prompt":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]})"), 400,
               "prompt", "the prompt has 20");
  expect_error(post("/v1/completions", R"({"prompt":[4096]})"), 400, "prompt", "below 4096, found 4096");
  expect_error(post("/v1/completions", R"({"prompt":""})"), 400, "prompt", "at least one token");
}

TEST_F(ApiTest, WithoutALimitAnAnswerGetsWhatTheEngineCanHold) {
  engine_.refuse = [](const Request& request) {
    return request.max_tokens > 100 ? invalid_argument("the cache holds 100 tokens") : Status();
  };
  EXPECT_EQ(chat(R"(,"max_tokens":1)").status, 200);
  engine_.cache_tokens = static_cast<int>(engine_.seen().at(0).prompt.size()) + 100;
  EXPECT_EQ(chat().status, 200);
  EXPECT_EQ(engine_.seen().at(1).max_tokens, 100);
  expect_error(chat(R"(,"max_tokens":200)"), 400, "", "the cache holds 100 tokens");
}

TEST_F(ApiTest, OtherModelsAre404) {
  expect_error(chat(R"(,"model":"gpt-4")"), 404, "model", "'gpt-4' does not exist here; this server serves 'tiny'");
  EXPECT_EQ(chat(R"(,"model":"tiny")").status, 200);
  EXPECT_EQ(text_at(parsed(get("/v1/models").body), "data/0/id"), "tiny");
  EXPECT_EQ(text_at(parsed(get("/v1/models/t%69ny").body), "id"), "tiny");
  expect_error(get("/v1/models/other"), 404, "model", "'other'");
}

TEST_F(ApiTest, PathsAndMethods) {
  expect_error(get("/v2/x"), 404, "", "no such path: '/v2/x'");
  const TestAnswer answer = get("/v1/completions");
  expect_error(answer, 405, "", "expected method POST");
  EXPECT_THAT(answer.head, HasSubstr("Allow: POST"));
  EXPECT_EQ(get("/").status, 200);
}

TEST_F(ApiTest, BodiesThatAreNoJson) {
  expect_error(post("/v1/completions", "{\"prompt\": \"a\xff\"}"), 400, "", "invalid byte at offset 13");
  expect_error(post("/v1/completions", "{\"prompt\":"), 400, "", "line 1, column");
  expect_error(post("/v1/completions", ""), 400, "", "request body");
  expect_error(post("/v1/completions", "[1]"), 400, "", "expected a JSON object");
  expect_error(post("/v1/completions", std::string(100'000, '[')), 400, "", "request body");
}

TEST_F(ApiTest, ABodyOfTwoMegabytesIsAccepted) {
  engine_.context_tokens = 10'000'000;
  std::string text;
  while (text.size() < (2 << 20)) text += "some words and 123 ";
  const TestAnswer answer = post("/v1/completions", fmt::format(R"({{"prompt":"{}","max_tokens":1}})", text));
  EXPECT_EQ(answer.status, 200) << answer.body;
  engine_.context_tokens = 1000;
  expect_error(post("/v1/completions", fmt::format(R"({{"prompt":"{}"}})", text)), 400, "prompt", "leaves no room");
  EXPECT_EQ(post("/v1/completions", std::string((16 << 20) + 1, 'x')).status, 413);
}

TEST_F(ApiTest, AClientThatLeavesCancelsItsRequest) {
  say("on and on ");
  engine_.endless = true;
  engine_.step = 5ms;
  start();
  for (const char* stream : {"true", "false"}) {
    {
      TestClient client(server_->port());
      client.send_request("POST", "/v1/completions",
                          fmt::format(R"({{"prompt":"x","max_tokens":1000,"stream":{}}})", stream));
      if (*stream == 't') client.read_until("data: ");
      while (engine_.stats().running == 0) std::this_thread::sleep_for(1ms);
    }
    EXPECT_TRUE(engine_.wait_idle());
  }
  EXPECT_EQ(engine_.stats().cancelled_requests, 2U) << "else they ended after their 1000 tokens";
  EXPECT_THAT(get("/metrics").body, HasSubstr("sluice_request_finished_total{finished_reason=\"abort\"} 2"));
}

TEST_F(ApiTest, FiftyStreamsAtOnce) {
  engine_.script = [](const Request& request) {
    return std::vector<std::int32_t>(request.prompt.begin() + 1, request.prompt.end());
  };
  engine_.step = 1ms;
  start();
  std::vector<std::future<std::string>> answers;
  for (int i = 0; i < 50; ++i) {
    answers.push_back(std::async(std::launch::async, [this, i] {
      const std::string ids = fmt::format("{}", fmt::join(std::vector<int>(30, 300 + i), ","));
      const auto answer = request(server_->port(), "POST", "/v1/completions",
                                  fmt::format(R"({{"prompt":[{}],"max_tokens":100,"stream":true}})", ids));
      std::string text;
      for (const std::string& event : events_of(answer.body)) {
        if (event != "[DONE]") text += text_at(parsed(event), "choices/0/text");
      }
      return text;
    }));
  }
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(answers[static_cast<std::size_t>(i)].get(),
              tokenizer().decode(std::vector<std::int32_t>(29, 300 + i), false));
  }
}

TEST_F(ApiTest, HealthAsksTheEngineForATokenWhenItIsIdle) {
  engine_.idle_seconds = 1;
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(engine_.self_tests(), 0);
  engine_.idle_seconds = 6;
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(engine_.self_tests(), 1);
  engine_.alive = false;
  EXPECT_EQ(get("/health").status, 503);
}

TEST_F(ApiTest, HealthOfAFailedEngineIsSaidAtOnce) {
  engine_.idle_seconds = 1;
  engine_.failed = unavailable("the weights in \xFF have changed");
  for (const char* path : {"/health", "/health/ready", "/health/live"}) {
    const TestAnswer answer = get(path);
    EXPECT_EQ(answer.status, 503) << path;
    EXPECT_EQ(text_at(parsed(answer.body), "error/message"), "the weights in \xEF\xBF\xBD have changed");
  }
  EXPECT_EQ(engine_.self_tests(), 0);
}

TEST_F(ApiTest, Metrics) {
  say("one");
  chat();
  const TestAnswer answer = get("/metrics");
  EXPECT_THAT(answer.head, HasSubstr("text/plain; version=0.0.4"));
  EXPECT_THAT(
      answer.body,
      AllOf(HasSubstr("sluice_request_finished_total{finished_reason=\"stop\"} 1\n"),
            HasSubstr("sluice_http_requests_total{path=\"/v1/chat/completions\",status=\"200\"} 1\n"),
            HasSubstr("# TYPE sluice_time_to_first_token_seconds histogram\n"),
            HasSubstr("sluice_time_to_first_token_seconds_count 1\n"), HasSubstr("sluice_kv_cache_bytes_used 0\n")));
  const std::size_t prompt_tokens = engine_.seen().at(0).prompt.size();
  EXPECT_THAT(answer.body, AllOf(HasSubstr(fmt::format("sluice_request_prompt_tokens_sum {}\n", prompt_tokens)),
                                 HasSubstr("sluice_request_prompt_tokens_count 1\n")));
}

TEST_F(ApiTest, EngineErrorsReachTheClient) {
  engine_.refuse = [](const Request&) { return internal_error("broken"); };
  expect_error(chat(), 500, "", "broken");
}

TEST_F(ApiTest, StopLetsRequestsFinish) {
  say("one two three");
  engine_.step = 20ms;
  start();
  TestClient client(server_->port());
  client.send_request("POST", "/v1/completions", R"({"prompt":"x","stream":true})");
  client.read_until("data: ");
  EXPECT_TRUE(server_->stop(60s));
  EXPECT_THAT(client.read_all(), HasSubstr("[DONE]"));
}

TEST_F(ApiTest, StopCancelsWhatDoesNotFinish) {
  say("on and on ");
  engine_.endless = true;
  engine_.step = 5ms;
  start();
  TestClient streamed(server_->port()), whole(server_->port());
  streamed.send_request("POST", "/v1/completions", R"({"prompt":"x","max_tokens":4000,"stream":true})");
  whole.send_request("POST", "/v1/completions", R"({"prompt":"x","max_tokens":4000})");
  streamed.read_until("data: ");
  while (engine_.stats().running < 2) std::this_thread::sleep_for(1ms);
  const auto start_time = std::chrono::steady_clock::now();
  EXPECT_FALSE(server_->stop(100ms));
  EXPECT_LT(std::chrono::steady_clock::now() - start_time, 15s) << "their tokens would take 20 s";
  EXPECT_THAT(streamed.read_all(), AllOf(HasSubstr("\"error\""), HasSubstr("[DONE]")));
  EXPECT_EQ(whole.read_answer().status, 503);
  EXPECT_TRUE(engine_.wait_idle());
}

}  // namespace
}  // namespace sluice::api_test
