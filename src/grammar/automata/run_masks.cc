// Used by token_masks.h.
#include "grammar/automata/run_masks.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

constexpr std::size_t kLeastClass = 8;                       // bytes; with fewer a walk is short
constexpr std::size_t kMostParsed = 4;                       // most parses in a set of a chain
constexpr std::size_t kMostLarge = 16, kLeastLarge = 1'000;  // shared parts of a trie; nodes of a part
constexpr std::size_t kLeastChain = 3;                       // sets; a shorter chain saves nothing
// The limits of what is made before a mask is asked for: some tenths of a second, and half of what may be kept
// (token_masks.cc).
constexpr std::size_t kMostPreparedWork = 1'000'000, kMostPreparedBytes = 8 << 20;

// The bytes that lead to the set that most of them lead to.
ByteClass largest_class(const std::vector<ParseSets::Range>& ranges) {
  ByteClass best;
  std::vector<SetId> seen;
  for (const ParseSets::Range& first : ranges) {
    if (std::ranges::find(seen, first.to) != seen.end()) continue;
    seen.push_back(first.to);
    ByteClass bytes;
    for (const ParseSets::Range& range : ranges) {
      for (int b = range.low; range.to == first.to && b <= range.high; ++b) bytes.set(static_cast<std::size_t>(b));
    }
    if (bytes.count() > best.count()) best = bytes;
  }
  return best;
}

}  // namespace

// Returns the set to which exactly the bytes of the class lead from here; kNoSet if there is none.
SetId RunMasks::next_in_chain(const ByteClass& bytes, SetId at) {
  if (at == kTooMany || sets_.set(at).parses.size() > kMostParsed) return kNoSet;
  SetId to = kNoSet;
  std::size_t count = 0;
  for (const ParseSets::Range& range : sets_.ranges(at)) {
    if (to == kNoSet && bytes[range.low]) to = range.to;
    if (range.to != to) continue;
    for (std::size_t b = range.low; b <= range.high; ++b) {
      if (!bytes[b]) return kNoSet;
    }
    count += static_cast<std::size_t>(range.high - range.low) + 1;
  }
  return count == bytes.count() && to != kTooMany ? to : kNoSet;
}

std::optional<RunMasks::Chain> RunMasks::chain_from(SetId set) {
  if (set == kTooMany || sets_.set(set).parses.size() > kMostParsed) return {};
  Chain chain{largest_class(sets_.ranges(set)), {set}};
  if (chain.bytes.count() < kLeastClass) return {};
  while (chain.sets.size() <= trie_.longest()) {
    const SetId to = next_in_chain(chain.bytes, chain.sets.back());
    if (to == kNoSet) break;
    if (to != chain.sets.back()) {
      chain.sets.push_back(to);
      continue;
    }
    if (chain.sets.size() < kLeastChain) return {};  // free text, of which a walk leaves out most (TokenWalk)
    chain.sets.resize(trie_.longest() + 1, to);
  }
  if (chain.sets.size() < std::min(kLeastChain, trie_.longest() + 1)) return {};
  return chain;
}

// The tokens through a node whose bytes lead to `set`.
bool RunMasks::walk_from(TokenWalk& walk, std::uint32_t node, SetId set, const Found& found) {
  const std::vector<TokenTrie::Node>& nodes = trie_.level(0).nodes;
  const auto visit = [&](std::uint32_t at, SetId reached) {
    for (std::int32_t id = nodes[at].token; id >= 0; id = trie_.next_same(id)) {
      found.tokens.push_back(static_cast<std::uint32_t>(id));
    }
    if (with_returns_ && sets_.set(reached).complete && at + 1 < nodes[at].end) found.returns.push_back(at);
  };
  if (set == kTooMany) return false;
  visit(node, set);
  return walk.below(node, set, visit);
}

std::size_t RunMasks::number_of(const ByteClass& bytes) {
  const auto number = static_cast<std::size_t>(std::ranges::find(classes_, bytes) - classes_.begin());
  if (number == classes_.size()) {
    classes_.push_back(bytes);
    bytes_ += sizeof(ByteClass);
  }
  return number;
}

const RunMasks::Behind& RunMasks::behind(const Exit& exit, const TokenRuns& runs) {
  const auto [at, is_new] = behind_.try_emplace(exit);
  Behind& made = at->second;
  if (!is_new) return made;
  const ByLength& nodes = runs.exits(exit.byte);
  TokenWalk walk(trie_.level(0).nodes, sets_);
  ByLength::Found tokens, returns;
  std::vector<std::uint32_t> found_tokens, found_returns;
  made.known = true;
  for (std::uint32_t length = 0; made.known && length < nodes.lengths(); ++length) {
    for (const std::uint32_t node : nodes.of(length)) {
      if (is_large(node)) continue;
      made.known = made.known && walk_from(walk, node, exit.to, {found_tokens, found_returns});
    }
    for (const std::uint32_t id : std::exchange(found_tokens, {})) tokens.emplace_back(length, id);
    for (const std::uint32_t node : std::exchange(found_returns, {})) returns.emplace_back(length, node);
  }
  made.tokens = ByLength(tokens);
  made.returns = ByLength(returns);
  made.work = walk.work();
  bytes_ += sizeof(Exit) + sizeof(Behind) + 48 + made.tokens.bytes() + made.returns.bytes();
  return made;
}

// The tokens that leave the class after `length` bytes of it.
bool RunMasks::add_exits(const Place& place, std::size_t length, Made& made) {
  const auto& [chain, runs, byte_class] = place;
  const auto leads_to = [&](std::size_t n, std::uint8_t byte, SetId to) {
    return n < chain.sets.size() && sets_.step(chain.sets[n], byte) == to;
  };
  const std::vector<ParseSets::Range> ranges = sets_.ranges(chain.sets[length]);  // a copy: sets grow
  for (const ParseSets::Range& range : ranges) {
    for (int b = range.low; b <= range.high; ++b) {
      const auto byte = static_cast<std::uint8_t>(b);
      const std::span<const std::uint32_t> nodes = runs.exits(byte).of(length);
      if (nodes.empty()) continue;
      if (range.to == kTooMany) return false;
      for (const std::uint32_t node : nodes) {
        if (is_large(node) && !add_subtree(node, range.to, made)) return false;
      }
      if (!leads_to(length - 1, byte, range.to) && !leads_to(length + 1, byte, range.to)) {
        for (const std::uint32_t node : nodes) {
          if (!is_large(node)) to_walk_.emplace_back(node, range.to);
        }
        continue;
      }
      const Behind& more = behind({byte_class, byte, range.to}, runs);
      if (!more.known) return false;
      if (!leads_to(length - 1, byte, range.to)) made.work += more.work;
      for (const std::uint32_t id : more.tokens.of(length)) made.words[id / 32] |= 1U << (id % 32);
      const auto returns = more.returns.of(length);
      made.returns.insert(made.returns.end(), returns.begin(), returns.end());
    }
  }
  return true;
}

// Finds the tokens that are longer than the chain and go on after it.
void RunMasks::leave_chain(const TokenRuns& runs, const Chain& chain) {
  const std::vector<TokenTrie::Node>& nodes = trie_.level(0).nodes;
  const SetId back = chain.sets.back();
  const bool goes_on = std::ranges::any_of(sets_.ranges(back), [&](const ParseSets::Range& range) {
    for (std::size_t b = range.low; b <= range.high; ++b) {
      if (runs.bytes()[b]) return true;
    }
    return false;
  });
  if (!goes_on) return;
  for (const std::uint32_t node : runs.inside().of(chain.sets.size() - 1)) {
    for (std::uint32_t child = node + 1; child < nodes[node].end; child = nodes[child].end) {
      const SetId to = runs.bytes()[nodes[child].byte] ? sets_.step(back, nodes[child].byte) : kNoSet;
      if (to != kNoSet) to_walk_.emplace_back(child, to);
    }
  }
}

// The tokens through the nodes of to_walk_.
bool RunMasks::add_walks(Made& made) {
  TokenWalk walk(trie_.level(0).nodes, sets_);
  std::vector<std::uint32_t> tokens;
  for (const auto& [node, set] : std::exchange(to_walk_, {})) {
    if (is_large(node)) {
      if (!add_subtree(node, set, made)) return false;
    } else if (!walk_from(walk, node, set, {tokens, made.returns})) {
      return false;
    }
  }
  for (const std::uint32_t id : tokens) made.words[id / 32] |= 1U << (id % 32);
  made.work += walk.work();
  return made.work <= kMostMaskWork;
}

// There are few of them, so that what is counted in each for itself is little more than in one walk.
bool RunMasks::is_large(std::uint32_t node) const {
  const std::vector<TokenTrie::Node>& nodes = trie_.level(0).nodes;
  return nodes[node].end - node > std::max(nodes.size() / kMostLarge, kLeastLarge);
}

bool RunMasks::add_subtree(std::uint32_t node, SetId set, Made& made) {
  const auto [at, is_new] = subtrees_.try_emplace({node, set});
  Subtree& found = at->second;
  if (is_new) {
    TokenWalk walk(trie_.level(0).nodes, sets_);
    std::vector<std::uint32_t> tokens;
    found.known = walk_from(walk, node, set, {tokens, found.returns});
    found.work = walk.work();
    found.words.resize(trie_.words());
    for (const std::uint32_t id : tokens) found.words[id / 32] |= 1U << (id % 32);
    bytes_ += sizeof(Subtree) + 64 + 4 * (found.words.size() + found.returns.size());
  }
  made.work += found.work;
  if (!found.known || made.work > kMostMaskWork) return false;
  for (std::size_t i = 0; i < made.words.size(); ++i) made.words[i] |= found.words[i];
  made.returns.insert(made.returns.end(), found.returns.begin(), found.returns.end());
  return true;
}

bool RunMasks::can_share(SetId set) {
  if (set == kTooMany) return false;
  const std::vector<TokenTrie::Node>& nodes = trie_.level(0).nodes;
  for (std::uint32_t child = 1; child < nodes.size(); child = nodes[child].end) {
    if (is_large(child) && sets_.step(set, nodes[child].byte) != kNoSet) return true;
  }
  return false;
}

std::optional<RunMasks::Made> RunMasks::walk(SetId set) {
  const std::vector<TokenTrie::Node>& nodes = trie_.level(0).nodes;
  Made made;
  made.words.resize(trie_.words());
  to_walk_.clear();
  for (std::uint32_t child = 1; child < nodes.size(); child = nodes[child].end) {
    if (const SetId to = sets_.step(set, nodes[child].byte); to != kNoSet) to_walk_.emplace_back(child, to);
  }
  made.work = sets_.set(set).work;
  if (!add_walks(made)) return {};
  return made;
}

void RunMasks::prepare(SetId set) {
  if (classes_.size() == kMostTokenRuns || prepared_work_ > kMostPreparedWork || bytes_ > kMostPreparedBytes) return;
  if (prepared_.contains(set)) return;
  const std::optional<Chain> chain = chain_from(set);
  if (!chain) return;
  // After its first character a count may have exits that it does not have before.
  for (const SetId at : std::span(chain->sets).first(std::min<std::size_t>(chain->sets.size(), 2))) {
    const std::optional<Made> made = make(at);
    prepared_work_ += made ? made->work : kMostMaskWork;
  }
  prepared_.insert(chain->sets.begin(), chain->sets.end());
}

std::optional<RunMasks::Made> RunMasks::make(SetId set) {
  const std::optional<Chain> chain = chain_from(set);
  if (!chain) return {};
  const std::shared_ptr<const TokenRuns> runs = trie_.runs(chain->bytes);
  const Place place{*chain, *runs, number_of(chain->bytes)};
  const std::size_t last = chain->sets.size() - 1;
  Made made;
  made.words.resize(trie_.words());
  runs->add_whole(last, made.words);
  to_walk_.clear();
  for (std::size_t length = 0; length <= last; ++length) {
    const SetId at = chain->sets[length];
    if (!add_exits(place, length, made)) return {};
    made.work += sets_.set(at).work;
    if (!with_returns_ || length == 0 || !sets_.set(at).complete) continue;
    const auto inside = runs->inside().of(length);
    made.returns.insert(made.returns.end(), inside.begin(), inside.end());
  }
  leave_chain(*runs, *chain);
  if (!add_walks(made)) return {};
  return made;
}

}  // namespace sluice
