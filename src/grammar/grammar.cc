// Used by serve/api, serve/api/openai, serve/generate and verify.
#include "grammar/grammar.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/threads/mutex.h"
#include "base/utf8.h"
#include "files/json.h"
#include "grammar/automata/regex.h"
#include "grammar/gbnf.h"
#include "grammar/schema/json_schema.h"

namespace sluice {
namespace {

Result<Network> network_of(const Dfa& dfa) {
  NetworkBuilder builder;
  const std::int32_t rule = builder.add_rule("text");
  builder.set_end(builder.add_dfa(builder.start(rule), dfa));
  return builder.finish(rule);
}

Result<Network> compile_choice(const std::vector<std::string>& choices) {
  if (choices.size() > kMaxChoiceTexts) {
    return invalid_argument(
        fmt::format("choice: expected at most {} texts, found {}", kMaxChoiceTexts, choices.size()));
  }
  std::size_t bytes = 0;
  for (const std::string& text : choices) {
    if (text.empty()) return invalid_argument("choice: expected texts that are not empty");
    if (valid_utf8_prefix(text) != text.size()) return invalid_argument("choice: expected UTF-8");
    bytes += text.size();
  }
  if (choices.empty()) return invalid_argument("choice: expected at least one text");
  if (bytes > kMaxGrammarBytes) {
    return invalid_argument(fmt::format("choice: expected at most {} bytes, found {}", kMaxGrammarBytes, bytes));
  }
  return network_of(dfa_of(choices));
}

Result<Network> compile_regex(std::string_view pattern) {
  SLUICE_ASSIGN_OR_RETURN(const Expression expression, parse_regex(pattern, "regex"));
  const Result<Dfa> dfa = whole_match(expression);
  if (!dfa.ok()) return dfa.status().with_context("regex");
  auto network = network_of(*dfa);
  return network.ok() ? std::move(network) : network.status().with_context("regex");
}

Result<Network> compile_schema(const GrammarSource& source) {
  SLUICE_ASSIGN_OR_RETURN(const boost::json::value schema, parse_json(source.text, "schema"));
  return compile_json_schema(schema, {.compact = source.compact});
}

}  // namespace

Result<Network> compile(const GrammarSource& source) {
  if (source.text.size() > kMaxGrammarBytes) {
    return invalid_argument(fmt::format("expected at most {} bytes, found {}", kMaxGrammarBytes, source.text.size()));
  }
  switch (source.kind) {
    case GrammarSource::Kind::kChoice:
      return compile_choice(source.choices);
    case GrammarSource::Kind::kRegex:
      return compile_regex(source.text);
    case GrammarSource::Kind::kEbnf:
      return compile_gbnf(source.text);
    case GrammarSource::Kind::kCalls:
      return compile_calls(source.calls);
    case GrammarSource::Kind::kJsonSchema:
      break;
  }
  return compile_schema(source);
}

Result<std::shared_ptr<const TokenMasks>> GrammarCache::get(const GrammarSource& source) {
  std::shared_ptr<const TokenTrie> trie;
  {
    const MutexLock lock(mutex_);
    const auto found =
        std::ranges::find(compiled_, source, [](const auto& entry) -> const auto& { return entry.first; });
    if (found != compiled_.end()) {
      compiled_.splice(compiled_.begin(), compiled_, found);
      drop_oldest();
      return found->second;
    }
    if (trie_ == nullptr) trie_ = make_trie_();
    trie = trie_;
  }
  SLUICE_ASSIGN_OR_RETURN(Network network, compile(source));
  auto masks = std::make_shared<const TokenMasks>(std::move(trie), std::move(network));
  masks->prepare();
  const MutexLock lock(mutex_);
  compiled_.emplace_front(source, masks);
  drop_oldest();
  return masks;
}

std::shared_ptr<const TokenTrie> GrammarCache::trie() {
  const MutexLock lock(mutex_);
  if (trie_ == nullptr) trie_ = make_trie_();
  return trie_;
}

// Masks grow while they are used, so it is looked at each time.
void GrammarCache::drop_oldest() {
  std::size_t kept = 0, bytes = trie_->runs_bytes();
  auto at = compiled_.begin();
  while (at != compiled_.end() && kept < kMostGrammars) {
    bytes += at->second->bytes();
    if (kept > 0 && bytes > most_bytes_) break;
    ++kept, ++at;
  }
  compiled_.erase(at, compiled_.end());
}

std::size_t GrammarCache::size() const {
  const MutexLock lock(mutex_);
  return compiled_.size();
}

std::size_t GrammarCache::bytes() const {
  const MutexLock lock(mutex_);
  std::size_t bytes = trie_ != nullptr ? trie_->runs_bytes() : 0;
  for (const auto& [source, masks] : compiled_) bytes += masks->bytes();
  return bytes;
}

}  // namespace sluice
