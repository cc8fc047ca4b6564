// Used by matcher.h, run_masks.h, token_masks.h and token_walk.h.
#include "grammar/automata/parse_sets.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "grammar/automata/token_trie.h"

namespace sluice {
namespace {

std::uint64_t mix(std::uint64_t hash, std::int64_t value) {
  hash ^= static_cast<std::uint64_t>(value) + 0x9E3779B97F4A7C15U + (hash << 6) + (hash >> 2);
  return hash * 0xFF51AFD7ED558CCDU;
}

std::uint64_t kinds_within(const std::vector<ParseSets::Range>& ranges, SetId to) {
  if (std::ranges::find(ranges, to, &ParseSets::Range::to) == ranges.end()) return 0;
  std::uint64_t others = 0;
  int byte = 0;
  const auto leave_out = [&](int until) {
    for (; byte < until; ++byte) others |= byte_kind(static_cast<std::uint8_t>(byte));
  };
  for (const ParseSets::Range& range : ranges) {
    if (range.to != to) continue;
    leave_out(range.low);
    byte = range.high + 1;
  }
  leave_out(256);
  return ~others;
}

}  // namespace

ParseSets::ParseSets(const Network& network) : network_(network) {
  stacks_.push_back({{Frame{}}, 0, kNotKnown});
}

SetId ParseSets::start() {
  const NetworkRule& root = network_.rule(network_.root());
  work_ = 0;
  complete_ = root.may_be_empty;
  enter_reached(network_.state(root.start), kRootStack, false);
  return finish();
}

SetId ParseSets::at(std::int32_t state) {
  work_ = 0;
  parses_.push_back({state, kRootStack});
  return finish();
}

SetId ParseSets::after_return(StackId stack) {
  SetId& known = stacks_[static_cast<std::size_t>(stack)].returned;
  if (known != kNotKnown) return known;
  work_ = 0;
  leave(stack);
  const SetId made = finish();
  return stacks_[static_cast<std::size_t>(stack)].returned = made;
}

SetId ParseSets::step(SetId set, std::uint8_t byte) {
  const std::vector<Range>& all = ranges(set);
  const auto found = std::ranges::lower_bound(all, byte, {}, &Range::high);
  return found == all.end() || found->low > byte ? kNoSet : found->to;
}

const std::vector<ParseSets::Range>& ParseSets::ranges(SetId id) {
  if (set(id).expanded) return set(id).ranges;
  struct Edge {
    ByteEdge bytes;
    StackId stack;
  };
  std::vector<Edge> edges;
  bool is_cut[257] = {};
  for (const Parse& parse : set(id).parses) {
    for (const ByteEdge& edge : network_.state(parse.state).bytes) {
      edges.push_back({edge, parse.stack});
      is_cut[edge.low] = is_cut[edge.high + 1] = true;
    }
  }
  std::vector<Range> made;
  work_ = 0;
  int low = 0;
  for (int cut = 1; cut <= 256; ++cut) {
    if (!is_cut[cut]) continue;
    work_ += edges.size() / 16;
    for (const Edge& edge : edges) {
      if (edge.bytes.low <= low && low <= edge.bytes.high) enter(edge.bytes.to, edge.stack);
    }
    if (const SetId to = finish(); to != kNoSet) {
      made.push_back({static_cast<std::uint8_t>(low), static_cast<std::uint8_t>(cut - 1), to});
    }
    low = cut;
  }
  Set& out = sets_[static_cast<std::size_t>(id)];
  out.loops = kinds_within(made, id);
  out.ranges = std::move(made);
  out.expanded = true;
  out.work = static_cast<std::uint32_t>(work_);
  bytes_ += out.ranges.size() * sizeof(Range);
  return out.ranges;
}

std::size_t ParseSets::charge(SetId expanded, std::uint32_t walk) {
  Set& set = sets_[static_cast<std::size_t>(expanded)];
  return std::exchange(set.charged, walk) == walk ? 0 : set.work;
}

// A parse stays only if it can be completed with no more rules open than there may be.
void ParseSets::enter(std::int32_t index, StackId stack) {
  const NetworkState& state = network_.state(index);
  if (depth(stack) + state.least_depth > kMaxRuleDepth) return;
  enter_reached(state, stack, true);
}

void ParseSets::enter_reached(const NetworkState& state, StackId stack, bool may_end) {
  if (work_ > kMostWork) return;
  for (const std::int32_t index : state.reach) {
    if (++work_ > kMostWork) return;
    const NetworkState& reached = network_.state(index);
    if (depth(stack) + reached.least_depth > kMaxRuleDepth) continue;
    if (!reached.bytes.empty()) parses_.push_back({index, stack});
    if (reached.ends && may_end) leave(stack);
    for (const CallEdge& edge : reached.calls) call(edge, stack);
  }
}

void ParseSets::leave(StackId stack) {
  if (std::ranges::find(left_, stack) != left_.end()) return;
  left_.push_back(stack);
  const std::vector<Frame> frames = stacks_[static_cast<std::size_t>(stack)].frames;  // stacks_ may grow
  for (const Frame& frame : frames) {
    if (frame.to < 0) {
      complete_ = true;
    } else {
      enter(frame.to, frame.below);
    }
  }
}

void ParseSets::call(const CallEdge& edge, StackId stack) {
  ++work_;
  const NetworkRule& rule = network_.rule(edge.rule);
  const NetworkState& to = network_.state(edge.to);
  if (depth(stack) + 1 + network_.state(rule.start).least_depth > kMaxRuleDepth ||
      depth(stack) + to.least_depth > kMaxRuleDepth) {
    return;
  }
  if (!to.only_ends) {
    pending_.push_back({rule.order, edge.rule, {edge.to, stack}});
    return;
  }
  // Nothing is left to do after the call: it returns where its caller does. So lists that are written as a recursion
  // at the end of a rule do not nest.
  for (const Frame& frame : stacks_[static_cast<std::size_t>(stack)].frames) {
    if (++work_ > kMostWork) return;
    pending_.push_back({rule.order, edge.rule, frame});
  }
}

// Rules are entered in their order, so that all calls of one are known when it is: they share a stack.
SetId ParseSets::finish() {
  const auto later = [](const Pending& a, const Pending& b) { return a.order > b.order; };
  std::ranges::make_heap(pending_, later);
  while (!pending_.empty()) {
    const std::int32_t rule = pending_.front().rule;
    std::vector<Frame> frames;
    while (!pending_.empty() && pending_.front().rule == rule) {
      frames.push_back(pending_.front().frame);
      std::ranges::pop_heap(pending_, later);
      pending_.pop_back();
    }
    const StackId stack = intern(std::move(frames));
    std::vector<Pending> before;
    before.swap(pending_);
    enter_reached(network_.state(network_.rule(rule).start), stack, false);
    pending_.insert(pending_.end(), before.begin(), before.end());
    std::ranges::make_heap(pending_, later);
  }
  left_.clear();
  std::ranges::sort(parses_);
  const auto [first, last] = std::ranges::unique(parses_);
  parses_.erase(first, last);
  Set made;
  made.complete = std::exchange(complete_, false);
  made.parses.swap(parses_);
  parses_.clear();
  if (made.parses.size() > kMostParses || work_ > kMostWork) return kTooMany;
  if (made.parses.empty() && !made.complete) return kNoSet;
  return intern(std::move(made));
}

StackId ParseSets::intern(std::vector<Frame> frames) {
  std::ranges::sort(frames);
  const auto [first, last] = std::ranges::unique(frames);
  frames.erase(first, last);
  std::uint64_t hash = 1;
  int least = kMaxRuleDepth;
  for (const Frame& frame : frames) {
    hash = mix(mix(hash, frame.to), frame.below);
    // The bottom's frame is the only one of the root's stack; a stack that returns to it is as deep as that.
    least = std::min(least, frame.to < 0 ? 0 : depth(frame.below) + 1);
  }
  const auto [begin, end] = stack_ids_.equal_range(hash);
  for (auto i = begin; i != end; ++i) {
    if (stacks_[static_cast<std::size_t>(i->second)].frames == frames) return i->second;
  }
  if (frames == stacks_[kRootStack].frames) return kRootStack;
  const auto id = static_cast<StackId>(stacks_.size());
  bytes_ += sizeof(Stack) + 48 + frames.size() * sizeof(Frame);
  stacks_.push_back({std::move(frames), least, kNotKnown});
  stack_ids_.emplace(hash, id);
  return id;
}

SetId ParseSets::intern(Set made) {
  std::uint64_t hash = made.complete ? 3 : 2;
  for (const Parse& parse : made.parses) hash = mix(mix(hash, parse.state), parse.stack);
  const auto [begin, end] = set_ids_.equal_range(hash);
  for (auto i = begin; i != end; ++i) {
    const Set& other = set(i->second);
    if (other.complete == made.complete && other.parses == made.parses) return i->second;
  }
  const auto id = static_cast<SetId>(sets_.size());
  bytes_ += sizeof(Set) + 48 + made.parses.size() * sizeof(Parse);
  sets_.push_back(std::move(made));
  set_ids_.emplace(hash, id);
  return id;
}

SetId ParseSets::copy_to(ParseSets& other, SetId id) const {
  std::map<StackId, StackId> known{{kRootStack, kRootStack}};
  const std::function<StackId(StackId)> copy = [&](StackId stack) {
    if (const auto found = known.find(stack); found != known.end()) return found->second;
    std::vector<Frame> frames = stacks_[static_cast<std::size_t>(stack)].frames;
    for (Frame& frame : frames) {
      if (frame.to >= 0) frame.below = copy(frame.below);
    }
    return known[stack] = other.intern(std::move(frames));
  };
  Set made;
  made.complete = set(id).complete;
  for (const Parse& parse : set(id).parses) made.parses.push_back({parse.state, copy(parse.stack)});
  std::ranges::sort(made.parses);
  return other.intern(std::move(made));
}

}  // namespace sluice
