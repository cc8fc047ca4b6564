// RunMasks: the masks of places where a grammar counts characters, such as `[a-z]{3,40}`. There bytes of one class lead
// from set to set: after n of them the n-th of a chain is reached. So a token that is all of the class is allowed if it
// is no longer than the chain. A token that leaves the class after n bytes is allowed if the n-th set lets it go on.
// Both kinds are kept by length for all places of all chains of the class (TokenRuns). The tokens that follow an exit
// are kept for all places that come to the same set.
//
// The answer is that of a walk from the place (TokenWalk). The work that it reports depends on the place alone, not on
// what is kept. Thread safety: one thread at a time.
// Used by token_masks.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "grammar/automata/parse_sets.h"
#include "grammar/automata/token_runs.h"
#include "grammar/automata/token_trie.h"
#include "grammar/automata/token_walk.h"

namespace sluice {

class RunMasks {
 public:
  struct Made {
    std::vector<std::uint32_t> words;    // the tokens allowed
    std::vector<std::uint32_t> returns;  // nodes of level 0 after which the rule may end and tokens go on
    std::size_t work = 0;
  };

  // `with_returns`: whether these are wanted. Both references outlive this.
  RunMasks(const TokenTrie& trie, ParseSets& sets, bool with_returns)
      : trie_(trie), sets_(sets), with_returns_(with_returns) {}

  // Nothing: no characters are counted here, or it is too much; then a walk says.
  std::optional<Made> make(SetId set);

  // Walks for places that can_share(). Large parts of the trie, such as all that begins with a space, are shared with
  // other places from which they are entered with the same set. Nothing: it is too much so, as each part counts for
  // itself.
  bool can_share(SetId set);
  std::optional<Made> walk(SetId set);

  // Makes what the masks of the place and of the next ones in its chain share: milliseconds for a class of bytes or an
  // exit that is new. It does so for the first places only, as it may not take too long, and no more is kept.
  void prepare(SetId set);

  std::size_t bytes() const { return bytes_; }  // the size of what is kept

 private:
  struct Chain {
    ByteClass bytes;
    std::vector<SetId> sets;  // after 0, 1, ... bytes of the class
  };
  // An exit leads to a set: a byte that is not of the class, after bytes that are.
  struct Exit {
    std::size_t byte_class = 0;  // index into classes_
    std::uint8_t byte = 0;
    SetId to = kNoSet;

    auto operator<=>(const Exit&) const = default;
  };
  struct Behind {
    ByLength tokens, returns;  // by the length of the token before it leaves the chain
    std::size_t work = 0;
    bool known = false;
  };
  // A chain, and the vocabulary by its class.
  struct Place {
    const Chain& chain;
    const TokenRuns& runs;
    std::size_t byte_class;
  };
  struct Subtree {
    std::vector<std::uint32_t> words, returns;  // see Made
    std::size_t work = 0;
    bool known = false;
  };
  struct Found {
    std::vector<std::uint32_t>& tokens;
    std::vector<std::uint32_t>& returns;
  };

  std::optional<Chain> chain_from(SetId set);
  std::size_t number_of(const ByteClass& bytes);
  SetId next_in_chain(const ByteClass& bytes, SetId at);
  bool add_exits(const Place& place, std::size_t length, Made& made);
  void leave_chain(const TokenRuns& runs, const Chain& chain);
  bool add_walks(Made& made);
  bool is_large(std::uint32_t node) const;
  bool add_subtree(std::uint32_t node, SetId set, Made& made);
  const Behind& behind(const Exit& exit, const TokenRuns& runs);
  bool walk_from(TokenWalk& walk, std::uint32_t node, SetId set, const Found& found);

  const TokenTrie& trie_;
  ParseSets& sets_;
  const bool with_returns_;
  std::vector<ByteClass> classes_;
  std::map<Exit, Behind> behind_;
  std::map<std::pair<std::uint32_t, SetId>, Subtree> subtrees_;  // subtrees of large nodes
  std::vector<std::pair<std::uint32_t, SetId>> to_walk_;         // (node, set): exits that no other place shares
  std::size_t bytes_ = 0, prepared_work_ = 0;
  std::set<SetId> prepared_;
};

}  // namespace sluice
