// The forms in which clients may bind an answer, and their compiled forms over one vocabulary.
//
//   GrammarCache cache(trie);
//   auto masks = cache.get({.kind = GrammarSource::Kind::kRegex, .text = "[a-z]+"});   // compiled once per content
//   auto constraint = std::make_unique<Matcher>(*masks);
// Compiling takes milliseconds, seconds at worst: not for a thread that others wait for.
// Used by serve/api, serve/api/openai, serve/generate and verify.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/threads/mutex.h"
#include "grammar/automata/network.h"
#include "grammar/automata/token_masks.h"
#include "grammar/call_network.h"
#include "sluice/status.h"

namespace sluice {

inline constexpr std::size_t kMaxGrammarBytes = 256 << 10;  // the most for a source
inline constexpr std::size_t kMaxChoiceTexts = 10'000;
inline constexpr std::size_t kMostGrammars = 64;  // kept by a cache
inline constexpr std::size_t kMostGrammarCacheBytes = 512 << 20;

struct GrammarSource {
  enum class Kind { kJsonSchema, kRegex, kChoice, kEbnf, kCalls };
  Kind kind = Kind::kJsonSchema;
  std::string text = {};                  // JSON of the schema, a regular expression, a grammar
  std::vector<std::string> choices = {};  // kChoice: not empty
  bool compact = false;                   // JSON without white space
  CallGrammar calls = {};                 // kCalls

  bool operator==(const GrammarSource&) const = default;
};

// kInvalidArgument: it says nothing that can be enforced, and why; kResourceExhausted: too large.
Result<Network> compile(const GrammarSource& source);

// Thread safety: get() may be called from any thread.
class GrammarCache {
 public:
  // `make_trie` is called once, when the first grammar is wanted. At most `most_bytes` are kept of the grammars and
  // their masks, with what these share by vocabulary. The newest grammar is kept in any case; those used longest ago go
  // first.
  explicit GrammarCache(std::function<std::shared_ptr<const TokenTrie>()> make_trie,
                        std::size_t most_bytes = kMostGrammarCacheBytes)
      : make_trie_(std::move(make_trie)), most_bytes_(most_bytes) {}

  Result<std::shared_ptr<const TokenMasks>> get(const GrammarSource& source);

  std::shared_ptr<const TokenTrie> trie();

  std::size_t size() const;   // grammars that are kept
  std::size_t bytes() const;  // their size, and that of what their masks share

 private:
  void drop_oldest() SLUICE_REQUIRES(mutex_);

  const std::function<std::shared_ptr<const TokenTrie>()> make_trie_;
  const std::size_t most_bytes_;
  mutable Mutex mutex_;
  std::shared_ptr<const TokenTrie> trie_ SLUICE_GUARDED_BY(mutex_);
  // The one that was used last stands first.
  std::list<std::pair<GrammarSource, std::shared_ptr<const TokenMasks>>> compiled_ SLUICE_GUARDED_BY(mutex_);
};

}  // namespace sluice
