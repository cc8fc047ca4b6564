#include "serve/api/openai/openai_request.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <tuple>

#include "files/json.h"

namespace sluice::openai_request_test {
namespace {

using ::testing::HasSubstr;

struct Refusal {
  const char* field;    // JSON of one more field
  const char* param;    // what the error names
  const char* message;  // part of it
};

constexpr Refusal kBothRefuse[] = {
    {R"("temperature":"hot")", "temperature", R"(temperature: expected a number from 0 to 2, found "hot")"},
    {R"("temperature":-0.1)", "temperature", "found -0.1"},
    {R"("temperature":1e9)", "temperature", "from 0 to 2"},
    {R"("top_p":-0.1)", "top_p", "from 0 to 1"},
    {R"("top_p":1.01)", "top_p", "from 0 to 1"},
    {R"("top_k":-2)", "top_k", "from -1"},
    {R"("top_k":1.5)", "top_k", "an integer"},
    {R"("top_k":99999999999)", "top_k", "an integer"},
    {R"("min_p":2)", "min_p", "from 0 to 1"},
    {R"("seed":"x")", "seed", "an integer of 64 bits"},
    {R"("seed":1.5)", "seed", "found 1.5"},
    {R"("max_tokens":-1)", "max_tokens", "from 0"},
    {R"("max_tokens":1.5e0)", "max_tokens", "an integer"},
    {R"("max_tokens":99999999999999999999)", "max_tokens", "an integer"},
    {R"("max_tokens":[1])", "max_tokens", "an integer"},
    {R"("max_tokens":5,"max_completion_tokens":6)", "max_completion_tokens", "that of max_tokens"},
    {R"("stop":5)", "stop", "a string or an array"},
    {R"("stop":[""])", "stop", "non-empty"},
    {R"("stop":["a",1])", "stop", "a string or an array"},
    {R"("stop":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"])", "stop", "at most 16"},
    {R"("stop_token_ids":[-1])", "stop_token_ids", "token ids"},
    {R"("ignore_eos":1)", "ignore_eos", "true or false"},
    {R"("stream":"yes")", "stream", "true or false"},
    {R"("stream_options":{"include_usage":true})", "stream_options", "only allowed when stream is true"},
    {R"("stream":true,"stream_options":5)", "stream_options", "an object"},
    {R"("stream":true,"stream_options":{"include_usage":1})", "stream_options.include_usage", "true or false"},
    {R"("stream":true,"stream_options":{"continuous_usage_stats":"on"})", "stream_options.continuous_usage_stats",
     "true or false"},
    {R"("stream":true,"stream_options":{"x":1})", "stream_options.x", "unknown field 'stream_options.x'"},
    {R"("n":0)", "n", "n: expected an integer from 1 to 256, found 0"},
    {R"("n":257)", "n", "an integer from 1 to 256, found 257"},
    {R"("n":"2")", "n", "found \"2\""},
    {R"("n":1.5)", "n", "an integer"},
    {R"("best_of":0)", "best_of", "best_of: expected an integer from 1 to 256, found 0"},
    {R"("best_of":257)", "best_of", "found 257"},
    {R"("n":3,"best_of":2)", "best_of", "best_of: expected an integer from 3 (n) to 256, found 2"},
    {R"("stream":true,"best_of":2)", "best_of", "best_of: expected 1 (n) with stream"},
    {R"("stream":true,"n":2,"best_of":4)", "best_of", "found 4"},
    {R"("priority":1000001)", "priority", "priority: expected an integer from -1000000 to 1000000, found 1000001"},
    {R"("priority":-1000001)", "priority", "found -1000001"},
    {R"("priority":"high")", "priority", "an integer"},
    {R"("priority":0.5)", "priority", "found 0.5"},
    {R"("cache_salt":5)", "cache_salt", "cache_salt: expected a string, found 5"},
    {R"("presence_penalty":2.5)", "presence_penalty", "presence_penalty: expected a number from -2 to 2, found 2.5"},
    {R"("frequency_penalty":-3)", "frequency_penalty", "from -2 to 2"},
    {R"("repetition_penalty":0)", "repetition_penalty", "from 0.01 to 100"},
    {R"("logit_bias":{"5":101})", "logit_bias", "from -100 to 100"},
    {R"("logit_bias":{"x":1})", "logit_bias", "token ids, as strings"},
    {R"("logit_bias":{"5":1,"05":2})", "logit_bias", "each token id once"},
    {R"("min_tokens":-1)", "min_tokens", "from 0"},
    {R"("min_tokens":6,"max_tokens":5)", "min_tokens", "at most 5 (max_tokens)"},
    {R"("min_tokens":1,"guided_regex":"a")", "min_tokens", "expected 0 with guided_regex"},
    {R"("bad_words":[1])", "bad_words", "a string or an array of at most 128"},
    {R"("allowed_token_ids":[-5])", "allowed_token_ids", "token ids"},
    {R"("logprobs_mode":"raw_logits")", "logprobs_mode", "expected \"raw\" or \"processed\""},
    {R"("logprob_token_ids":[-1])", "logprob_token_ids", "an array of at most 64 token ids"},
    {R"("model":5)", "model", "a string"},
    {R"("temprature":1)", "temprature", "unknown field 'temprature'"},
};

constexpr Refusal kChatRefuses[] = {
    {R"("logprobs":1)", "logprobs", "true or false"},
    {R"("logprobs":true,"top_logprobs":21)", "top_logprobs", "from 0 to 20"},
    {R"("top_logprobs":2)", "top_logprobs", "only allowed when logprobs is true"},
    {R"("tools":5)", "tools", "tools"},
    {R"("tools":[{"type":"function"}])", "tools", "tools[0]"},
    {R"("tool_choice":"required")", "tool_choice", "expected tools with it"},
    {R"("tool_choice":{"type":"function","function":{"name":"f"}})", "tool_choice", "expected tools with it"},
    {R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"g"}})",
     "tool_choice", "the name of one of the tools, found 'g'"},
    {R"("tool_choice":"sometimes")", "tool_choice", "\"auto\", \"none\", \"required\""},
    {R"("tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto"}})", "tool_choice", "allowed_tools"},
    {R"("tool_choice":{"type":"allowed_tools","allowed_tools":5})", "tool_choice", "allowed_tools"},
    {R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}})",
     "tool_choice", "allowed_tools"},
    {R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required","ignore_eos":true)",
     "ignore_eos", "forces a call"},
    {R"("functions":[{"name":"f"}])", "functions", "use tools"},
    {R"("function_call":"auto")", "function_call", "use tool_choice"},
    {R"("echo":true)", "echo", "only false is supported"},
    {R"("tools":[{"type":"function","function":{"name":"f","strict":1}}])", "tools[0].function.strict",
     "true or false"},
    {R"("modalities":["audio"])", "modalities", "only [\"text\"] is supported"},
    {R"("continue_final_message":true)", "continue_final_message", "role assistant"},
    {R"("add_generation_prompt":false)", "add_generation_prompt", "true"},
    {R"("response_format":"json")", "response_format", "an object"},
    {R"("response_format":{"type":"xml"})", "response_format", "json_schema"},
    {R"("response_format":{"type":"json_schema"})", "response_format", "with json_schema"},
    {R"("response_format":{"type":"json_schema","json_schema":{"name":"a"}})", "response_format.json_schema.schema",
     "an object"},
    {R"("response_format":{"type":"json_object"},"guided_regex":"a")", "guided_regex", "one constraint"},
    {R"("structured_outputs":{"json":{"type":"null"},"choice":["a"]})", "structured_outputs.choice",
     "structured_outputs.json"},
    {R"("structured_outputs":{"structural_tag":"x"})", "structured_outputs.structural_tag", "not supported"},
    {R"("structured_outputs":{"regex":"a","tag":"x"})", "structured_outputs.tag", "unknown field"},
    {R"("use_beam_search":true)", "use_beam_search", "only false is supported"},
    {R"("guided_choice":[1])", "guided_choice", "array of texts"},
    {R"("guided_json":7)", "guided_json", "a schema"},
    {R"("guided_grammar":{"a":1})", "guided_grammar", "a string"},
    {R"("guided_regex":"a","ignore_eos":true)", "ignore_eos", "guided_regex"},
    {R"("guided_regex":"a","tools":[{"type":"function","function":{"name":"f"}}])", "guided_regex", "tools"},
    {R"("chat_template_kwargs":{"thinking":"yes"})", "chat_template_kwargs.thinking", "true or false"},
    {R"("chat_template_kwargs":1)", "chat_template_kwargs", "an object"},
    {R"("thinking":{"type":"maybe"})", "thinking.type", "enabled"},
    {R"("reasoning_effort":5)", "reasoning_effort", "a string"},
};

constexpr Refusal kCompletionRefuses[] = {
    {R"("logprobs":true)", "logprobs", "an integer from 0 to 20"},
    {R"("logprobs":21)", "logprobs", "an integer from 0 to 20"},
    {R"("echo":"x")", "echo", "true or false"},
    {R"("prompt_logprobs":1,"stream":true)", "prompt_logprobs", "not supported with stream"},
    {R"("prompt_logprobs":21)", "prompt_logprobs", "an integer from 0 to 20"},
};

const RequestRules kStrict{.strict_fields = true};

ApiError chat_error(std::string_view body) {
  const auto result = parse_chat_completion_request(body, kStrict);
  const auto* error = std::get_if<ApiError>(&result);
  return error != nullptr ? *error : ApiError{200, "no error", "", ""};
}

ApiError completion_error(std::string_view body) {
  const auto result = parse_completion_request(body, kStrict);
  const auto* error = std::get_if<ApiError>(&result);
  return error != nullptr ? *error : ApiError{200, "no error", "", ""};
}

std::string chat_body(std::string_view field) {
  return fmt::format(R"({{"messages":[{{"role":"user","content":"hi"}}],{}}})", field);
}
std::string completion_body(std::string_view field) {
  return fmt::format(R"({{"prompt":"hi",{}}})", field);
}

void expect_refusal(const ApiError& error, const Refusal& refusal) {
  EXPECT_EQ(error.status, 400) << refusal.field;
  EXPECT_EQ(error.param, refusal.param) << refusal.field;
  EXPECT_THAT(error.message, HasSubstr(refusal.message)) << refusal.field;
}

TEST(OpenAiRequestTest, EachWrongFieldIsNamed) {
  for (const Refusal& refusal : kBothRefuse) {
    expect_refusal(chat_error(chat_body(refusal.field)), refusal);
    expect_refusal(completion_error(completion_body(refusal.field)), refusal);
  }
  for (const Refusal& refusal : kChatRefuses) expect_refusal(chat_error(chat_body(refusal.field)), refusal);
  for (const Refusal& refusal : kCompletionRefuses) {
    expect_refusal(completion_error(completion_body(refusal.field)), refusal);
  }
}

TEST(OpenAiRequestTest, PromptsAndMessagesAreChecked) {
  for (const char* prompt :
       {"5", "[]", "{}", "[1.5]", "[-1]", "[\"a\",1]", "[1,\"a\"]", "[[1],[\"a\"]]", "null", "true"}) {
    const ApiError error = completion_error(fmt::format(R"({{"prompt":{}}})", prompt));
    EXPECT_EQ(error.param, "prompt") << prompt;
    EXPECT_THAT(error.message, HasSubstr("expected a string, an array of token ids")) << prompt;
  }
  EXPECT_THAT(completion_error("{}").message, HasSubstr("found nothing"));
  EXPECT_EQ(chat_error("{}").param, "messages");
  EXPECT_EQ(chat_error(R"({"messages":[{"role":"robot","content":"x"}]})").param, "messages");
}

TEST(OpenAiRequestTest, HarmlessFieldsPass) {
  const char* fields =
      R"("user":"u","metadata":{"a":"b"},"store":true,"service_tier":"auto","n":1,"presence_penalty":0,)"
      R"("frequency_penalty":0.0,"logit_bias":{},"stop":null,"temperature":null,"seed":18446744073709551615,)"
      R"("stream":true,"stream_options":{"include_usage":false})";
  EXPECT_EQ(chat_error(chat_body(fields)).message, "no error");
  EXPECT_EQ(completion_error(completion_body(fields)).message, "no error");
  EXPECT_EQ(
      chat_error(chat_body(R"("parallel_tool_calls":true,"tool_choice":"auto","response_format":{"type":"text"})"))
          .message,
      "no error");
  EXPECT_EQ(chat_error(chat_body(R"("functions":[],"function_call":"none","parallel_tool_calls":false,)"
                                 R"("tools":[],"modalities":["text"],"lora_path":null,"guided_json":{},"colour":"",)"
                                 R"("min_tokens":0,"skip_special_tokens":true,"length_penalty":1.0,"stream":true,)"
                                 R"("stream_options":{"continuous_usage_stats":false,"more":null})"))
                .message,
            "no error");
  for (
      const char* more :
      {R"("parallel_tool_calls":false)", R"("tool_choice":"required")", R"("tool_choice":"none")",
       R"("tool_choice":{"type":"function","function":{"name":"f"}})",
       R"("tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"f"}}]}})"}) {
    const std::string tools = R"("tools":[{"type":"function","function":{"name":"f","strict":true}}],)";
    EXPECT_EQ(chat_error(chat_body(tools + more)).message, "no error") << more;
  }
}

// In the object, in those below it, in messages and in their parts.
TEST(OpenAiRequestTest, WhatNobodyKnowsIsNamedOrRefused) {
  constexpr std::string_view kBody =
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"hi","colour":1,"none":null}],"mood":"x","id":"y"}],)"
      R"("temprature":1,"empty":"","stream":true,"stream_options":{"x":1},"chat_template_kwargs":{"style":"short"},)"
      R"("response_format":{"type":"json_schema","json_schema":{"schema":{"type":"null"},"y":1}}})";
  const auto result = parse_chat_completion_request(kBody, {});
  ASSERT_TRUE(std::holds_alternative<ChatCompletionRequest>(result)) << std::get<ApiError>(result).message;
  EXPECT_THAT(std::get<ChatCompletionRequest>(result).options.ignored,
              testing::UnorderedElementsAre("messages[0].content[0].colour", "messages[0].mood", "temprature",
                                            "stream_options.x", "response_format.json_schema.y"));
  EXPECT_THAT(chat_error(kBody).message, HasSubstr("messages[0]: unknown key 'mood'"));
  // A message's known fields whose effect is missing are refused, too.
  EXPECT_THAT(chat_error(R"({"messages":[{"role":"user","content":"x","audio":{"id":"a"}}]})").message,
              HasSubstr("messages[0]: key 'audio': not supported"));
  const auto completion = parse_completion_request(R"({"prompt":"x","mood":1,"messages":[1]})", {});
  EXPECT_THAT(std::get<CompletionRequest>(completion).options.ignored, testing::ElementsAre("mood", "messages"));
}

ChatRequest chat_of(std::string_view field) {
  const auto result = parse_chat_completion_request(chat_body(field), {});
  return std::get<ChatCompletionRequest>(result).chat;
}

TEST(OpenAiRequestTest, ThinkingIsSaidInSeveralWays) {
  EXPECT_EQ(chat_of(R"("n":1)").thinking, std::nullopt);
  EXPECT_EQ(chat_of(R"("chat_template_kwargs":{"thinking":true})").thinking, true);
  EXPECT_EQ(chat_of(R"("chat_template_kwargs":{"enable_thinking":false})").thinking, false);
  const ChatRequest styled = chat_of(R"("chat_template_kwargs":{"thinking":true,"style":"short","list":[1]})");
  EXPECT_EQ(dump_json(styled.template_variables), R"({"style":"short","list":[1]})");
  EXPECT_EQ(chat_of(R"("thinking":{"type":"enabled"})").thinking, true);
  EXPECT_EQ(chat_of(R"("reasoning_effort":"high")").thinking, true);
  EXPECT_EQ(chat_of(R"("reasoning_effort":"high")").reasoning_effort, "high");
  EXPECT_EQ(chat_of(R"("reasoning_effort":"none")").thinking, false);
  EXPECT_EQ(chat_of(R"("reasoning_effort":"none")").reasoning_effort, std::nullopt);
  EXPECT_EQ(chat_of(R"("reasoning_effort":"high","chat_template_kwargs":{"thinking":false})").thinking, false);
}

TEST(OpenAiRequestTest, ResponseFormatsGoIntoThePrompt) {
  EXPECT_FALSE(chat_of(R"("response_format":{"type":"text"})").response_format.has_value());
  EXPECT_TRUE(
      chat_of(R"("response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"array"}}})")
          .response_format.has_value());
}

TEST(OpenAiRequestTest, ASaltOfAtMost256Bytes) {
  const auto errors_for = [](std::size_t bytes) {
    const auto field = fmt::format(R"("cache_salt":"{}")", std::string(bytes, 'x'));
    return std::array{chat_error(chat_body(field)), completion_error(completion_body(field))};
  };
  for (const ApiError& error : errors_for(257)) {
    EXPECT_EQ(error.param, "cache_salt");
    EXPECT_EQ(error.message, "cache_salt: expected a string of at most 256 bytes, found one of 257");
  }
  for (const ApiError& error : errors_for(256)) EXPECT_EQ(error.message, "no error");
}

TEST(OpenAiRequestTest, ChoicesPriorityAndSalt) {
  const auto options_of = [](std::string_view fields) {
    const auto chat = parse_chat_completion_request(chat_body(fields), {});
    const auto completion = parse_completion_request(completion_body(fields), {});
    const auto& a = std::get<ChatCompletionRequest>(chat).options;
    const auto& b = std::get<CompletionRequest>(completion).options;
    EXPECT_EQ(std::tie(a.n, a.best_of, a.engine.priority, a.engine.cache_salt),
              std::tie(b.n, b.best_of, b.engine.priority, b.engine.cache_salt));
    return a;
  };
  const GenerationOptions none = options_of(R"("n":null,"best_of":null,"priority":null,"cache_salt":null)");
  EXPECT_EQ(std::tuple(none.n, none.best_of, none.engine.priority, none.engine.cache_salt), std::tuple(1, 1, 0, ""));
  EXPECT_FALSE(none.ranks());
  const GenerationOptions some = options_of(R"("n":3,"priority":-7,"cache_salt":"tenant")");
  EXPECT_EQ(std::tuple(some.n, some.best_of, some.engine.priority, some.engine.cache_salt),
            std::tuple(3, 3, -7, "tenant"));
  EXPECT_FALSE(some.ranks());
  EXPECT_TRUE(options_of(R"("n":2,"best_of":16)").ranks());
  EXPECT_EQ(options_of(R"("n":4,"best_of":4,"stream":true)").best_of, 4);
}

}  // namespace
}  // namespace sluice::openai_request_test
