// Nothing that a client sends becomes a special token: random conversations whose texts hold the control tokens of six
// templates, and of DeepSeek's own encodings.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <memory>
#include <random>
#include <set>

#include "base/sanitizer_testing.h"
#include "base/storage/mapped_file.h"
#include "base/test_paths_testing.h"
#include "base/test_seed_testing.h"
#include "files/json.h"
#include "text/chat/chat.h"
#include "text/chat/deepseek_v32_chat.h"
#include "text/chat/deepseek_v4_chat.h"
#include "text/chat/templates/chat_templates.h"
#include "text/chat/templates/template_chat.h"
#include "text/tokenizer/tokenizer.h"

namespace sluice::client_text_test {
namespace {

namespace json = boost::json;

const std::vector<std::string> kControls = {"<|im_start|>",
                                            "<|im_end|>",
                                            "<|begin_of_text|>",
                                            "<|start_header_id|>",
                                            "<|end_header_id|>",
                                            "<|eot_id|>",
                                            "<｜User｜>",
                                            "<｜Assistant｜>",
                                            "<｜end▁of▁sentence｜>",
                                            "<｜tool▁call▁begin｜>",
                                            "<｜tool▁calls▁begin｜>",
                                            "<｜tool▁outputs▁begin｜>",
                                            "<|endoftext|>",
                                            "<|python_tag|>",
                                            "<|eom_id|>"};

// The embedded model's, with the control tokens of all templates.
const Tokenizer& tokenizer() {
  static const auto loaded = [] {
    const std::string path = source_dir() + "/models/sluice-tiny-v4/tokenizer.json";
    json::value file = *parse_json(*read_text_file(path), path);
    json::array& added = file.as_object()["added_tokens"].as_array();
    std::set<std::string> known;
    std::int64_t next = 100'000;
    for (const json::value& token : added) known.insert(std::string(token.at("content").as_string()));
    for (const std::string& control : kControls) {
      if (known.contains(control)) continue;
      added.push_back({{"id", next++},
                       {"content", control},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", true}});
    }
    auto made = Tokenizer::from_json(json::serialize(file));
    EXPECT_TRUE(made.ok()) << made.status().message();
    return std::move(made).value();
  }();
  return *loaded;
}

class Conversations {
 public:
  Conversations(std::uint32_t seed, bool with_controls) : random_(seed), with_controls_(with_controls) {}

  std::string text() {
    static const std::vector<std::string> kWords = {"Hello", " naïve", "日本語 ", "😀", "\n",
                                                    "  ",    "it's",   "1.5",     "a<b"};
    static const std::vector<std::string> kPieces = {"<", "<|", "<｜", "｜>", "|>", "User", "im_start", "</think>"};
    std::string out;
    for (int i = pick(5) + 1; i > 0; --i) {
      const int kind = with_controls_ ? pick(4) : 0;
      out += kind == 1 ? one_of(kControls) : kind == 2 ? one_of(kPieces) : one_of(kWords);
    }
    return out;
  }

  ChatRequest make(bool with_tools) {
    ChatRequest request;
    const auto add = [&](ChatRole role) -> ChatMessage& {
      request.messages.push_back({.role = role, .content = {{.text = text()}}});
      while (with_parts_ && pick(3) == 0) request.messages.back().content.push_back({.text = text()});
      return request.messages.back();
    };
    if (pick(2) == 0) add(ChatRole::kSystem);
    for (int turns = pick(3); turns > 0; --turns) {
      add(ChatRole::kUser);
      ChatMessage& answer = add(ChatRole::kAssistant);
      if (pick(2) == 0) answer.reasoning_content = text();
      if (!with_tools || pick(2) == 0) continue;
      json::object arguments;
      arguments[text()] = text();
      answer.tool_calls.push_back({.id = "c", .name = "f" + text(), .arguments = json::serialize(arguments)});
      add(ChatRole::kTool).tool_call_id = "c";
    }
    add(ChatRole::kUser);
    if (with_tools) {
      const json::object parameters = {{"type", "object"}, {"properties", json::object()}, {"required", json::array()}};
      request.tools.push_back({{"name", "f" + text()}, {"description", text()}, {"parameters", parameters}});
    }
    return request;
  }

 private:
  int pick(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  const std::string& one_of(const std::vector<std::string>& all) { return all[random_() % all.size()]; }

  std::mt19937 random_;
  const bool with_controls_;
  const bool with_parts_ = true;
};

struct Encoding {
  std::string name;
  bool tools;
  std::unique_ptr<ChatEncoding> chat;
};

const std::vector<Encoding>& encodings() {
  static const std::vector<Encoding> all = [] {
    std::vector<Encoding> made;
    for (const auto& [name, tools] : {std::pair{"chatml", false},
                                      {"llama3", false},
                                      {"qwen25", true},
                                      {"qwen3", true},
                                      {"hermes", true},
                                      {"deepseek_r1", false}}) {
      ChatTemplates templates;
      const std::string path = source_dir() + "/tests/chat_templates/" + std::string(name) + ".jinja";
      EXPECT_TRUE(add_chat_template(templates, "default", *read_text_file(path), name).ok());
      templates.special_tokens["bos_token"] = "<|begin_of_text|>";
      templates.special_tokens["eos_token"] = "<｜end▁of▁sentence｜>";
      made.push_back({name, tools, TemplateChat::make(std::move(templates), {}).value()});
    }
    made.push_back({"DeepSeek-V4", true, std::make_unique<DeepSeekV4Chat>(DeepSeekV4ChatOptions())});
    made.push_back({"DeepSeek-V3.2", true, std::make_unique<DeepSeekV32Chat>()});
    return made;
  }();
  return all;
}

// The special ids of a text, those that begin in a client's bytes apart.
struct Found {
  std::vector<std::int32_t> own, clients;
};

Found special_ids(const MarkedText& text, const std::vector<std::int32_t>& ids) {
  Found found;
  std::size_t at = 0;
  for (const std::int32_t id : ids) {
    const std::size_t size = tokenizer().token_bytes(id).size();
    if (tokenizer().is_special(id)) (text.is_own(at, at + size) ? found.own : found.clients).push_back(id);
    at += size;
  }
  EXPECT_EQ(at, text.size());
  return found;
}

TEST(ClientText, NeverBecomesASpecialToken) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(::testing::Message() << "SLUICE_TEST_SEED=" << seed);
  Conversations conversations(seed, /*with_controls=*/true);
  constexpr int kCases = random_cases(10'000);
  int rendered = 0, would_be = 0;
  for (int i = 0; i < kCases && !::testing::Test::HasFailure(); ++i) {
    const Encoding& encoding = encodings()[static_cast<std::size_t>(i) % encodings().size()];
    SCOPED_TRACE(encoding.name);
    const auto prompt = encoding.chat->render(conversations.make(encoding.tools && i % 3 == 0));
    if (!prompt.ok()) continue;  // a template may refuse some
    ++rendered;
    const auto encoded = tokenizer().encode(prompt->text, prompt->messages);
    ASSERT_TRUE(encoded.ok()) << encoded.status().message();
    const Found found = special_ids(prompt->text, encoded->ids);
    EXPECT_TRUE(found.clients.empty()) << prompt->text.bytes;
    // All of its own are found: as many as in the conversation with other words in the place of the client's.
    std::string own = prompt->text.bytes;
    for (const ByteRange& range : prompt->text.clients) {
      std::fill(own.begin() + static_cast<std::ptrdiff_t>(range.begin),
                own.begin() + static_cast<std::ptrdiff_t>(range.end), 'x');
    }
    EXPECT_EQ(found.own, special_ids({.bytes = own}, *tokenizer().encode(own)).own);
    would_be += *tokenizer().encode(prompt->text.bytes) != encoded->ids;
    EXPECT_EQ(encoded->places.size(), prompt->messages.size());
  }
  EXPECT_GT(rendered, kCases * (kSanitized ? 8 : 9) / 10);
  EXPECT_GT(would_be, kCases * (kSanitized ? 4 : 5) / 10) << "the texts hold no control tokens";
}

TEST(ClientText, WithoutControlTokensTheIdsAreThoseOfTheText) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(::testing::Message() << "SLUICE_TEST_SEED=" << seed);
  Conversations conversations(seed, /*with_controls=*/false);
  for (int i = 0; i < 2'000 && !::testing::Test::HasFailure(); ++i) {
    const Encoding& encoding = encodings()[static_cast<std::size_t>(i) % encodings().size()];
    const auto prompt = encoding.chat->render(conversations.make(encoding.tools && i % 3 == 0));
    if (!prompt.ok()) continue;
    EXPECT_EQ(tokenizer().encode(prompt->text)->ids, *tokenizer().encode(prompt->text.bytes)) << encoding.name;
  }
}

// A text that templates make of others is the client's where it was.
TEST(ClientText, KeepsItsMarksThroughOperations) {
  const auto marked = [](std::string_view source) {
    const auto text =
        jinja::Template::parse(source, "test")
            ->render_request({{"own", "O"}}, {{"c", "C c"}, {"list", json::array{"A", "B"}}, {"role", "user"}},
                             std::vector<std::string_view>{"user"});
    if (!text.ok()) return "! " + text.status().message();
    std::string out;  // the client's in brackets
    for (std::size_t i = 0; i < text->size(); ++i) {
      const bool is_own = text->is_own(i, i + 1);
      const bool was_own = i == 0 || text->is_own(i - 1, i);
      if (is_own != was_own) out += is_own ? ']' : '[';
      out += text->bytes[i];
    }
    return text->size() > 0 && !text->is_own(text->size() - 1, text->size()) ? out + ']' : out;
  };
  for (const auto& [source, expected] : std::vector<std::pair<std::string, std::string>>{
           {"<{{ c }}>{{ own }}{{ role }}", "<[C c]>Ouser"},
           {"{{ '<' + c + '>' }}{{ '<' ~ c ~ 1 ~ '>' }}", "<[C c]><[C c]1>"},
           {"{{ ('<' + c + '>')|trim('<') }}{{ (' ' + c).strip() }}", "[C c]>[C c]"},
           {"{{ ('<' + c + '>')[1:] }}{{ ('<' + c)[0] }}{{ c[0] }}", "[C c]><[C]"},
           {"{{ ('<' + c + '>').split('c')|join('-') }}", "<[C ]->"},
           {"{{ [own, c]|join(', ') }}{{ list|join('/') }}", "O, [C cA]/[B]"},
           {"{{ c.replace('c', own) }}{{ 'x-y'|replace('-', c) }}", "[C ]Ox[C c]y"},
           {"{{ c|upper }}{{ own|lower }}{{ ('<' + c)|upper }}", "[C C]o[<C C]"},
           {"{{ c|tojson }}{{ list }}{{ own|tojson }}", "[\"C c\"['A', 'B']]\"O\""},
           {"{{ '<%s>' % c }}{{ '<{}>'.format(c) }}{{ '<%s>' % own }}", "[<C c><C c>]<O>"},
           {"{% set x %}<{{ c }}>{% endset %}{{ x }}", "<[C c]>"},
           {"{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(c) }}{{ m(own) }}", "<[C c]><O>"},
           {"{% filter trim %} <{{ c }}> {% endfilter %}", "<[C c]>"},
           {"{% for x in c %}{{ x }}.{% endfor %}", "[C].[ ].[c]."},
           {"{{ list|map('lower')|join('<') }}{{ list|first }}{{ own|default('x') }}", "[a]<[bA]O"},
           {"{{ c * 2 }}{{ own * 2 }}{{ c|reverse }}{{ c|indent }}", "[C cC c]OO[c CC c]"},
           {"{% set ns = namespace(t='') %}{% for x in list %}{% set ns.t = ns.t ~ '<' ~ x %}{% endfor %}{{ ns.t }}",
            "<[A]<[B]"},
           {"{{ {'user': '<u>'}[role] }}{{ ('a' if c else 'b') }}{{ c or own }}", "<u>a[C c]"},
       }) {
    EXPECT_EQ(marked(source), expected) << source;
  }
}

}  // namespace
}  // namespace sluice::client_text_test
