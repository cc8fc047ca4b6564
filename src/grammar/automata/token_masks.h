// TokenMasks: a grammar over a vocabulary: which tokens a set of parses allows.
//
// A token is allowed if all its bytes can follow. For a parse that is (state, stack), most tokens are decided by the
// state alone: they stay within its rule. So for each state that is met the walk through the trie is done once and
// kept. The stack decides only at the places of the trie where the rule ends with bytes of the token still to come.
// States that count characters do not walk each for itself (run_masks.h). Thread safety: const calls from any number of
// threads; what is kept never changes an answer.
// Used by grammar/grammar.h and matcher.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/threads/mutex.h"
#include "grammar/automata/network.h"
#include "grammar/automata/parse_sets.h"
#include "grammar/automata/run_masks.h"
#include "grammar/automata/token_trie.h"

namespace sluice {

class TokenMasks {
 public:
  enum class Found : std::uint8_t { kNone, kSome, kTooMany };

  TokenMasks(std::shared_ptr<const TokenTrie> trie, Network network);

  // Makes what masks share with those of other grammars, so that no call for a mask has to: it takes milliseconds.
  void prepare() const;

  const Network& network() const { return network_; }
  const TokenTrie& trie() const { return *trie_; }

  // Sets the bits of the tokens that may come next, and clears all others. `sets` is of this network. kTooMany: the
  // text is too ambiguous for that, and the words say nothing; whether it is depends on the text alone.
  Found allowed(ParseSets& sets, SetId set, std::span<std::uint32_t> words) const;

  // The size of the grammar and of what is kept for its states.
  std::size_t bytes() const;

 private:
  // The tokens that are allowed in a state whatever its stack. Few tokens are kept as a list, many as bits.
  struct OfState {
    const TokenTrie::Level* level = nullptr;
    bool has_plain = false;              // the level's plain tokens are allowed, too
    std::vector<std::int32_t> tokens;    // allowed within the rule; or
    std::vector<std::uint32_t> bits;     // the same tokens as bits
    std::vector<std::uint32_t> returns;  // nodes after which the rule may end and tokens go on
    std::size_t work = 0;                // what that took; above kMostMaskWork: it is not known
  };

  // The memory that the walks of make() share.
  struct Workshop {
    Workshop(const TokenTrie& trie, const Network& network, bool with_returns)
        : sets(network), runs(trie, sets, with_returns) {}
    ParseSets sets;
    RunMasks runs;
  };

  std::shared_ptr<const OfState> of_state(std::int32_t state) const;
  void open_workshop() const SLUICE_REQUIRES(mutex_);
  OfState make(std::int32_t state) const SLUICE_REQUIRES(mutex_);
  OfState from_runs(RunMasks::Made&& made) const SLUICE_REQUIRES(mutex_);

  const std::shared_ptr<const TokenTrie> trie_;
  const Network network_;
  const bool has_calls_;  // false: rules end only with the text
  mutable Mutex mutex_;
  mutable std::unordered_map<std::int32_t, std::shared_ptr<const OfState>> states_ SLUICE_GUARDED_BY(mutex_);
  mutable std::unique_ptr<Workshop> workshop_ SLUICE_GUARDED_BY(mutex_);
  mutable std::size_t bytes_ SLUICE_GUARDED_BY(mutex_) = 0;
};

}  // namespace sluice
