// Several choices of one prompt, the best of more, and what is counted.
#include <map>

#include "serve/api/api_testing.h"

namespace sluice::choices_test {
namespace {

namespace json = boost::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

class ChoicesTest : public ApiTest {
 protected:
  // Choice i answers with texts[i].
  void say_each(std::vector<std::string> texts) {
    engine_.script_of_choice = [texts = std::move(texts)](const Request&, int choice) {
      return ids_of(texts.at(static_cast<std::size_t>(choice)));
    };
  }
  static std::int64_t tokens_of(std::string_view text) { return static_cast<std::int64_t>(ids_of(text).size()) + 1; }

  // The texts of a stream by choice; every choice must end exactly once, in nothing.
  static std::map<std::int64_t, std::string> streamed(const TestAnswer& answer, std::string_view path) {
    std::map<std::int64_t, std::string> texts;
    std::map<std::int64_t, int> ends;
    for (const std::string& event : events_of(answer.body)) {
      if (event == "[DONE]") continue;
      const json::value chunk = parsed(event);
      if (at(chunk, "choices/0").is_null()) continue;
      const std::int64_t index = number_at(chunk, "choices/0/index");
      EXPECT_EQ(ends[index], 0) << event;
      texts[index] += text_at(chunk, path);
      if (!at(chunk, "choices/0/finish_reason").is_null()) ++ends[index];
    }
    for (const auto& [index, count] : ends) EXPECT_EQ(count, 1) << "choice " << index;
    return texts;
  }
};

TEST_F(ChoicesTest, ChatGivesEveryChoice) {
  say_each({"one", "two two", "three"});
  engine_.cached_tokens = 5;
  const json::value body = parsed(chat(R"(,"n":3,"seed":9)").body);
  ASSERT_EQ(at(body, "choices").get_array().size(), 3U);
  for (const int i : {0, 1, 2}) {
    EXPECT_EQ(number_at(body, fmt::format("choices/{}/index", i)), i);
    EXPECT_EQ(text_at(body, fmt::format("choices/{}/finish_reason", i)), "stop");
  }
  EXPECT_EQ(text_at(body, "choices/0/message/content"), "one");
  EXPECT_EQ(text_at(body, "choices/1/message/content"), "two two");
  EXPECT_EQ(text_at(body, "choices/2/message/content"), "three");
  ASSERT_EQ(engine_.seen().size(), 1U);
  EXPECT_EQ(engine_.seen()[0].n, 3);
  EXPECT_EQ(engine_.seen()[0].sampling.seed, 9U);
  EXPECT_EQ(engine_.seen()[0].sampling.top_logprobs, -1);
  EXPECT_EQ(number_at(body, "usage/prompt_tokens"), static_cast<std::int64_t>(engine_.seen()[0].prompt.size()));
  EXPECT_EQ(number_at(body, "usage/completion_tokens"), tokens_of("one") + tokens_of("two two") + tokens_of("three"));
  EXPECT_EQ(number_at(body, "usage/prompt_tokens_details/cached_tokens"), 5);
}

TEST_F(ChoicesTest, StreamsInterleaveTheChoices) {
  say_each({"one and more", "two", "Grüße, 世界!"});
  engine_.cached_tokens = 3;
  const TestAnswer answer = chat(R"(,"n":3,"stream":true,"stream_options":{"include_usage":true})");
  EXPECT_THAT(streamed(answer, "choices/0/delta/content"),
              ElementsAre(std::pair(0, "one and more"), std::pair(1, "two"), std::pair(2, "Grüße, 世界!")));
  const auto roles = streamed(answer, "choices/0/delta/role");
  EXPECT_THAT(roles, ElementsAre(std::pair(0, "assistant"), std::pair(1, "assistant"), std::pair(2, "assistant")));
  const auto events = events_of(answer.body);
  EXPECT_EQ(events.back(), "[DONE]");
  const json::value usage = parsed(events.at(events.size() - 2));
  EXPECT_EQ(number_at(usage, "usage/prompt_tokens_details/cached_tokens"), 3);
  EXPECT_EQ(number_at(usage, "usage/completion_tokens"),
            tokens_of("one and more") + tokens_of("two") + tokens_of("Grüße, 世界!"));
}

TEST_F(ChoicesTest, EachChoiceHasItsOwnParserAndLogprobs) {
  say_each({"a thought</think>A", "another one</think>B B"});
  const json::value body =
      parsed(chat(R"(,"n":2,"chat_template_kwargs":{"thinking":true},"logprobs":true,"top_logprobs":1)").body);
  EXPECT_EQ(text_at(body, "choices/0/message/reasoning_content"), "a thought");
  EXPECT_EQ(text_at(body, "choices/0/message/content"), "A");
  EXPECT_EQ(text_at(body, "choices/1/message/reasoning_content"), "another one");
  EXPECT_EQ(text_at(body, "choices/1/message/content"), "B B");
  EXPECT_EQ(number_at(body, "usage/completion_tokens_details/reasoning_tokens"),
            static_cast<std::int64_t>(ids_of("a thought").size() + ids_of("another one").size()));
  for (const int i : {0, 1}) {
    const json::value content = at(body, fmt::format("choices/{}/logprobs/content", i));
    EXPECT_EQ(static_cast<std::int64_t>(content.get_array().size()),
              tokens_of(i == 0 ? "a thought</think>A" : "another one</think>B B"));
  }
}

TEST_F(ChoicesTest, AStopStringEndsItsChoiceOnly) {
  std::string on_and_on = "one two";  // it has to be cancelled, however late the server sees the string
  for (int i = 0; i < 300; ++i) on_and_on += " three";
  say_each({on_and_on, "four five six"});
  engine_.step = 1ms;
  const json::value body = parsed(chat(R"(,"n":2,"stop":"two")").body);
  EXPECT_EQ(text_at(body, "choices/0/message/content"), "one ");
  EXPECT_EQ(text_at(body, "choices/1/message/content"), "four five six");
  EXPECT_EQ(text_at(body, "choices/0/finish_reason"), "stop");
  EXPECT_TRUE(engine_.wait_idle());
  EXPECT_EQ(engine_.stats().cancelled_requests, 1U);
}

TEST_F(ChoicesTest, ChoicesEndForReasonsOfTheirOwn) {
  say_each({"one", "two two two two two two"});
  const json::value body = parsed(complete(R"(,"n":2,"max_tokens":3)").body);
  EXPECT_EQ(text_at(body, "choices/0/finish_reason"), "stop");
  EXPECT_EQ(text_at(body, "choices/1/finish_reason"), "length");
  EXPECT_EQ(number_at(body, "usage/completion_tokens"), tokens_of("one") + 3);
}

TEST_F(ChoicesTest, AClientThatLeavesCancelsEveryChoice) {
  say_each({"on and on ", "on and on "});
  engine_.endless = true;
  engine_.step = 5ms;
  start();
  {
    TestClient client(server_->port());
    client.send_request("POST", "/v1/completions", R"({"prompt":"x","n":2,"max_tokens":1000,"stream":true})");
    client.read_until("data: ");
  }
  EXPECT_TRUE(engine_.wait_idle());
  EXPECT_EQ(engine_.stats().cancelled_requests, 2U);
}

// OpenAI's order: all choices of the first prompt, then those of the second.
TEST_F(ChoicesTest, SeveralPromptsOfSeveralChoices) {
  engine_.script_of_choice = [](const Request& request, int choice) {
    return ids_of(fmt::format("{} {}", tokenizer().decode(request.prompt, /*skip_special=*/true), choice));
  };
  engine_.cached_tokens = 2;
  constexpr std::string_view kRequest = R"({{"prompt":["one","two"],"n":3{}}})";
  const json::value body = parsed(post("/v1/completions", fmt::format(kRequest, R"(,"echo":true)")).body);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(number_at(body, fmt::format("choices/{}/index", i)), static_cast<std::int64_t>(i));
    texts.push_back(text_at(body, fmt::format("choices/{}/text", i)));
  }
  EXPECT_THAT(texts, ElementsAre("oneone 0", "oneone 1", "oneone 2", "twotwo 0", "twotwo 1", "twotwo 2"));
  const auto seen = engine_.seen();
  EXPECT_EQ(number_at(body, "usage/prompt_tokens"),
            static_cast<std::int64_t>(seen[0].prompt.size() + seen[1].prompt.size()));
  EXPECT_EQ(number_at(body, "usage/prompt_tokens_details/cached_tokens"), 4);
  const auto parts = streamed(post("/v1/completions", fmt::format(kRequest, R"(,"stream":true)")), "choices/0/text");
  EXPECT_THAT(parts, ElementsAre(std::pair(0, "one 0"), std::pair(1, "one 1"), std::pair(2, "one 2"),
                                 std::pair(3, "two 0"), std::pair(4, "two 1"), std::pair(5, "two 2")));
}

TEST_F(ChoicesTest, BestOfGivesTheLikeliest) {
  say_each({"zero", "one one one one", "two", "three"});
  // Two and three are equal: the lower index goes first. A sum would prefer the short ones to choice 1.
  engine_.logprob_of_choice = [](int choice) { return choice == 0 ? -3.0F : choice == 1 ? -0.5F : -1.0F; };
  for (const bool is_chat : {true, false}) {
    const std::string_view more = R"(,"n":3,"best_of":4,"max_tokens":50)";
    const json::value body = parsed((is_chat ? chat(more) : complete(more)).body);
    ASSERT_EQ(at(body, "choices").get_array().size(), 3U);
    const char* text = is_chat ? "choices/{}/message/content" : "choices/{}/text";
    EXPECT_EQ(text_at(body, fmt::format(fmt::runtime(text), 0)), "one one one one");
    EXPECT_EQ(text_at(body, fmt::format(fmt::runtime(text), 1)), "two");
    EXPECT_EQ(text_at(body, fmt::format(fmt::runtime(text), 2)), "three");
    for (const int i : {0, 1, 2}) {
      EXPECT_EQ(number_at(body, fmt::format("choices/{}/index", i)), i);
      EXPECT_TRUE(at(body, fmt::format("choices/{}/logprobs", i)).is_null());
    }
    EXPECT_EQ(number_at(body, "usage/completion_tokens"),
              tokens_of("zero") + tokens_of("one one one one") + tokens_of("two") + tokens_of("three"));
    EXPECT_EQ(engine_.seen().back().n, 4);
    EXPECT_EQ(engine_.seen().back().sampling.top_logprobs, 0);
  }
}

TEST_F(ChoicesTest, BestOfRanksWithinEachPrompt) {
  engine_.script_of_choice = [](const Request& request, int choice) {
    return ids_of(fmt::format("{} {}", tokenizer().decode(request.prompt, /*skip_special=*/true), choice));
  };
  engine_.logprob_of_choice = [](int choice) { return choice == 1 ? -0.25F : -2.0F; };
  const json::value body = parsed(post("/v1/completions", R"({"prompt":["one","two"],"best_of":3,"logprobs":1})").body);
  EXPECT_EQ(at(body, "choices").get_array().size(), 2U);
  EXPECT_EQ(text_at(body, "choices/0/text"), "one 1");
  EXPECT_EQ(text_at(body, "choices/1/text"), "two 1");
  EXPECT_EQ(at(body, "choices/1/logprobs/token_logprobs/0"), -0.25);
  EXPECT_EQ(engine_.seen().back().sampling.top_logprobs, 1);
}

TEST_F(ChoicesTest, PriorityAndSaltReachTheEngine) {
  chat(R"(,"priority":-5,"cache_salt":"tenant 7")");
  complete();
  const auto seen = engine_.seen();
  EXPECT_EQ(seen[0].priority, -5);
  EXPECT_EQ(seen[0].cache_salt, "tenant 7");
  EXPECT_EQ(seen[1].priority, 0);
  EXPECT_EQ(seen[1].cache_salt, "");
  EXPECT_EQ(seen[1].n, 1);
}

TEST_F(ChoicesTest, MessageStartsAreTheRoleMarkers) {
  const TestAnswer answer = post("/v1/chat/completions", R"({"messages":[{"role":"system","content":"Be brief."},
      {"role":"user","content":"Hi"},{"role":"assistant","content":"Hello."},{"role":"user","content":"Bye"}]})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Request request = engine_.seen().at(0);
  std::vector<std::string> markers;
  for (const std::int32_t start : request.message_starts) {
    markers.emplace_back(tokenizer().token_bytes(request.prompt.at(static_cast<std::size_t>(start))));
  }
  EXPECT_THAT(markers, ElementsAre("<｜User｜>", "<｜Assistant｜>", "<｜User｜>", "<｜Assistant｜>"));
  EXPECT_TRUE(std::ranges::is_sorted(request.message_starts));
  // The same scan of a raw prompt; nothing comes before position 0.
  const std::int32_t user = ids_of("<｜User｜>").at(0);
  post("/v1/completions", fmt::format(R"({{"prompt":[{0},5,6,{0},7]}})", user));
  EXPECT_THAT(engine_.seen().at(1).message_starts, ElementsAre(3));
  complete();
  EXPECT_THAT(engine_.seen().at(2).message_starts, IsEmpty());
}

TEST_F(ChoicesTest, ADrawnSeedIsLogged) {
  set_log_level(LogLevel::kInfo);
  ::testing::internal::CaptureStderr();
  const std::string id = text_at(parsed(chat().body), "id");
  post("/v1/completions", R"({"prompt":["a","b"]})");
  complete(R"(,"seed":123)");
  complete(R"(,"temperature":0)");
  server_.reset();
  const std::string log = ::testing::internal::GetCapturedStderr();
  set_log_level(LogLevel::kOff);
  const auto seen = engine_.seen();
  EXPECT_THAT(log, HasSubstr(fmt::format("{}: no seed was given, drew seed {}\n", id, seen[0].sampling.seed)));
  EXPECT_THAT(log, HasSubstr(fmt::format(" prompt 0: no seed was given, drew seed {}\n", seen[1].sampling.seed)));
  EXPECT_THAT(log, HasSubstr(fmt::format(" prompt 1: no seed was given, drew seed {}\n", seen[2].sampling.seed)));
  std::size_t lines = 0;
  for (std::size_t at = log.find("drew seed"); at != std::string::npos; at = log.find("drew seed", at + 1)) ++lines;
  EXPECT_EQ(lines, 3U);
  for (const Request& request : seen) EXPECT_LT(request.sampling.seed, std::uint64_t{1} << 53);
}

}  // namespace
}  // namespace sluice::choices_test
