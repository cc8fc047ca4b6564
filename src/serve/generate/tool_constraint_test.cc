// Calls written by chance: whatever the constraint of a request allows, the parser of its answer reads as calls of what
// is on offer. Both are those that a server makes, wherever reasoning may begin.
#include "serve/generate/tool_constraint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/string.hpp>
#include <map>
#include <memory>
#include <random>

#include "base/sanitizer_testing.h"
#include "base/test_seed_testing.h"
#include "files/json.h"
#include "text/chat/deepseek_v32_chat.h"
#include "text/chat/deepseek_v4_chat.h"
#include "text/chat/parsers/chat_parsers.h"

namespace sluice::tool_constraint_test {
namespace {

namespace json = boost::json;

constexpr const char* kStrict = R"({"type": "object", "additionalProperties": false, "required": ["city", "days"],
  "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 9},
                 "unit": {"enum": ["C", "F", 7, null]}, "tags": {"type": "array", "items": {"type": "string"}}}})";

// Bytes, and what calls are made of, so that they are written in hundreds of steps.
std::vector<std::string> vocabulary() {
  std::vector<std::string> out;
  for (int byte = 0; byte < 256; ++byte) out.emplace_back(1, static_cast<char>(byte));
  for (const char* text : {"<｜DSML｜",
                           "</｜DSML｜",
                           "tool_calls>",
                           "function_calls>",
                           "parameter",
                           "invoke",
                           " name=\"",
                           "weather",
                           "time",
                           "\" string=\"",
                           "true",
                           "false",
                           "\">",
                           "\">\n",
                           "city",
                           "days",
                           "{\"",
                           "\": ",
                           "\", \"",
                           "\"}",
                           "}}",
                           "name",
                           "arguments",
                           "parameters",
                           "<tool_call>",
                           "</tool_call>",
                           "\n</",
                           "<｜tool▁calls▁begin｜>",
                           "<｜tool▁call▁begin｜>",
                           "<｜tool▁sep｜>",
                           "<｜tool▁call▁end｜>",
                           "<｜tool▁calls▁end｜>",
                           "```json\n",
                           "\n```",
                           "function",
                           "<|python_tag|>",
                           "; ",
                           "<think>",
                           "</think>",
                           "unit",
                           "tags",
                           "é",
                           "汉字"}) {
    out.emplace_back(text);
  }
  return out;
}

struct Call {
  std::string name, arguments;
};

std::vector<Call> calls_of(const std::vector<ChatDelta>& deltas) {
  std::vector<Call> calls;
  for (const ChatDelta& delta : deltas) {
    if (delta.kind == ChatDelta::Kind::kToolCall) calls.push_back({delta.text, ""});
    if (delta.kind == ChatDelta::Kind::kToolCallArguments)
      calls.at(static_cast<std::size_t>(delta.index)).arguments += delta.text;
  }
  return calls;
}

std::string content_of(const std::vector<ChatDelta>& deltas) {
  std::string out;
  for (const ChatDelta& delta : deltas) {
    if (delta.kind == ChatDelta::Kind::kContent) out += delta.text;
  }
  return out;
}

// True if the text is a JSON object. If a key is there twice, the last counts.
bool is_object(const std::string& text) {
  boost::system::error_code failure;
  return json::parse(text, failure).is_object() && !failure;
}

// Checks by hand what kStrict says.
void expect_valid(const std::string& text) {
  const auto value = parse_json(text, "arguments");
  ASSERT_TRUE(value.ok() && value->is_object()) << text;
  const json::object& object = value->get_object();
  ASSERT_TRUE(object.contains("city") && object.at("city").is_string()) << text;
  ASSERT_TRUE(object.contains("days") && object.at("days").is_int64()) << text;
  EXPECT_THAT(object.at("days").get_int64(), ::testing::AllOf(::testing::Ge(1), ::testing::Le(9))) << text;
  for (const auto& [key, member] : object) {
    EXPECT_THAT(std::string(key), ::testing::AnyOf("city", "days", "unit", "tags"));
    if (key == "unit") {
      EXPECT_TRUE(member == "C" || member == "F" || member == 7 || member.is_null()) << text;
    }
    if (key == "tags") {
      EXPECT_TRUE(member.is_array()) << text;
    }
  }
}

// An encoding with the parsers and the markup of the given names.
class SyntaxChat final : public ChatEncoding {
 public:
  explicit SyntaxChat(ChatParserNames names) : names_(std::move(names)) {}

  Result<ChatPrompt> render(const ChatRequest& /*request*/) const override { return ChatPrompt(); }
  std::unique_ptr<ChatOutputParser> make_parser(bool reasoning_open, bool has_tools) const override {
    return make_chat_parser(names_, reasoning_open, has_tools);
  }
  AnswerMarkup answer_markup() const override { return sluice::answer_markup(names_); }
  std::vector<std::string_view> role_markers() const override { return {}; }

 private:
  const ChatParserNames names_;
};

enum class Reasoning {
  kNone,     // what looks like it is content
  kMayOpen,  // the answer may begin with it
  kOpen,     // the prompt has opened it
};

class CallSyntax : public ::testing::TestWithParam<std::string_view> {
 protected:
  CallSyntax() {
    const std::vector<std::string_view> views(tokens_.begin(), tokens_.end());
    std::vector<std::string_view> all = views;
    all.emplace_back();
    trie_ = std::make_shared<TokenTrie>(all, std::vector<std::int32_t>{end()});
  }
  std::int32_t end() const { return static_cast<std::int32_t>(tokens_.size()); }

  // The families' own encodings never let an answer begin reasoning by itself.
  const ChatEncoding& chat(Reasoning reasoning) {
    if (GetParam() == "v32_own") return v32_;
    if (GetParam() == "v4_own") return v4_;
    return reasoning == Reasoning::kNone ? plain_ : thinking_;
  }

  std::unique_ptr<TokenConstraint> constraint(bool forced, bool parallel, Reasoning reasoning) {
    ChatCompletionRequest request;
    request.chat.tools = {json::object{{"name", "weather"}, {"parameters", json::parse(kStrict)}, {"strict", true}},
                          json::object{{"name", "weather_at"}}, json::object{{"name", "time"}}};
    request.tool_choice = {.forced = forced, .parallel = parallel};
    return constraint(request, reasoning);
  }

  std::unique_ptr<TokenConstraint> constraint(const ChatCompletionRequest& request, Reasoning reasoning,
                                              const std::string& continued = "") {
    const auto made =
        make_tool_constraint(grammars_, chat(reasoning), request, reasoning == Reasoning::kOpen, continued, ignored_);
    const auto* const out = std::get_if<0>(&made);
    EXPECT_NE(out, nullptr) << std::get<ApiError>(made).message;
    return (*out)->copy();
  }

  bool accepts(TokenConstraint& constraint, std::string_view text) const {
    return std::ranges::all_of(text, [&](char byte) { return constraint.accept(static_cast<std::uint8_t>(byte)); });
  }

  // A text of at most `most` tokens; `ended`: it is whole.
  std::vector<std::int32_t> write(TokenConstraint& matcher, std::mt19937& random, std::size_t most, bool* ended) const {
    std::vector<std::int32_t> ids, choices;
    std::vector<std::uint32_t> words(trie_->words());
    *ended = false;
    while (ids.size() < most) {
      EXPECT_TRUE(matcher.allowed(words).ok());
      choices.clear();
      std::vector<std::int32_t> markup;
      for (std::int32_t id = 0; id <= end(); ++id) {
        if ((words[static_cast<std::size_t>(id) / 32] >> (id % 32) & 1U) == 0) continue;
        choices.push_back(id);
        if (id >= 256) markup.push_back(id);
      }
      if (choices.empty()) return ids;
      const bool is_end = choices.back() == end();
      // Mostly what calls are made of, and the end when there is one and enough was written.
      std::int32_t id = choices[random() % choices.size()];
      if (!markup.empty() && random() % 4 != 0) id = markup[random() % markup.size()];
      if (is_end && (ids.size() > 100 || choices.size() == 1)) id = end();
      EXPECT_TRUE(matcher.accept(id));
      if (id == end()) {
        *ended = true;
        return ids;
      }
      ids.push_back(id);
    }
    return ids;
  }

  std::vector<ChatDelta> read(const std::vector<std::int32_t>& ids, std::size_t count, Reasoning reasoning,
                              AnswerEnd how) {
    const auto parser = chat(reasoning).make_parser(reasoning == Reasoning::kOpen, true);
    std::vector<ChatDelta> out;
    for (std::size_t i = 0; i < count; ++i) {
      for (ChatDelta& delta : parser->push(tokens_[static_cast<std::size_t>(ids[i])])) out.push_back(std::move(delta));
    }
    for (ChatDelta& delta : parser->finish(how)) out.push_back(std::move(delta));
    return out;
  }

  const std::vector<std::string> tokens_ = vocabulary();
  std::shared_ptr<const TokenTrie> trie_;
  GrammarCache grammars_{[this] { return trie_; }};
  std::vector<std::string> ignored_;
  const SyntaxChat plain_{{.tool_call = std::string(GetParam()), .reasoning = "none"}};
  const SyntaxChat thinking_{{.tool_call = std::string(GetParam()), .reasoning = "think"}};
  const DeepSeekV32Chat v32_;
  const DeepSeekV4Chat v4_{{}};
};

constexpr std::array kReasoning = {Reasoning::kNone, Reasoning::kMayOpen, Reasoning::kOpen};

constexpr int kRounds = random_cases(30),
              kMostRounds = 3000;  // more only until there were enough of what is looked for

// Also cut at every token: half a call is never JSON.
TEST_P(CallSyntax, ForcedCallsAreReadBack) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(::testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  std::array<int, kReasoning.size()> whole{};
  for (int round = 0; round < kRounds || (std::ranges::min(whole) < 2 && round < kMostRounds); ++round) {
    const bool parallel = round % 2 == 0;
    const std::size_t mode = static_cast<std::size_t>(round) % kReasoning.size();
    const Reasoning reasoning = kReasoning[mode];
    const auto constraint = this->constraint(/*forced=*/true, parallel, reasoning);
    bool ended = false;
    const std::vector<std::int32_t> ids = write(*constraint, random, 600, &ended);
    const std::vector<Call> calls =
        calls_of(read(ids, ids.size(), reasoning, ended ? AnswerEnd::kComplete : AnswerEnd::kCut));
    std::string text;
    for (const std::int32_t id : ids) text += tokens_[static_cast<std::size_t>(id)];
    SCOPED_TRACE(text);
    if (ended) {
      ++whole[mode];
      ASSERT_FALSE(calls.empty());
      if (!parallel) {
        EXPECT_EQ(calls.size(), 1U);
      }
      EXPECT_EQ(content_of(read(ids, ids.size(), reasoning, AnswerEnd::kComplete)), "");
      for (const Call& call : calls) {
        EXPECT_THAT(call.name, ::testing::AnyOf("weather", "weather_at", "time"));
        EXPECT_TRUE(is_object(call.arguments)) << call.arguments;
        if (call.name == "weather") {
          expect_valid(call.arguments);
        }
      }
    }
    for (std::size_t cut = 0; cut < ids.size(); cut += 1 + random() % 11) {
      const std::vector<Call> begun = calls_of(read(ids, cut, reasoning, AnswerEnd::kCut));
      ASSERT_LE(begun.size(), calls.size()) << cut;
      for (std::size_t i = 0; i < begun.size(); ++i) {
        EXPECT_EQ(begun[i].name, calls[i].name) << cut;
        if (is_object(begun[i].arguments)) {
          EXPECT_EQ(begun[i].arguments, calls[i].arguments) << cut;
        }
      }
    }
  }
  EXPECT_GE(std::ranges::min(whole), 2);
}

// Text that is no call stays free; text that begins as a call is one.
TEST_P(CallSyntax, FreeAnswersCallOnlyWhatIsOnOffer) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(::testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  std::array<int, kReasoning.size()> called{};
  for (int round = 0; round < kRounds || (std::ranges::min(called) == 0 && round < kMostRounds); ++round) {
    const std::size_t mode = static_cast<std::size_t>(round) % kReasoning.size();
    const Reasoning reasoning = kReasoning[mode];
    const auto constraint = this->constraint(/*forced=*/false, true, reasoning);
    bool ended = false;
    const std::vector<std::int32_t> ids = write(*constraint, random, 600, &ended);
    if (!ended) continue;
    std::string text;
    for (const std::int32_t id : ids) text += tokens_[static_cast<std::size_t>(id)];
    SCOPED_TRACE(text);
    const std::vector<Call> calls = calls_of(read(ids, ids.size(), reasoning, AnswerEnd::kComplete));
    called[mode] += calls.empty() ? 0 : 1;
    for (const Call& call : calls) {
      EXPECT_THAT(call.name, ::testing::AnyOf("weather", "weather_at", "time"));
      EXPECT_TRUE(is_object(call.arguments)) << call.arguments;
      if (call.name == "weather") expect_valid(call.arguments);
    }
  }
  EXPECT_GT(std::ranges::min(called), 0);
}

// The answer calls, or it is JSON of the schema: every whole answer is one of them.
TEST_P(CallSyntax, ASchemaBesideToolsBindsAnswersThatDoNotCall) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(::testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  ChatCompletionRequest request;
  request.chat.tools = {json::object{{"name", "time"}}};
  request.options.constraint = GrammarSource{.text = std::string(kStrict)};
  request.options.constraint_field = "response_format.json_schema.schema";
  int called = 0, told = 0;
  for (int round = 0; round < kRounds || ((called == 0 || told == 0) && round < kMostRounds); ++round) {
    const Reasoning reasoning = kReasoning[static_cast<std::size_t>(round) % kReasoning.size()];
    bool ended = false;
    // Half of them begin as the schema's texts do, so that both kinds come.
    const auto constraint = this->constraint(request, reasoning);
    std::vector<std::int32_t> ids;
    if (round % 2 == 0 && reasoning == Reasoning::kNone && constraint->accept('{')) ids.push_back('{');
    const std::vector<std::int32_t> rest = write(*constraint, random, 600, &ended);
    ids.insert(ids.end(), rest.begin(), rest.end());
    if (!ended) continue;
    std::string text;
    for (const std::int32_t id : ids) text += tokens_[static_cast<std::size_t>(id)];
    SCOPED_TRACE(text);
    const std::vector<ChatDelta> deltas = read(ids, ids.size(), reasoning, AnswerEnd::kComplete);
    if (calls_of(deltas).empty()) {
      expect_valid(content_of(deltas));
      ++told;
    } else {
      EXPECT_EQ(content_of(deltas), "");
      ++called;
    }
  }
  EXPECT_GT(called, 0);
  EXPECT_GT(told, 0);
}

TEST_P(CallSyntax, SchemasBindForcedCallsWithoutStrict) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(::testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  ChatCompletionRequest request;
  request.chat.tools = {json::object{{"name", "weather"}, {"parameters", json::parse(kStrict)}}};
  request.tool_choice = {.forced = true, .parallel = false};
  int whole = 0;
  for (int round = 0; round < kMostRounds && whole == 0; ++round) {
    bool ended = false;
    const std::vector<std::int32_t> ids = write(*constraint(request, Reasoning::kNone), random, 600, &ended);
    if (!ended) continue;
    ++whole;
    for (const Call& call : calls_of(read(ids, ids.size(), Reasoning::kNone, AnswerEnd::kComplete))) {
      expect_valid(call.arguments);
    }
  }
  // Random raw texts of tagged parameters hardly ever end; the other syntaxes' do.
  if (chat(Reasoning::kNone).answer_markup().calls->parameter.empty()) {
    EXPECT_GT(whole, 0);
  }
  EXPECT_TRUE(ignored_.empty());
  // A schema that cannot be enforced binds nothing, and is named, with strict: false too, which some clients always
  // send; but not where strict is the default.
  const json::object odd = {{"name", "odd"}, {"parameters", {{"type", "object"}, {"unevaluatedItems", false}}}};
  request.chat.tools.emplace_back(odd);
  constraint(request, Reasoning::kNone);
  EXPECT_THAT(ignored_, ::testing::ElementsAre("tools[1].function.parameters (not enforced)"));
  ignored_.clear();
  request.chat.tools[1].get_object()["strict"] = false;
  constraint(request, Reasoning::kNone);
  EXPECT_THAT(ignored_, ::testing::ElementsAre("tools[1].function.parameters (not enforced)"));
  ignored_.clear();
  request.tool_choice.strict_by_default = true;
  constraint(request, Reasoning::kNone);
  EXPECT_TRUE(ignored_.empty());
}

TEST_P(CallSyntax, AConstraintReadsWhatTheAnswerContinues) {
  ChatCompletionRequest request;
  request.chat.tools = {json::object{{"name", "time"}}};
  request.options.constraint = GrammarSource{.text = std::string(kStrict)};
  request.options.constraint_field = "response_format.json_schema.schema";
  const auto bound = constraint(request, Reasoning::kNone, R"({"city": "Os)");
  EXPECT_TRUE(accepts(*bound, R"(lo", "days": 3})"));
  EXPECT_TRUE(bound->accept(end()));
  const auto refused = make_tool_constraint(grammars_, chat(Reasoning::kNone), request, false, "x", ignored_);
  ASSERT_TRUE(std::holds_alternative<ApiError>(refused));
  EXPECT_THAT(std::get<ApiError>(refused).message, ::testing::HasSubstr("a continued message"));
}

// Behind it a call is one whatever the reasoning held, and has a name that is on offer.
TEST_P(CallSyntax, OpeningsWithinReasoningAreReasoning) {
  for (const Reasoning reasoning : {Reasoning::kMayOpen, Reasoning::kOpen}) {
    const AnswerMarkup markup = chat(reasoning).answer_markup();
    if (reasoning == Reasoning::kMayOpen && !markup.may_open_reasoning) continue;
    const std::string call = std::string(markup.calls->open) + std::string(markup.calls->call);
    const std::string thought = (reasoning == Reasoning::kOpen ? "" : "\n<think>") + call + "x, or " +
                                std::string(markup.calls->begins) + "?</think>\n";
    for (const bool forced : {true, false}) {
      const auto bound = constraint(forced, true, reasoning);
      ASSERT_TRUE(accepts(*bound, thought + call));
      EXPECT_FALSE(bound->accept('x'));
      EXPECT_TRUE(bound->accept('w'));
      const std::vector<ChatDelta> deltas =
          chat(reasoning).make_parser(reasoning == Reasoning::kOpen, true)->push(thought);
      ASSERT_FALSE(deltas.empty());
      EXPECT_EQ(deltas[0].kind, ChatDelta::Kind::kReasoning);
      EXPECT_THAT(deltas[0].text, ::testing::AllOf(::testing::StartsWith(call), ::testing::EndsWith("?")));
    }
  }
}

TEST_P(CallSyntax, FreeAnswersAreAnything) {
  const auto free = constraint(/*forced=*/false, true, Reasoning::kMayOpen);
  EXPECT_TRUE(accepts(*free, "Some text, \"quoted\", <b>, <｜ and half \xE6\x96"));
  EXPECT_TRUE(free->accept(end()));
}

INSTANTIATE_TEST_SUITE_P(All, CallSyntax,
                         ::testing::Values("hermes", "llama3_json", "deepseek_v3", "deepseek_v31", "deepseek_v32",
                                           "deepseek_v4", "v32_own", "v4_own"),
                         [](const auto& of) { return std::string(of.param); });

class RawParameters : public CallSyntax {};

// A text that holds the tag which ends it would be read as two parameters.
TEST_P(RawParameters, EndAtTheFirstTagThatEndsThem) {
  const std::string begin = "string=\"true\">", end_tag = "</｜DSML｜parameter>";
  std::mt19937 random(test_seed());
  std::string text;
  for (std::size_t at = std::string::npos; at == std::string::npos; at = text.find(begin)) {
    const auto constraint = this->constraint(/*forced=*/true, true, Reasoning::kNone);
    bool ended = false;
    text.clear();
    for (const std::int32_t id : write(*constraint, random, 200, &ended)) text += tokens_[static_cast<std::size_t>(id)];
  }
  text.resize(text.find(begin) + begin.size());
  EXPECT_TRUE(accepts(*constraint(true, true, Reasoning::kNone), text + "a < b </" + end_tag)) << text;
  EXPECT_FALSE(accepts(*constraint(true, true, Reasoning::kNone), text + "a" + end_tag + "b")) << text;
}

INSTANTIATE_TEST_SUITE_P(All, RawParameters, ::testing::Values("deepseek_v32", "deepseek_v4"),
                         [](const auto& of) { return std::string(of.param); });

TEST(CallNetwork, SaysWhatItCannotEnforce) {
  const CallMarkup* const dsml = answer_markup({.tool_call = "deepseek_v4", .reasoning = "think"}).calls;
  const auto message = [&](const std::string& name, const std::string& schema) {
    const auto network = compile_calls({.markup = dsml, .tools = {{name, schema, "tools[0].function.parameters"}}});
    return network.ok() ? "" : network.status().message();
  };
  EXPECT_EQ(message("f", R"({"type":"object"})"), "");
  EXPECT_THAT(message("a\"b", ""), ::testing::HasSubstr("expected names of at most 256 characters"));
  EXPECT_THAT(message("f", R"({"type":"string"})"),
              ::testing::HasSubstr("tools[0].function.parameters: #: expected a schema of objects"));
  EXPECT_THAT(message("f", R"({"type":"object","unevaluatedItems":false})"),
              ::testing::HasSubstr("tools[0].function.parameters: /unevaluatedItems: this keyword is not supported"));
  EXPECT_THAT(message("f", R"({"type":"object","properties":{"a\"b":{}}})"), ::testing::HasSubstr("cannot be named"));
}

}  // namespace
}  // namespace sluice::tool_constraint_test
