// /v1/responses, /v1/messages, count_tokens, and what tells of tokens: over real sockets, with a scripted engine.
#include <map>

#include "serve/api/api_testing.h"
#include "serve/generate/reasoning_seal.h"

namespace sluice::agent_api_test {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;

constexpr std::string_view kReasoned = "Let me see.</think>It rains.";
constexpr std::string_view kCall =
    "I look.\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_weather\">\n"
    "<｜DSML｜parameter name=\"city\" "
    "string=\"true\">Lisbon</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>";

struct Event {
  std::string type;
  json::value data;
};

std::vector<Event> named_events(const std::string& body) {
  std::vector<Event> events;
  for (std::size_t start = 0; start < body.size();) {
    const std::size_t line = body.find('\n', start), end = body.find("\n\n", start);
    EXPECT_EQ(body.substr(start, 7), "event: ") << body.substr(start, 100);
    EXPECT_EQ(body.substr(line + 1, 6), "data: ");
    if (line == std::string::npos || end == std::string::npos) break;
    events.push_back({body.substr(start + 7, line - start - 7), parsed(body.substr(line + 7, end - line - 7))});
    EXPECT_EQ(text_at(events.back().data, "type"), events.back().type);
    start = end + 2;
  }
  return events;
}

std::vector<std::string> kinds_of(const std::vector<Event>& events) {
  std::vector<std::string> kinds;  // in a row once
  for (const Event& event : events) {
    if (kinds.empty() || kinds.back() != event.type) kinds.push_back(event.type);
  }
  return kinds;
}

class AgentApiTest : public ApiTest {
 protected:
  TestAnswer respond(std::string_view more, std::string_view input = R"("Hi")") {
    return post("/v1/responses", fmt::format(R"({{"input":{}{}}})", input, more));
  }
  TestAnswer message(std::string_view more, std::string_view messages = R"([{"role":"user","content":"Hi"}])") {
    return post("/v1/messages", fmt::format(R"({{"max_tokens":200,"messages":{}{}}})", messages, more));
  }
  std::string last_prompt() { return tokenizer().decode(engine_.seen().back().prompt, /*skip_special=*/false); }
};

constexpr std::string_view kTool =
    R"(,"tools":[{"type":"function","name":"get_weather","parameters":{"type":"object"}}])";
constexpr std::string_view kOwnTool = R"(,"tools":[{"name":"get_weather","input_schema":{"type":"object"}}])";
constexpr std::string_view kThinks = R"(,"reasoning":{"effort":"high"},"include":["reasoning.encrypted_content"])";

TEST_F(AgentApiTest, ResponsesEventsAddUpToTheResponse) {
  for (const bool calls : {false, true}) {
    say(calls ? kCall : kReasoned);
    const TestAnswer answer = respond(fmt::format(R"({},"stream":true)", calls ? kTool : kThinks));
    const std::vector<Event> events = named_events(answer.body);
    std::vector<std::string> expected = {"response.created", "response.in_progress"};
    const auto part = [&](const std::string& kind) {
      for (const std::string& type :
           {std::string("output_item.added"), std::string("content_part.added"), kind + ".delta", kind + ".done",
            std::string("content_part.done"), std::string("output_item.done")}) {
        if (kind != "function_call_arguments" || !type.starts_with("content_part")) {
          expected.push_back("response." + type);
        }
      }
    };
    if (!calls) part("reasoning_text");
    part("output_text");
    if (calls) part("function_call_arguments");
    expected.emplace_back("response.completed");
    EXPECT_EQ(kinds_of(events), expected);
    std::map<std::string, std::string> deltas;
    for (std::size_t i = 0; i < events.size(); ++i) {
      EXPECT_EQ(number_at(events[i].data, "sequence_number"), static_cast<std::int64_t>(i));
      deltas[text_at(events[i].data, "item_id")] += text_at(events[i].data, "delta");
    }
    const json::value last = at(events.back().data, "response");
    EXPECT_EQ(text_at(last, "id"), text_at(events[0].data, "response/id"));
    std::size_t done = 0;
    for (const Event& event : events) {
      if (event.type != "response.output_item.done") continue;
      const json::value item = at(event.data, "item");
      EXPECT_EQ(item, at(last, fmt::format("output/{}", done++)));
      const std::string whole =
          text_at(item, "type") == "function_call" ? text_at(item, "arguments") : text_at(item, "content/0/text");
      EXPECT_EQ(deltas[text_at(item, "id")], whole);
    }
    EXPECT_EQ(done, 2U);
    EXPECT_EQ(text_at(last, "status"), "completed");
    EXPECT_GT(number_at(last, "usage/total_tokens"), 0);
  }
}

TEST_F(AgentApiTest, ResponsesCutByTheirLimit) {
  say(kReasoned);
  const json::value whole = parsed(respond(R"(,"max_output_tokens":2)").body);
  EXPECT_EQ(text_at(whole, "status"), "incomplete");
  EXPECT_EQ(text_at(whole, "incomplete_details/reason"), "max_output_tokens");
  EXPECT_EQ(text_at(whole, "output/0/status"), "incomplete");
}

TEST_F(AgentApiTest, ResponsesItemsGoBackIntoThePrompt) {
  say("x");
  const std::string input =
      R"([{"role":"user","content":[{"type":"input_text","text":"Weather?"}]},)"
      R"({"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":")" +
      sealed_reasoning("Ask the tool.") +
      R"("},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]},)"
      R"({"type":"function_call","call_id":"c1","name":"get_weather","arguments":"{\"city\": \"Lisbon\"}"},)"
      R"({"type":"function_call_output","call_id":"c1","output":"It rains."}])";
  ASSERT_EQ(respond(fmt::format(R"({}{},"instructions":"Be brief.")", kTool, kThinks), input).status, 200);
  const std::string prompt = last_prompt();
  for (const char* piece : {"Be brief.", "Weather?", "Ask the tool.</think>I look.",
                            "<｜DSML｜invoke name=\"get_weather\">", "Lisbon", "It rains."}) {
    EXPECT_THAT(prompt, HasSubstr(piece));
  }
  // The same as chat's own words for it.
  const auto as_chat = post(
      "/v1/chat/completions",
      R"({"messages":[{"role":"system","content":"Be brief."},)"
      R"({"role":"user","content":"Weather?"},{"role":"assistant","content":"I look.","reasoning_content":"Ask the tool.",)"
      R"("tool_calls":[{"id":"c1","type":"function","function":{"name":"get_weather","arguments":"{\"city\": \"Lisbon\"}"}}]},)"
      R"({"role":"tool","tool_call_id":"c1","content":"It rains."}],"reasoning_effort":"high",)"
      R"("tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object"}}}]})");
  ASSERT_EQ(as_chat.status, 200) << as_chat.body;
  EXPECT_EQ(last_prompt(), prompt);
}

TEST_F(AgentApiTest, ResponsesErrorsNameTheFieldsOfTheClient) {
  const auto refused = [this](std::string_view more, std::string_view input, std::string_view param,
                              std::string_view words) { expect_error(respond(more, input), 400, param, words); };
  const std::string hi = R"("Hi")";
  refused(R"(,"previous_response_id":"resp_1")", hi, "previous_response_id", "send the conversation");
  refused(R"(,"text":{"format":{"type":"json_schema","schema":{"unevaluatedItems":false}}})", hi, "text.format.schema",
          "unevaluatedItems");
  refused(R"(,"reasoning":{"effort":"enormous"})", hi, "reasoning.effort", "enormous");
  refused("", R"([{"role":"robot","content":"x"}])", "input[0].role", "robot");
  refused("", R"([{"role":"user","content":[{"type":"input_image","image_url":"x"}]}])", "input[0].content[0].type",
          "reads text only");
  refused("", R"([{"role":"user","content":"x"},{"type":"reasoning","encrypted_content":"slr1.x:y"}])",
          "input[1].encrypted_content", "unchanged");
  refused("", "[]", "input", "at least one item");
  refused("", "7", "input", "a text or an array");
  refused(R"(,"tools":[{"type":"web_search"},{"type":"function"}])", hi, "tools[1].name", "the name of a function");
}

TEST_F(AgentApiTest, ToolsThatCannotRunAreLeftOutAndNamed) {
  say("x");
  const TestAnswer answer =
      respond(R"(,"tools":[{"type":"web_search"},{"type":"function","name":"f","parameters":{"type":"object"}}])",
              R"([{"role":"user","content":"x"},{"type":"web_search_call","id":"w","action":{"type":"search"}}])");
  EXPECT_THAT(answer.head, HasSubstr("tools[0]%20(web_search)"));
  EXPECT_THAT(answer.head, HasSubstr("input[1]%20(web_search_call)"));
  const json::value tools = at(parsed(answer.body), "tools");
  EXPECT_EQ(tools.as_array().size(), 1U);
  EXPECT_THAT(message(R"(,"tools":[{"type":"bash_20250124","name":"bash"}])").head,
              HasSubstr("tools[0]%20(bash_20250124)"));
}

// A request's tools in the form in which coding agents send the functions of their servers.
constexpr std::string_view kSpaces =
    R"(,"tools":[{"type":"namespace","name":"mcp__weather","description":"W","tools":[{"type":"function","name":)"
    R"("get_weather","parameters":{"type":"object"}},{"type":"web_search"}]}])";
constexpr std::string_view kTwoSpaces =
    R"(,"tools":[{"type":"namespace","name":"a","tools":[{"type":"function","name":"get_weather"}]},)"
    R"({"type":"namespace","name":"b","tools":[{"type":"function","name":"get_weather"}]}])";

TEST_F(AgentApiTest, FunctionsOfNamespacesAreOnOffer) {
  say(kCall);
  const TestAnswer whole = respond(kSpaces);
  EXPECT_THAT(whole.head, HasSubstr("tools[0].tools[1]%20(web_search)"));
  const json::value answer = parsed(whole.body);
  EXPECT_EQ(text_at(answer, "output/1/type"), "function_call") << whole.body;
  EXPECT_EQ(text_at(answer, "output/1/name"), "get_weather");
  EXPECT_EQ(text_at(answer, "output/1/namespace"), "mcp__weather");
  EXPECT_EQ(text_at(answer, "tools/0/tools/0/name"), "get_weather");
  const std::vector<Event> events = named_events(respond(std::string(kSpaces) + R"(,"stream":true)").body);
  EXPECT_EQ(text_at(events.back().data, "response/output/1/namespace"), "mcp__weather");

  // Two namespaces with one name: the model knows them by both, and what it calls goes back by the client's names.
  std::string call(kCall);
  call.replace(call.find("get_weather"), 11, "b__get_weather");
  say(call);
  const std::string history =
      R"([{"type":"function_call","call_id":"c","name":"get_weather","namespace":"a","arguments":)"
      R"("{}"},{"type":"function_call_output","call_id":"c","output":"x"}])";
  const json::value told = parsed(respond(kTwoSpaces, history).body);
  EXPECT_EQ(text_at(told, "output/1/name"), "get_weather");
  EXPECT_EQ(text_at(told, "output/1/namespace"), "b");
  EXPECT_THAT(last_prompt(), HasSubstr("name=\"a__get_weather\""));
  const std::string named = std::string(kTwoSpaces) + R"(,"tool_choice":{"type":"function","name":"get_weather")";
  const TestAnswer chosen = respond(named + R"(,"namespace":"b"})");
  EXPECT_EQ(chosen.status, 200) << chosen.body;
  EXPECT_EQ(respond(named + R"(,"namespace":"c"})").status, 400);
}

TEST_F(AgentApiTest, OnlyAllowedToolsAreOnOffer) {
  respond(R"(,"tools":[{"type":"function","name":"get_weather"},{"type":"function","name":"get_time"}],"tool_choice":)"
          R"({"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"get_weather"}]})");
  EXPECT_THAT(last_prompt(), AllOf(HasSubstr("get_weather"), Not(HasSubstr("get_time"))));
}

TEST_F(AgentApiTest, CustomToolsTakeText) {
  constexpr std::string_view kPatch =
      R"(,"tools":[{"type":"custom","name":"get_weather","format":{"type":"grammar","syntax":"lark","definition":)"
      R"("start: /x/"}}])";
  std::string call(kCall);
  call.replace(call.find("name=\"city\""), 11, "name=\"input\"");
  say(call);
  const TestAnswer whole = respond(kPatch);
  EXPECT_THAT(whole.head, HasSubstr("tools[0].format"));
  const json::value answer = parsed(whole.body);
  EXPECT_EQ(text_at(answer, "output/1/type"), "custom_tool_call") << whole.body;
  EXPECT_EQ(text_at(answer, "output/1/input"), "Lisbon");
  EXPECT_THAT(last_prompt(), HasSubstr("start: /x/"));
  std::string streamed;
  for (const Event& event : named_events(respond(std::string(kPatch) + R"(,"stream":true)").body)) {
    if (event.type == "response.custom_tool_call_input.delta") streamed += text_at(event.data, "delta");
    EXPECT_NE(event.type, "response.function_call_arguments.delta");
  }
  EXPECT_EQ(streamed, "Lisbon");
  const TestAnswer back =
      respond(kPatch, R"([{"type":"custom_tool_call","call_id":"c","name":"get_weather","input":"Rome"},)"
                      R"({"type":"custom_tool_call_output","call_id":"c","output":"rain"}])");
  EXPECT_EQ(back.status, 200) << back.body;
  EXPECT_THAT(last_prompt(), HasSubstr("Rome"));
}

TEST_F(AgentApiTest, ResponsesTellLogProbabilities) {
  say("one two");
  const std::string asked = R"(,"top_logprobs":1,"include":["message.output_text.logprobs"])";
  const json::value whole = parsed(respond(asked).body);
  const json::value items = at(whole, "output/0/content/0/logprobs");
  ASSERT_TRUE(items.is_array() && !items.get_array().empty()) << dump_json(whole);
  std::string text;
  for (const json::value& item : items.get_array()) text += text_at(item, "token");
  EXPECT_EQ(text, "one two");
  std::string streamed;
  for (const Event& event : named_events(respond(asked + R"(,"stream":true)").body)) {
    if (event.type != "response.output_text.delta") continue;
    const json::value tokens = at(event.data, "logprobs");
    for (const json::value& item : tokens.as_array()) streamed += text_at(item, "token");
  }
  EXPECT_EQ(streamed, "one two");
}

TEST_F(AgentApiTest, ResponsesCountTokensAndTakeTruncation) {
  say("x");
  const json::value counted = parsed(post("/v1/responses/input_tokens", R"({"input":"Hi"})").body);
  EXPECT_EQ(text_at(counted, "object"), "response.input_tokens");
  const json::value answer = parsed(respond(R"(,"truncation":"auto")").body);
  EXPECT_EQ(number_at(counted, "input_tokens"), number_at(answer, "usage/input_tokens"));
  EXPECT_EQ(text_at(answer, "truncation"), "auto");
  expect_error(respond(R"(,"truncation":"some")"), 400, "truncation", "\"auto\" or \"disabled\"");
}

TEST_F(AgentApiTest, AFailureEndsAStreamInItsApisWords) {
  engine_.endless = true;
  engine_.step = std::chrono::milliseconds(2);
  for (const bool of_responses : {true, false}) {
    server_.reset();
    say("one two three four five six seven");
    start();
    std::thread stopping([this] {
      while (engine_.seen().empty()) std::this_thread::yield();
      server_->stop(std::chrono::milliseconds(0));
    });
    const TestAnswer answer = of_responses ? respond(R"(,"stream":true)") : message(R"(,"stream":true)");
    stopping.join();
    if (answer.status != 200) continue;  // stopped before the stream began
    const std::vector<Event> events = named_events(answer.body);
    EXPECT_EQ(events.back().type, of_responses ? "response.failed" : "error");
    const std::string path = of_responses ? "response/error/message" : "error/message";
    EXPECT_NE(text_at(events.back().data, path), "");
  }
}

TEST_F(AgentApiTest, MessagesEventsAddUpToTheMessage) {
  for (const bool calls : {false, true}) {
    say(calls ? kCall : kReasoned);
    engine_.cached_tokens = 3;
    const std::string more = calls ? std::string(kOwnTool) : R"(,"thinking":{"type":"enabled","budget_tokens":1024})";
    const json::value whole = parsed(message(more).body);
    const std::vector<Event> events = named_events(message(more + R"(,"stream":true)").body);
    const auto kinds = kinds_of(events);
    const std::vector<std::string> block = {"content_block_start", "content_block_delta", "content_block_stop"};
    std::vector<std::string> expected = {"message_start", "ping"};
    for (int i = 0; i < 2; ++i) expected.insert(expected.end(), block.begin(), block.end());
    expected.insert(expected.end(), {"message_delta", "message_stop"});
    EXPECT_EQ(kinds, expected);
    std::map<std::int64_t, std::string> texts, signatures;
    for (const Event& event : events) {
      for (const char* key : {"delta/text", "delta/thinking", "delta/partial_json"}) {
        texts[number_at(event.data, "index")] += text_at(event.data, key);
      }
      signatures[number_at(event.data, "index")] += text_at(event.data, "delta/signature");
    }
    EXPECT_EQ(texts[1], calls ? R"({"city": "Lisbon"})" : "It rains.");
    EXPECT_EQ(texts[0], calls ? text_at(whole, "content/0/text") : "Let me see.");
    if (calls) {
      EXPECT_EQ(text_at(whole, "content/1/input/city"), "Lisbon");
    } else {
      EXPECT_EQ(signatures[0], text_at(whole, "content/0/signature"));
      EXPECT_EQ(signatures[0], reasoning_seal("Let me see."));
    }
    EXPECT_EQ(text_at(whole, "stop_reason"), calls ? "tool_use" : "end_turn");
    EXPECT_EQ(at(events[events.size() - 2].data, "usage"), at(whole, "usage"));
    EXPECT_EQ(number_at(whole, "usage/cache_read_input_tokens"), 3);
    EXPECT_EQ(number_at(events[0].data, "message/usage/input_tokens"), number_at(whole, "usage/input_tokens"));
    EXPECT_EQ(number_at(whole, "usage/input_tokens") + 3,
              static_cast<std::int64_t>(engine_.seen().back().prompt.size()));
  }
}

TEST_F(AgentApiTest, TheSeedThatWasDrawnIsTold) {
  say("one");
  const auto drawn = [&] { return static_cast<std::int64_t>(engine_.seen().back().sampling.seed); };
  for (const bool is_message : {true, false}) {
    const auto send = [&](const std::string& more) { return (is_message ? message(more) : respond(more)).body; };
    const json::value whole = parsed(send(R"(,"temperature":1)"));
    EXPECT_EQ(number_at(whole, "seed"), drawn());
    const Event first = named_events(send(R"(,"temperature":1,"stream":true)")).front();
    EXPECT_EQ(number_at(first.data, is_message ? "message/seed" : "response/seed"), drawn());
    EXPECT_EQ(at(parsed(send(R"(,"temperature":0)")), "seed"), json::value());
  }
}

TEST_F(AgentApiTest, WhyAMessageStopped) {
  say("one two three");
  EXPECT_EQ(text_at(parsed(message("").body), "stop_reason"), "end_turn");
  const json::value stopped = parsed(message(R"(,"stop_sequences":["two","three"])").body);
  EXPECT_EQ(text_at(stopped, "stop_reason"), "stop_sequence");
  EXPECT_EQ(text_at(stopped, "stop_sequence"), "two");
  engine_.endless = true;
  EXPECT_EQ(text_at(parsed(message("").body), "stop_reason"), "max_tokens");
  engine_.context_tokens = 60;  // less than max_tokens
  EXPECT_EQ(text_at(parsed(message("").body), "stop_reason"), "model_context_window_exceeded");
}

TEST_F(AgentApiTest, HalfACallIsNotInAMessage) {
  say(kCall);
  int whole_calls = 0;
  for (int tokens = 1; tokens < 70; ++tokens) {
    const json::value whole = parsed(
        post("/v1/messages",
             fmt::format(R"({{"max_tokens":{},"messages":[{{"role":"user","content":"Hi"}}]{}}})", tokens, kOwnTool))
            .body);
    const json::value blocks = at(whole, "content");
    ASSERT_TRUE(blocks.is_array());
    for (const json::value& block : blocks.get_array()) {
      if (text_at(block, "type") != "tool_use") continue;
      EXPECT_EQ(text_at(block, "input/city"), "Lisbon") << tokens;
      ++whole_calls;
    }
  }
  EXPECT_GT(whole_calls, 0);
  EXPECT_LT(whole_calls, 40);
}

TEST_F(AgentApiTest, MessagesGoIntoThePromptAsInChat) {
  say("x");
  const std::string messages =
      R"([{"role":"user","content":"Weather?"},{"role":"assistant","content":[{"type":"thinking","thinking":"Ask.",)"
      R"("signature":")" +
      reasoning_seal("Ask.") +
      R"("},{"type":"text","text":"I look."},{"type":"tool_use","id":"c1","name":"get_weather","input":{"city":"Lisbon"}}]},)"
      R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","is_error":true,"content":"No net.",)"
      R"("cache_control":{"type":"ephemeral"}},{"type":"text","text":"Try again."}]}])";
  const std::string system = R"(,"thinking":{"type":"enabled","budget_tokens":1024},"system":[{"type":"text","text":)"
                             R"("x-anthropic-billing-header: cch=1"},{"type":"text","text":"Be brief."}])";
  ASSERT_EQ(message(std::string(kOwnTool) + system, messages).status, 200);
  const std::string prompt = last_prompt();
  for (const char* piece : {"Be brief.", "Weather?", "I look.", "Lisbon", "Error:", "No net.", "Try again."}) {
    EXPECT_THAT(prompt, HasSubstr(piece));
  }
  EXPECT_EQ(prompt.find("billing"), std::string::npos);
  // The last message of the assistant goes on.
  ASSERT_EQ(message("", R"([{"role":"user","content":"Hi"},{"role":"assistant","content":"It is"}])").status, 200);
  EXPECT_TRUE(last_prompt().ends_with("It is")) << last_prompt();
}

// Items of unknown types and reasoning that another server's model wrote are left out of a history and named.
TEST_F(AgentApiTest, HistoriesOfOtherServersGoOn) {
  say("x");
  const auto goes_on = [this](const TestAnswer& answer, std::string_view named) {
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_THAT(answer.head, HasSubstr(std::string(named)));
  };
  const auto with_block = [this](std::string_view block) {
    return message("", fmt::format(R"([{{"role":"user","content":"Hi"}},{{"role":"assistant","content":[{},)"
                                   R"({{"type":"text","text":"Yes."}}]}},{{"role":"user","content":"Go on"}}])",
                                   block));
  };
  goes_on(with_block(R"({"type":"server_tool_use","id":"s","name":"web_search","input":{}})"),
          "messages[1].content[0]%20(server_tool_use)");
  goes_on(with_block(R"({"type":"of_next_year"})"), "messages[1].content[0]%20(of_next_year)");
  for (const char* signature : {R"(,"signature":"EqoBCkgIARABGAIiQ")", R"(,"signature":"")", ""}) {
    goes_on(with_block(fmt::format(R"({{"type":"thinking","thinking":"a"{}}})", signature)),
            "messages[1].content[0]%20(thinking%20of%20another%20server)");
    EXPECT_EQ(last_prompt().find("<think>a"), std::string::npos) << last_prompt();
  }
  for (const char* input : {"null", "[]", "5", R"("x")"}) {
    EXPECT_EQ(with_block(fmt::format(R"({{"type":"tool_use","id":"c","name":"f","input":{}}})", input)).status, 200);
  }
  EXPECT_EQ(message(R"(,"thinking":{"type":"between_tools"})").status, 200);
  EXPECT_TRUE(last_prompt().ends_with("<think>")) << last_prompt();
  goes_on(message(R"(,"thinking":{"type":"of_next_year"})"), "thinking.type%20(of_next_year)");

  const auto with_item = [this](std::string_view item) {
    return post("/v1/responses", fmt::format(R"({{"input":[{},{{"role":"user","content":"Hi"}}]}})", item));
  };
  goes_on(with_item(R"({"type":"item_reference","id":"x"})"), "input[0]%20(item_reference)");
  goes_on(with_item(R"({"id":"x"})"), "input[0]%20(item_reference)");
  EXPECT_EQ(with_item(R"({"type":"function_call_output","output":"x"})").status, 200);
  goes_on(with_item(R"({"type":"compaction","encrypted_content":"abc"})"), "input[0]%20(compaction)");
  goes_on(with_item(R"({"type":"reasoning","summary":[],"encrypted_content":"gAAAAAB"})"),
          "input[0]%20(reasoning%20of%20another%20server)");
  EXPECT_EQ(with_item(R"({"type":"reasoning","summary":[],"encrypted_content":"slr1.0:x"})").status, 400)
      << "a seal of our own over a changed text";
  for (const char* arguments : {R"(,"arguments":null)", R"(,"arguments":{"a":1})", R"(,"arguments":"null")", ""}) {
    const std::string call = R"({"type":"function_call","call_id":"c","name":"f")" + std::string(arguments) + "}";
    EXPECT_EQ(with_item(call).status, 200) << arguments;
  }
}

TEST_F(AgentApiTest, MessagesErrorsHaveTheirOwnForm) {
  const auto refused = [this](std::string_view more, std::string_view messages, std::string_view words) {
    const TestAnswer answer = message(more, messages);
    EXPECT_EQ(answer.status, 400) << answer.body;
    const json::value body = parsed(answer.body);
    EXPECT_EQ(text_at(body, "type"), "error");
    EXPECT_EQ(text_at(body, "error/type"), "invalid_request_error");
    EXPECT_THAT(text_at(body, "error/message"), HasSubstr(std::string(words)));
  };
  const std::string hi = R"([{"role":"user","content":"Hi"}])";
  refused(R"(,"temperature":9)", hi, "temperature: expected a number");
  refused("", R"([{"role":"robot","content":"x"}])", "messages[0].role");
  refused("", R"([{"role":"user","content":[{"type":"image"}]}])", "messages[0].content[0].type");
  refused("", R"([{"role":"assistant","content":[{"type":"thinking","thinking":"a","signature":"slr1.0"}]}])",
          "messages[0].content[0].signature");
  refused("", R"([{"role":"user","content":[{"type":"tool_result","content":"x"}]}])", "tool_use_id");
  refused("", "[]", "at least one message");
  refused(R"(,"tool_choice":{"type":"tool"})", hi, "tool_choice.type");
  refused(R"(,"output_config":{"format":{"type":"json_schema","schema":{"unevaluatedItems":false}}})", hi,
          "output_config.format.schema");
  EXPECT_EQ(text_at(parsed(post("/v1/messages", "{").body), "type"), "error");
  EXPECT_EQ(text_at(parsed(get("/v1/messages").body), "error/type"), "invalid_request_error");  // 405
  EXPECT_EQ(text_at(parsed(message(R"(,"model":"other")").body), "error/type"), "not_found_error");
}

TEST_F(AgentApiTest, CountIsWhatTheMessageHas) {
  say("x");
  const std::string body = R"("system":"Be brief.","messages":[{"role":"user","content":"Hi"}])";
  const json::value counted = parsed(post("/v1/messages/count_tokens", "{" + body + "}").body);
  post("/v1/messages", R"({"max_tokens":5,)" + body + "}");
  EXPECT_EQ(number_at(counted, "input_tokens"), static_cast<std::int64_t>(engine_.seen().back().prompt.size()));
  EXPECT_EQ(text_at(parsed(post("/v1/messages/count_tokens", "{}").body), "type"), "error");
}

TEST_F(AgentApiTest, TokensAndPrompts) {
  say("x");
  const json::value shown =
      parsed(post("/v1/chat/completions/render", R"({"messages":[{"role":"user","content":"Hi"}]})").body);
  chat();
  const auto prompt = engine_.seen().back().prompt;
  EXPECT_EQ(text_at(shown, "prompt"), last_prompt());
  const json::array expected(prompt.begin(), prompt.end());
  EXPECT_EQ(at(shown, "token_ids"), json::value(expected));
  const json::value of_messages = parsed(post("/tokenize", R"({"messages":[{"role":"user","content":"Hi"}]})").body);
  EXPECT_EQ(at(of_messages, "tokens"), at(shown, "token_ids"));
  const json::value of_text = parsed(post("/tokenize", R"({"prompt":"Hi there","return_token_strs":true})").body);
  EXPECT_EQ(number_at(of_text, "count"), static_cast<std::int64_t>(ids_of("Hi there").size()));
  std::string joined;
  const json::value texts = at(of_text, "token_strs");
  for (const json::value& text : texts.as_array()) joined += std::string_view(text.as_string());
  EXPECT_EQ(joined, "Hi there");
  EXPECT_EQ(
      text_at(parsed(post("/detokenize", fmt::format(R"({{"tokens":[{}]}})", fmt::join(prompt, ","))).body), "prompt"),
      last_prompt());
  expect_error(post("/tokenize", R"({"prompt":"x","messages":[]})"), 400, "prompt", "either a prompt or messages");
  expect_error(post("/tokenize", "{}"), 400, "prompt", "either a prompt or messages");
  expect_error(post("/detokenize", R"({"tokens":[4095,99999]})"), 400, "tokens", "no token 99999");
  expect_error(post("/detokenize", "{}"), 400, "tokens", "token ids");
  EXPECT_EQ(number_at(parsed(get("/tokenizer_info").body), "eos_token_id"), 1);
}

}  // namespace
}  // namespace sluice::agent_api_test
