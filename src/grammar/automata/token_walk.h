// TokenWalk: a trie of tokens and the sets of a text together: which tokens can follow. The plain way to find a mask;
// all others save a part of it. Thread safety: one thread at a time.
// Used by run_masks.h and token_masks.cc.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "grammar/automata/parse_sets.h"
#include "grammar/automata/token_trie.h"

namespace sluice {

inline constexpr std::size_t kMostMaskWork = 2'000'000;  // states entered while a mask is made

// Counts what it takes: a node is little, a set what it took to make.
class TokenWalk {
 public:
  TokenWalk(const std::vector<TokenTrie::Node>& nodes, ParseSets& sets)
      : nodes_(nodes), sets_(sets), number_(sets.begin_walk()) {}

  // Calls visit(child, set) for every node below `at` whose bytes can follow `set`. The longest token bounds the depth.
  // False: it is too much, or a set is too ambiguous.
  template <class Visit>
  bool below(std::uint32_t at, SetId set, Visit&& visit) {
    if (set == kTooMany) return false;
    const std::uint32_t end = nodes_[at].end;
    if (at + 1 == end) return true;
    // Its elements stay where they are while other sets are made.
    const std::span<const ParseSets::Range> ranges = sets_.ranges(set);
    work_ += sets_.charge(set, number_);
    if ((nodes_[at].kinds & ~sets_.set(set).loops) == 0) {  // free text: nothing below leads away from here
      visited_ += end - at - 1;
      if (visited_ / kNodesPerWork + work_ > kMostMaskWork) return false;
      for (std::uint32_t child = at + 1; child < end; ++child) visit(child, set);
      return true;
    }
    auto range = ranges.begin();
    for (std::uint32_t child = at + 1; child < end; child = nodes_[child].end) {
      if (++visited_ / kNodesPerWork + work_ > kMostMaskWork) return false;
      while (range != ranges.end() && range->high < nodes_[child].byte) ++range;
      if (range == ranges.end()) return true;
      if (range->low > nodes_[child].byte) continue;
      if (range->to == kTooMany) return false;
      visit(child, range->to);
      if (!below(child, range->to, visit)) return false;
    }
    return true;
  }

  std::size_t work() const { return work_ + visited_ / kNodesPerWork; }

 private:
  static constexpr std::size_t kNodesPerWork = 16;

  const std::vector<TokenTrie::Node>& nodes_;
  ParseSets& sets_;
  const std::uint32_t number_;
  std::size_t work_ = 0, visited_ = 0;
};

}  // namespace sluice
