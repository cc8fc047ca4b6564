#include "grammar/token_masks.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

constexpr std::size_t kMostListed = 2'000;          // tokens; more become bits
constexpr std::size_t kMostKept = 64 << 20;         // bytes for states; beyond, the walk is done each time
constexpr std::size_t kMostWalkedBytes = 16 << 20;  // bytes of sets_, which are made anew beyond

void set_bit(std::span<std::uint32_t> words, std::int32_t id) {
  words[static_cast<std::size_t>(id) / 32] |= 1U << (static_cast<unsigned>(id) % 32);
}

void unite_bits(std::span<std::uint32_t> words, const std::vector<std::uint32_t>& more) {
  for (std::size_t i = 0; i < more.size(); ++i) words[i] |= more[i];
}

// Calls visit(child, set) for every node below `at` whose bytes can follow `set`. The longest token bounds the depth.
template <class Visit>
void walk(const std::vector<TokenTrie::Node>& nodes, std::uint32_t at, ParseSets& sets, SetId set, Visit&& visit) {
  const std::uint32_t end = nodes[at].end;
  if (at + 1 == end) return;
  // Its elements stay where they are while other sets are made.
  const std::span<const ParseSets::Range> ranges = sets.ranges(set);
  auto range = ranges.begin();
  for (std::uint32_t child = at + 1; child < end; child = nodes[child].end) {
    while (range != ranges.end() && range->high < nodes[child].byte) ++range;
    if (range == ranges.end()) return;
    if (range->low > nodes[child].byte) continue;
    visit(child, range->to);
    walk(nodes, child, sets, range->to, visit);
  }
}

}  // namespace

TokenMasks::TokenMasks(std::shared_ptr<const TokenTrie> trie, Network network)
    : trie_(std::move(trie)), network_(std::move(network)) {}

TokenMasks::OfState TokenMasks::make(std::int32_t state) const {
  if (sets_ == nullptr || sets_->bytes() > kMostWalkedBytes) sets_ = std::make_unique<ParseSets>(network_);
  OfState out;
  const int plain_run = network_.state(state).plain_run;
  out.level = &trie_->level(plain_run);
  out.has_plain = out.level != &trie_->level(0);
  walk(out.level->nodes, 0, *sets_, sets_->at(state), [&](std::uint32_t node, SetId set) {
    const TokenTrie::Node& found = out.level->nodes[node];
    for (std::int32_t id = found.token; id >= 0; id = trie_->next_same(id)) out.tokens.push_back(id);
    if (sets_->set(set).complete && node + 1 < found.end) out.returns.push_back(node);
  });
  if (out.tokens.size() > kMostListed) {
    out.bits.resize(trie_->words());
    for (const std::int32_t id : out.tokens) set_bit(out.bits, id);
    out.tokens.clear();
  }
  out.tokens.shrink_to_fit();
  out.returns.shrink_to_fit();
  return out;
}

std::shared_ptr<const TokenMasks::OfState> TokenMasks::of_state(std::int32_t state) const {
  const std::lock_guard lock(mutex_);
  if (const auto found = states_.find(state); found != states_.end()) return found->second;
  auto made = std::make_shared<const OfState>(make(state));
  if (bytes_ < kMostKept) {
    bytes_ += sizeof(OfState) + 4 * (made->tokens.size() + made->bits.size() + made->returns.size());
    states_.emplace(state, made);
  }
  return made;
}

bool TokenMasks::allowed(ParseSets& sets, SetId set, std::span<std::uint32_t> words) const {
  std::ranges::fill(words, 0U);
  const auto allow = [&](const TokenTrie::Node& node) {
    for (std::int32_t id = node.token; id >= 0; id = trie_->next_same(id)) set_bit(words, id);
  };
  if (sets.set(set).complete) {
    for (const std::int32_t id : trie_->ends()) {
      if (static_cast<std::size_t>(id) / 32 < words.size()) set_bit(words, id);
    }
  }
  const std::vector<Parse> parses = sets.set(set).parses;  // a copy: sets grow
  // What is kept of a state holds where no token can open more rules than there may be.
  const auto room = kMaxRuleDepth - network_.deepest_need() - static_cast<int>(trie_->longest()) - 1;
  if (std::ranges::any_of(parses, [&](const Parse& parse) { return sets.depth(parse.stack) >= room; })) {
    const auto& nodes = trie_->level(0).nodes;
    walk(nodes, 0, sets, set, [&](std::uint32_t node, SetId) { allow(nodes[node]); });
    return std::ranges::any_of(words, [](std::uint32_t word) { return word != 0; });
  }
  for (const Parse& parse : parses) {
    const std::shared_ptr<const OfState> known = of_state(parse.state);
    if (known->has_plain) unite_bits(words, known->level->plain);
    unite_bits(words, known->bits);
    for (const std::int32_t id : known->tokens) set_bit(words, id);
    if (known->returns.empty()) continue;
    const SetId behind = sets.after_return(parse.stack);
    if (behind == kNoSet) continue;
    const auto& nodes = known->level->nodes;
    for (const std::uint32_t node : known->returns) {
      walk(nodes, node, sets, behind, [&](std::uint32_t child, SetId) { allow(nodes[child]); });
    }
  }
  return std::ranges::any_of(words, [](std::uint32_t word) { return word != 0; });
}

}  // namespace sluice
