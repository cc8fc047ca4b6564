// Schemas, regular expressions and grammars: compiled or refused within limits; what is compiled can always be
// completed, its masks are what accept() takes, and going back changes nothing.
#include <algorithm>
#include <memory>
#include <random>

#include "files/json.h"
#include "fuzz_target.h"
#include "grammar/automata/matcher.h"
#include "grammar/grammar.h"

namespace sluice {
namespace {

std::shared_ptr<const TokenTrie> vocabulary() {
  static const auto trie = [] {
    std::vector<std::string> texts;
    for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
    for (const char* text : {"\":", "\", \"", "{\"", "\"}", "},", "]}", ", ", "true", "null", "12", ".5", "abc", "foo",
                             "\\n", "é", "\n  "}) {
      texts.emplace_back(text);
    }
    std::vector<std::string_view> tokens(texts.begin(), texts.end());
    tokens.emplace_back();
    return std::make_shared<const TokenTrie>(tokens,
                                             std::vector<std::int32_t>{static_cast<std::int32_t>(texts.size())});
  }();
  return trie;
}

using Words = std::vector<std::uint32_t>;

bool has(const Words& words, std::int32_t id) {
  return (words[static_cast<std::size_t>(id) / 32] >> (static_cast<unsigned>(id) % 32) & 1U) != 0;
}

void follow(const std::shared_ptr<const TokenMasks>& masks, std::minstd_rand& random) {
  Matcher matcher(masks);
  Words words(masks->trie().words());
  for (int step = 0; step < 12 && !matcher.ended(); ++step) {
    if (const Status status = matcher.allowed(words); !status.ok()) {
      fuzz_expect(status.code() == StatusCode::kResourceExhausted, status.message());
      return;
    }
    const Words before = words;
    std::vector<std::int32_t> can;
    for (std::int32_t id = 0; id < masks->trie().vocab_size(); ++id) {
      if (has(words, id)) can.push_back(id);
    }
    for (int i = 0; i < 8; ++i) {
      const auto id = static_cast<std::int32_t>(random() % static_cast<unsigned>(masks->trie().vocab_size()));
      const bool accepts = matcher.accept(id);
      fuzz_expect(accepts == has(before, id), "a mask differs from what is accepted");
      if (accepts) matcher.rollback(1);
    }
    fuzz_expect(matcher.allowed(words).ok() && words == before, "going back changed a mask");
    matcher.accept(can[random() % can.size()]);
  }
}

void check(std::string_view input) {
  GrammarSource source{.text = std::string(input)};
  if (!input.empty() && input[0] != '{') {
    source.kind = input.find("::=") == input.npos ? GrammarSource::Kind::kRegex : GrammarSource::Kind::kEbnf;
  }
  source.compact = hash_of(input) % 2 == 0;
  auto network = compile(source);
  if (!network.ok()) {
    const StatusCode code = network.status().code();
    fuzz_expect(code == StatusCode::kInvalidArgument || code == StatusCode::kResourceExhausted,
                network.status().message());
    fuzz_expect(!network.status().message().empty(), "an error without words");
    return;
  }
  std::minstd_rand random(static_cast<unsigned>(hash_of(input)));
  const auto masks = std::make_shared<const TokenMasks>(vocabulary(), std::move(*network));
  for (int i = 0; i < 3; ++i) follow(masks, random);
}

}  // namespace

FuzzTarget fuzz_target() {
  FuzzTarget target = {.name = "grammar", .max_bytes = 1024, .check = check};
  for (const char* word : {"\"type\":\"object\"",
                           "\"properties\":{\"a\":",
                           "\"items\":",
                           "\"anyOf\":[",
                           "\"allOf\":[",
                           "\"oneOf\":[",
                           "\"not\":",
                           "\"if\":",
                           "\"$ref\":\"#\"",
                           "\"$ref\":\"#/$defs/d\"",
                           "\"enum\":[",
                           "\"const\":",
                           "\"minimum\":",
                           "\"maxLength\":",
                           "\"pattern\":\"",
                           "\"contains\":",
                           "\"additionalProperties\":false",
                           "\"patternProperties\":{",
                           "\"propertyNames\":",
                           "\"required\":[\"a\"]",
                           "\"dependentRequired\":{",
                           "\"multipleOf\":",
                           "\"minItems\":",
                           "\"maxItems\":",
                           "\"prefixItems\":[",
                           "\"format\":\"date\"",
                           "\"uniqueItems\":true",
                           "{1,3}",
                           "{2,}",
                           "[^a-z]",
                           "::=",
                           "root",
                           "|",
                           "(",
                           ")*",
                           "?",
                           "\\d",
                           "\\u00e9",
                           "1e300",
                           "99999",
                           "{}",
                           "true",
                           "]}"}) {
    target.words.emplace_back(word);
  }
  return target;
}

}  // namespace sluice
