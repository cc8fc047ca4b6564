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

// Walks a trie and the sets of a text together, counting what that takes: a node is little, a set what it took to make.
class Walk {
 public:
  Walk(const std::vector<TokenTrie::Node>& nodes, ParseSets& sets)
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

}  // namespace

TokenMasks::TokenMasks(std::shared_ptr<const TokenTrie> trie, Network network)
    : trie_(std::move(trie)), network_(std::move(network)) {}

std::size_t TokenMasks::bytes() const {
  const std::lock_guard lock(mutex_);
  return network_.bytes() + bytes_ + (sets_ != nullptr ? sets_->bytes() : 0);
}

TokenMasks::OfState TokenMasks::make(std::int32_t state) const {
  if (sets_ == nullptr || sets_->bytes() > kMostWalkedBytes) sets_ = std::make_unique<ParseSets>(network_);
  OfState out;
  const int plain_run = network_.state(state).plain_run;
  out.level = &trie_->level(plain_run);
  out.has_plain = out.level != &trie_->level(0);
  Walk walk(out.level->nodes, *sets_);
  const bool known = walk.below(0, sets_->at(state), [&](std::uint32_t node, SetId set) {
    const TokenTrie::Node& found = out.level->nodes[node];
    for (std::int32_t id = found.token; id >= 0; id = trie_->next_same(id)) out.tokens.push_back(id);
    if (sets_->set(set).complete && node + 1 < found.end) out.returns.push_back(node);
  });
  out.work = known ? walk.work() : kMostMaskWork + 1;
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

TokenMasks::Found TokenMasks::allowed(ParseSets& sets, SetId set, std::span<std::uint32_t> words) const {
  std::ranges::fill(words, 0U);
  const auto allow = [&](const TokenTrie::Node& node) {
    for (std::int32_t id = node.token; id >= 0; id = trie_->next_same(id)) set_bit(words, id);
  };
  if (sets.set(set).complete) {
    for (const std::int32_t id : trie_->ends()) {
      if (static_cast<std::size_t>(id) / 32 < words.size()) set_bit(words, id);
    }
  }
  const auto any = [&] {
    return std::ranges::any_of(words, [](std::uint32_t word) { return word != 0; }) ? Found::kSome : Found::kNone;
  };
  std::size_t work = 0;
  const std::vector<Parse> parses = sets.set(set).parses;  // a copy: sets grow
  // What is kept of a state holds where no token can open more rules than there may be.
  const auto room = kMaxRuleDepth - network_.deepest_need() - static_cast<int>(trie_->longest()) - 1;
  if (std::ranges::any_of(parses, [&](const Parse& parse) { return sets.depth(parse.stack) >= room; })) {
    const auto& nodes = trie_->level(0).nodes;
    const bool known = Walk(nodes, sets).below(0, set, [&](std::uint32_t node, SetId) { allow(nodes[node]); });
    return known ? any() : Found::kTooMany;
  }
  for (const Parse& parse : parses) {
    const std::shared_ptr<const OfState> known = of_state(parse.state);
    work += known->work;
    if (work > kMostMaskWork) return Found::kTooMany;
    if (known->has_plain) unite_bits(words, known->level->plain);
    unite_bits(words, known->bits);
    for (const std::int32_t id : known->tokens) set_bit(words, id);
    if (known->returns.empty()) continue;
    const SetId behind = sets.after_return(parse.stack);
    if (behind == kNoSet || (behind != kTooMany && sets.set(behind).parses.empty())) continue;  // nothing goes on there
    const auto& nodes = known->level->nodes;
    Walk walk(nodes, sets);
    for (const std::uint32_t node : known->returns) {
      if (!walk.below(node, behind, [&](std::uint32_t child, SetId) { allow(nodes[child]); })) return Found::kTooMany;
    }
    work += walk.work();
  }
  return any();
}

}  // namespace sluice
