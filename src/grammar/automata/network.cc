// Used by grammar, grammar/automata and grammar/schema.
#include "grammar/automata/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace sluice {

std::size_t Network::bytes() const {
  std::size_t bytes = states_.capacity() * sizeof(NetworkState) + rules_.capacity() * sizeof(NetworkRule);
  for (const NetworkState& state : states_) {
    bytes += state.bytes.capacity() * sizeof(ByteEdge) + state.calls.capacity() * sizeof(CallEdge) +
             state.reach.capacity() * sizeof(std::int32_t);
  }
  return bytes;
}

std::int32_t NetworkBuilder::add_rule(std::string name) {
  rules_.push_back({std::move(name), add_state()});
  return static_cast<std::int32_t>(rules_.size()) - 1;
}

std::int32_t NetworkBuilder::add_state() {
  states_.emplace_back();
  return static_cast<std::int32_t>(states_.size()) - 1;
}

void NetworkBuilder::add_byte(std::int32_t from, std::uint8_t low, std::uint8_t high, std::int32_t to) {
  states_[static_cast<std::size_t>(from)].bytes.push_back({low, high, to});
}

void NetworkBuilder::add_empty(std::int32_t from, std::int32_t to) {
  states_[static_cast<std::size_t>(from)].empty.push_back(to);
}

void NetworkBuilder::add_call(std::int32_t from, std::int32_t rule, std::int32_t to) {
  states_[static_cast<std::size_t>(from)].calls.push_back({rule, to});
}

void NetworkBuilder::set_end(std::int32_t state) {
  states_[static_cast<std::size_t>(state)].ends = true;
}

std::int32_t NetworkBuilder::add_literal(std::int32_t from, std::string_view bytes) {
  for (const char byte : bytes) {
    const std::int32_t next = add_state();
    add_byte(from, static_cast<std::uint8_t>(byte), static_cast<std::uint8_t>(byte), next);
    from = next;
  }
  return from;
}

std::int32_t NetworkBuilder::add_dfa(std::int32_t from, const Dfa& dfa) {
  const auto first = static_cast<std::int32_t>(states_.size());
  const std::int32_t out = first + static_cast<std::int32_t>(dfa.states.size());
  states_.resize(static_cast<std::size_t>(out) + 1);
  for (std::size_t s = 0; s < dfa.states.size(); ++s) {
    State& state = states_[static_cast<std::size_t>(first) + s];
    for (ByteEdge edge : dfa.states[s].edges) {
      edge.to += first;
      state.bytes.push_back(edge);
    }
    if (dfa.states[s].accept) state.empty.push_back(out);
  }
  add_empty(from, first);
  return out;
}

Result<Network> NetworkBuilder::finish(std::int32_t root) {
  if (too_large()) {
    return resource_exhausted(fmt::format("expected a grammar of at most {} states, found {}; use smaller counts",
                                          kMaxNetworkStates, states_.size()));
  }
  find_empty_rules();
  find_depths();
  const Rule& top = rules_[static_cast<std::size_t>(root)];
  if (states_[static_cast<std::size_t>(top.start)].depth > kMaxRuleDepth) {
    return invalid_argument("expected a constraint that some text meets, found one that none does");
  }
  drop_dead_ends();
  Network out;
  out.root_ = root;
  out.remarks_ = std::move(remarks_);
  SLUICE_RETURN_IF_ERROR(close_states(out));
  SLUICE_RETURN_IF_ERROR(order_rules(out));
  find_plain_runs(out);
  return out;
}

// A call of a rule that may be empty is also an empty edge; so within a matcher every call takes a byte.
void NetworkBuilder::find_empty_rules() {
  std::vector<bool> ends(states_.size());  // states that end without a byte
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = states_.size(); i-- > 0;) {
      if (ends[i]) continue;
      const State& s = states_[i];
      const auto is_end = [&](std::int32_t to) { return ends[static_cast<std::size_t>(to)]; };
      ends[i] = s.ends || std::ranges::any_of(s.empty, is_end) || std::ranges::any_of(s.calls, [&](const CallEdge& c) {
                  return rules_[static_cast<std::size_t>(c.rule)].may_be_empty && is_end(c.to);
                });
      changed = changed || ends[i];
    }
    for (Rule& rule : rules_) {
      if (rule.may_be_empty || !ends[static_cast<std::size_t>(rule.start)]) continue;
      rule.may_be_empty = changed = true;
    }
  }
  for (State& state : states_) {
    for (const CallEdge& call : state.calls) {
      if (rules_[static_cast<std::size_t>(call.rule)].may_be_empty) state.empty.push_back(call.to);
    }
  }
}

// depth of a state: 0 if its rule can end by bytes alone; through a call one more than the called rule's, or what is
// needed after it. Level by level: what a level adds can only be used by it and later ones.
void NetworkBuilder::find_depths() {
  struct Before {
    std::vector<std::int32_t> steps;                             // states reached by a byte or an empty edge
    std::vector<std::pair<std::int32_t, std::int32_t>> callers;  // (state, rule) of calls that return here
  };
  std::vector<Before> before(states_.size());
  std::vector<std::vector<std::pair<std::int32_t, std::int32_t>>> calls_of(rules_.size());  // (state, to)
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const auto from = static_cast<std::int32_t>(i);
    for (const ByteEdge& edge : states_[i].bytes) before[static_cast<std::size_t>(edge.to)].steps.push_back(from);
    for (const std::int32_t to : states_[i].empty) before[static_cast<std::size_t>(to)].steps.push_back(from);
    for (const CallEdge& call : states_[i].calls) {
      before[static_cast<std::size_t>(call.to)].callers.emplace_back(from, call.rule);
      calls_of[static_cast<std::size_t>(call.rule)].emplace_back(from, call.to);
    }
  }
  std::vector<std::int32_t> open;
  const auto reach = [&](std::int32_t index, int depth) {
    State& state = states_[static_cast<std::size_t>(index)];
    if (state.depth != kUnreachable) return;
    state.depth = depth;
    open.push_back(index);
  };
  const auto rule_depth = [&](std::int32_t rule) {
    return states_[static_cast<std::size_t>(rules_[static_cast<std::size_t>(rule)].start)].depth;
  };
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].ends) reach(static_cast<std::int32_t>(i), 0);
  }
  std::vector<std::int32_t> usable;  // rules of the previous level
  for (int level = 0; level <= kMaxRuleDepth; ++level) {
    for (const std::int32_t rule : usable) {
      for (const auto& [from, to] : calls_of[static_cast<std::size_t>(rule)]) {
        if (states_[static_cast<std::size_t>(to)].depth <= level) reach(from, level);
      }
    }
    while (!open.empty()) {
      const std::int32_t index = open.back();
      open.pop_back();
      for (const std::int32_t from : before[static_cast<std::size_t>(index)].steps) reach(from, level);
      for (const auto& [from, rule] : before[static_cast<std::size_t>(index)].callers) {
        if (rule_depth(rule) < level) reach(from, level);
      }
    }
    usable.clear();
    for (std::size_t r = 0; r < rules_.size(); ++r) {
      if (rule_depth(static_cast<std::int32_t>(r)) == level) usable.push_back(static_cast<std::int32_t>(r));
    }
    if (usable.empty()) break;
  }
}

void NetworkBuilder::drop_dead_ends() {
  const auto is_dead = [&](std::int32_t to) { return states_[static_cast<std::size_t>(to)].depth == kUnreachable; };
  for (State& state : states_) {
    std::erase_if(state.bytes, [&](const ByteEdge& edge) { return is_dead(edge.to); });
    std::erase_if(state.empty, is_dead);
    std::erase_if(state.calls, [&](const CallEdge& call) {
      return is_dead(call.to) || is_dead(rules_[static_cast<std::size_t>(call.rule)].start);
    });
  }
}

// Keeps what the root reaches, and says for each state what empty edges reach from it.
Status NetworkBuilder::close_states(Network& out) const {
  std::vector<std::int32_t> place(states_.size(), -1), order;
  const auto visit = [&](std::int32_t index) {
    if (place[static_cast<std::size_t>(index)] >= 0) return;
    place[static_cast<std::size_t>(index)] = static_cast<std::int32_t>(order.size());
    order.push_back(index);
  };
  for (const Rule& rule : rules_) visit(rule.start);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const State& s = states_[static_cast<std::size_t>(order[i])];
    for (const ByteEdge& edge : s.bytes) visit(edge.to);
    for (const CallEdge& call : s.calls) visit(call.to);
    for (const std::int32_t to : s.empty) visit(to);
  }
  std::size_t reached = 0;
  std::vector<std::int32_t> seen_by(states_.size(), -1);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const State& s = states_[static_cast<std::size_t>(order[i])];
    NetworkState& made = out.states_.emplace_back();
    made.bytes = s.bytes;
    made.calls = s.calls;
    for (ByteEdge& edge : made.bytes) edge.to = place[static_cast<std::size_t>(edge.to)];
    for (CallEdge& call : made.calls) call.to = place[static_cast<std::size_t>(call.to)];
    made.ends = s.ends;
    made.least_depth = static_cast<std::int16_t>(std::min(s.depth, kMaxRuleDepth + 1));
    if (s.depth <= kMaxRuleDepth) out.deepest_need_ = std::max(out.deepest_need_, s.depth);
    std::vector<std::int32_t> open{order[i]};
    seen_by[static_cast<std::size_t>(order[i])] = static_cast<std::int32_t>(i);
    while (!open.empty()) {
      const std::int32_t index = open.back();
      open.pop_back();
      const State& t = states_[static_cast<std::size_t>(index)];
      if (t.ends || !t.bytes.empty() || !t.calls.empty()) made.reach.push_back(place[static_cast<std::size_t>(index)]);
      for (const std::int32_t to : t.empty) {
        if (std::exchange(seen_by[static_cast<std::size_t>(to)], static_cast<std::int32_t>(i)) !=
            static_cast<std::int32_t>(i)) {
          open.push_back(to);
        }
      }
    }
    std::ranges::sort(made.reach);
    made.only_ends = std::ranges::all_of(made.reach, [&](std::int32_t to) {
      const State& t = states_[static_cast<std::size_t>(order[static_cast<std::size_t>(to)])];
      return t.ends && t.bytes.empty() && t.calls.empty();
    });
    reached += made.reach.size();
    if (reached > 20 * kMaxNetworkStates) return resource_exhausted("the grammar has too many optional parts in a row");
  }
  for (const Rule& rule : rules_) {
    out.rules_.push_back({place[static_cast<std::size_t>(rule.start)], 0, rule.may_be_empty});
  }
  return {};
}

// Depth first over "may enter without a byte".
Status NetworkBuilder::order_rules(Network& out) const {
  enum class Mark : std::uint8_t { kNew, kOpen, kDone };
  const auto count = rules_.size();
  std::vector<std::vector<std::int32_t>> enters(count);
  for (std::size_t r = 0; r < count; ++r) {
    std::set<std::int32_t> entered;
    for (const std::int32_t s : out.state(out.rules_[r].start).reach) {
      for (const CallEdge& call : out.state(s).calls) entered.insert(call.rule);
    }
    enters[r].assign(entered.begin(), entered.end());
  }
  std::vector<Mark> marks(count, Mark::kNew);
  auto order = static_cast<std::int32_t>(count);
  for (std::size_t first = 0; first < count; ++first) {
    if (marks[first] != Mark::kNew) continue;
    std::vector<std::pair<std::size_t, std::size_t>> path{{first, 0}};
    marks[first] = Mark::kOpen;
    while (!path.empty()) {
      auto& [rule, next] = path.back();
      if (next == enters[rule].size()) {
        marks[rule] = Mark::kDone;
        out.rules_[rule].order = --order;
        path.pop_back();
        continue;
      }
      const auto to = static_cast<std::size_t>(enters[rule][next++]);
      if (marks[to] == Mark::kOpen) {
        return invalid_argument(fmt::format(
            "rule '{}' is left-recursive: it can begin with itself before any character; write it as a repetition",
            rules_[to].name));
      }
      if (marks[to] == Mark::kDone) continue;
      marks[to] = Mark::kOpen;
      path.emplace_back(to, 0);
    }
  }
  return {};
}

namespace {

// Finds how many plain characters any text may have from a state on, given what is known of the states after it: a
// character at a time, byte by byte. `best` of a byte: the edge that allows most.
class PlainRuns {
 public:
  explicit PlainRuns(std::vector<NetworkState>& states) : states_(states), runs_(states.size(), 0) {
    for (std::size_t s = 0; s < states.size(); ++s) runs_[s] = takes_plain(states[s]) ? kMaxPlainRun : 0;
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t s = states.size(); s-- > 0;) {
        if (runs_[s] == 0) continue;
        const int run = std::min(kMaxPlainRun, 1 + after_character(states[s]));
        if (run >= runs_[s]) continue;
        runs_[s] = run;
        changed = true;
      }
    }
    for (std::size_t s = 0; s < states.size(); ++s) states[s].plain_run = static_cast<std::uint8_t>(runs_[s]);
  }

 private:
  static bool takes_plain(const NetworkState& s) {
    return std::ranges::any_of(s.bytes, [](const ByteEdge& e) { return e.low <= 'a' && e.high >= 'a'; }) &&
           std::ranges::any_of(s.bytes, [](const ByteEdge& e) { return e.low <= 0xE5 && e.high >= 0xE5; });
  }

  // The least over the bytes of [low, high] of the best over the edges of `value` of where they lead; -1: some byte
  // has no edge.
  template <class Value>
  int over(const NetworkState& s, int low, int high, Value&& value) const {
    int least = kMaxPlainRun;
    for (int byte = low; byte <= high;) {
      int best = -1, next = high + 1;
      for (const ByteEdge& edge : s.bytes) {
        if (edge.low > byte) next = std::min<int>(next, edge.low);
        if (edge.low > byte || edge.high < byte) continue;
        next = std::min(next, edge.high + 1);
        int found = -1;
        for (const std::int32_t to : states_[static_cast<std::size_t>(edge.to)].reach) {
          found = std::max(found, value(static_cast<std::size_t>(to)));
        }
        best = std::max(best, found);
      }
      if (best < 0) return -1;
      least = std::min(least, best);
      byte = next;
    }
    return least;
  }

  int tail(std::size_t s, int bytes) const {
    return over(states_[s], 0x80, 0xBF, [&](std::size_t to) { return bytes == 1 ? runs_[to] : tail(to, bytes - 1); });
  }

  int after_character(const NetworkState& s) const {
    struct Lead {
      int low, high, next_low, next_high, more;  // the second byte's range, and bytes after it
    };
    static constexpr Lead kLeads[] = {{0xC2, 0xDF, 0x80, 0xBF, 0}, {0xE0, 0xE0, 0xA0, 0xBF, 1},
                                      {0xE1, 0xEC, 0x80, 0xBF, 1}, {0xED, 0xED, 0x80, 0x9F, 1},
                                      {0xEE, 0xEF, 0x80, 0xBF, 1}, {0xF0, 0xF0, 0x90, 0xBF, 2},
                                      {0xF1, 0xF3, 0x80, 0xBF, 2}, {0xF4, 0xF4, 0x80, 0x8F, 2}};
    int least = kMaxPlainRun;
    for (const auto& [low, high] : {std::pair{0x20, 0x21}, std::pair{0x23, 0x5B}, std::pair{0x5D, 0x7F}}) {
      least = std::min(least, over(s, low, high, [&](std::size_t to) { return runs_[to]; }));
      if (least < 0) return -1;
    }
    for (const Lead& lead : kLeads) {
      least = std::min(least, over(s, lead.low, lead.high, [&](std::size_t second) {
                         return over(states_[second], lead.next_low, lead.next_high,
                                     [&](std::size_t to) { return lead.more == 0 ? runs_[to] : tail(to, lead.more); });
                       }));
      if (least < 0) return -1;
    }
    return least;
  }

  std::vector<NetworkState>& states_;
  std::vector<int> runs_;
};

}  // namespace

void NetworkBuilder::find_plain_runs(Network& out) {
  PlainRuns runs(out.states_);
}

}  // namespace sluice
