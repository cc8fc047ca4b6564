// Matcher: a TokenConstraint: an answer must be a text of a grammar. A token is allowed if and only if some text of the
// grammar begins with the answer and the token's bytes; an end token, if and only if the answer is such a text.
//
// Tokens are bytes here: one may hold parts of characters, or the end of one part of the grammar and the beginning of
// the next. Special tokens are never part of a text. Going back is free, copies share what they have worked out. Thread
// safety: as TokenConstraint.
// Used by grammar/behind_marker.h, serve/generate/answer_constraint.cc, serve/generate/tool_constraint.cc and
// verify/law_constraint.cc.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/threads/mutex.h"
#include "grammar/automata/parse_sets.h"
#include "grammar/automata/token_masks.h"
#include "sluice/constraint.h"

namespace sluice {

class Matcher final : public TokenConstraint {
 public:
  explicit Matcher(std::shared_ptr<const TokenMasks> grammar);

  Status allowed(std::span<std::uint32_t> words) override;
  bool accept(std::int32_t token) override;
  void rollback(std::size_t tokens) override;
  int forced(std::span<std::int32_t> tokens) override;
  std::unique_ptr<TokenConstraint> copy() const override;

  // Accepts these bytes as it does a token of them; false: no text of the grammar goes on so. A text that is too
  // ambiguous to be followed is accepted; asking for more is then an error.
  bool accept_bytes(std::string_view bytes);
  bool complete();                                        // the answer so far is a text of the grammar
  bool ended() const { return after_.back() == kEnded; }  // an end token was accepted
  const TokenTrie& trie() const { return grammar_->trie(); }

 private:
  static constexpr SetId kEnded = kTooMany - 1;
  struct Shared {
    explicit Shared(const Network& network) : sets(network) {}
    Mutex mutex;  // copies may be on other threads
    ParseSets sets SLUICE_GUARDED_BY(mutex);
  };

  void start_anew();

  std::shared_ptr<const TokenMasks> grammar_;
  std::shared_ptr<Shared> shared_;
  std::vector<SetId> after_;  // the start, then each token; the oldest are forgotten
};

}  // namespace sluice
