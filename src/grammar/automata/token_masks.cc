// Used by grammar/grammar.h and matcher.h.
#include "grammar/automata/token_masks.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/threads/mutex.h"
#include "grammar/automata/token_walk.h"

namespace sluice {
namespace {

constexpr std::size_t kMostListed = 2'000;          // tokens; more become bits
constexpr std::size_t kMostKept = 64 << 20;         // bytes of kept masks; beyond, each mask is walked anew
constexpr std::int32_t kMostPrepared = 1'000;       // states that prepare() visits
constexpr std::size_t kMostWalkedBytes = 16 << 20;  // bytes of the workshop; beyond, it is made anew

bool calls_rules(const Network& network) {
  for (std::size_t s = 0; s < network.size(); ++s) {
    if (!network.state(static_cast<std::int32_t>(s)).calls.empty()) return true;
  }
  return false;
}

void set_bit(std::span<std::uint32_t> words, std::int32_t id) {
  words[static_cast<std::size_t>(id) / 32] |= 1U << (static_cast<unsigned>(id) % 32);
}

void unite_bits(std::span<std::uint32_t> words, const std::vector<std::uint32_t>& more) {
  for (std::size_t i = 0; i < more.size(); ++i) words[i] |= more[i];
}

}  // namespace

TokenMasks::TokenMasks(std::shared_ptr<const TokenTrie> trie, Network network)
    : trie_(std::move(trie)), network_(std::move(network)), has_calls_(calls_rules(network_)) {}

std::size_t TokenMasks::bytes() const {
  const MutexLock lock(mutex_);
  return network_.bytes() + bytes_ + (workshop_ != nullptr ? workshop_->sets.bytes() + workshop_->runs.bytes() : 0);
}

TokenMasks::OfState TokenMasks::from_runs(RunMasks::Made&& made) const {
  OfState out;
  out.level = &trie_->level(0);
  out.returns = std::move(made.returns);
  out.returns.shrink_to_fit();
  out.work = made.work;
  std::size_t count = 0;
  for (const std::uint32_t word : made.words) count += static_cast<std::size_t>(std::popcount(word));
  if (count > kMostListed) {
    out.bits = std::move(made.words);
    return out;
  }
  out.tokens.reserve(count);
  for (std::size_t w = 0; w < made.words.size(); ++w) {
    for (std::uint32_t left = made.words[w]; left != 0; left &= left - 1) {
      out.tokens.push_back(static_cast<std::int32_t>(32 * w) + std::countr_zero(left));
    }
  }
  return out;
}

void TokenMasks::open_workshop() const {
  if (workshop_ != nullptr && workshop_->sets.bytes() + workshop_->runs.bytes() <= kMostWalkedBytes) return;
  workshop_ = std::make_unique<Workshop>(*trie_, network_, has_calls_);
}

void TokenMasks::prepare() const {
  const MutexLock lock(mutex_);
  open_workshop();
  const auto states = static_cast<std::int32_t>(network_.size());
  for (std::int32_t state = 0; state < states; state += 1 + states / kMostPrepared) {
    if (network_.state(state).plain_run != kMaxPlainRun) workshop_->runs.prepare(workshop_->sets.at(state));
  }
}

TokenMasks::OfState TokenMasks::make(std::int32_t state) const {
  open_workshop();
  const int plain_run = network_.state(state).plain_run;
  if (plain_run != kMaxPlainRun) {
    if (auto made = workshop_->runs.make(workshop_->sets.at(state))) return from_runs(std::move(*made));
  }
  OfState out;
  out.level = &trie_->level(plain_run);
  if (out.level == &trie_->level(0) && workshop_->runs.can_share(workshop_->sets.at(state))) {
    if (auto made = workshop_->runs.walk(workshop_->sets.at(state))) return from_runs(std::move(*made));
  }
  out.has_plain = out.level != &trie_->level(0);
  ParseSets& sets = workshop_->sets;
  TokenWalk walk(out.level->nodes, sets);
  const bool known = walk.below(0, sets.at(state), [&](std::uint32_t node, SetId set) {
    const TokenTrie::Node& found = out.level->nodes[node];
    for (std::int32_t id = found.token; id >= 0; id = trie_->next_same(id)) out.tokens.push_back(id);
    if (has_calls_ && sets.set(set).complete && node + 1 < found.end) out.returns.push_back(node);
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
  const MutexLock lock(mutex_);
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
  // The kept masks of a state hold where no token can open more rules than there may be.
  const auto room = kMaxRuleDepth - network_.deepest_need() - static_cast<int>(trie_->longest()) - 1;
  if (std::ranges::any_of(parses, [&](const Parse& parse) { return sets.depth(parse.stack) >= room; })) {
    const auto& nodes = trie_->level(0).nodes;
    const bool known = TokenWalk(nodes, sets).below(0, set, [&](std::uint32_t node, SetId) { allow(nodes[node]); });
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
    if (behind == kNoSet || (behind != kTooMany && sets.set(behind).parses.empty()))
      continue;  // no parse goes on there
    const auto& nodes = known->level->nodes;
    TokenWalk walk(nodes, sets);
    for (const std::uint32_t node : known->returns) {
      if (!walk.below(node, behind, [&](std::uint32_t child, SetId) { allow(nodes[child]); })) return Found::kTooMany;
    }
    work += walk.work();
  }
  return any();
}

}  // namespace sluice
