// Used by grammar/automata and grammar/schema.
#include "grammar/automata/dfa.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <compare>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

namespace sluice {
namespace {

using States = std::vector<std::int32_t>;

// The bytes at which the set of edges that hold changes.
template <class Edges>
std::vector<int> cuts_of(const Edges& edges) {
  std::array<bool, 257> is_cut{};
  for (const ByteEdge& edge : edges) is_cut[edge.low] = is_cut[edge.high + 1U] = true;
  std::vector<int> cuts;
  for (int byte = 0; byte <= 256; ++byte) {
    if (is_cut[static_cast<std::size_t>(byte)]) cuts.push_back(byte);
  }
  return cuts;
}

void append_edge(std::vector<ByteEdge>& edges, int low, int high, std::int32_t to) {
  if (!edges.empty() && edges.back().to == to && edges.back().high + 1 == low) {
    edges.back().high = static_cast<std::uint8_t>(high);
  } else {
    edges.push_back({static_cast<std::uint8_t>(low), static_cast<std::uint8_t>(high), to});
  }
}

// Adds the states that empty edges reach. `begin` and `end` say whether edges that hold only there count.
void close(const Nfa& nfa, States& states, bool begin, bool end) {
  std::set<std::int32_t> seen(states.begin(), states.end());
  States open = states;
  while (!open.empty()) {
    const std::int32_t state = open.back();
    open.pop_back();
    for (const Nfa::EmptyEdge& edge : nfa.states()[static_cast<std::size_t>(state)].empty) {
      if ((edge.where == Nfa::Where::kBegin && !begin) || (edge.where == Nfa::Where::kEnd && !end)) continue;
      if (seen.insert(edge.to).second) open.push_back(edge.to);
    }
  }
  states.assign(seen.begin(), seen.end());
}

bool accepts(const Nfa& nfa, States states, bool begin) {
  close(nfa, states, begin, true);
  return std::ranges::binary_search(states, nfa.accept);
}

class Determinizer {
 public:
  explicit Determinizer(const Nfa& nfa) : nfa_(nfa) {}

  Result<Dfa> run() {
    States start{nfa_.start};
    close(nfa_, start, true, false);
    // Not in known_: only there an edge of the beginning holds.
    sets_.push_back(start);
    dfa_.states[0].accept = accepts(nfa_, start, true);
    for (std::size_t i = 0; i < sets_.size(); ++i) {
      expand(i);
      if (sets_.size() > kMaxAutomatonStates || total_ > 4 * kMaxAutomatonStates || work_ > kMostWork)
        return too_many_states();
    }
    return reduce(std::move(dfa_));
  }

 private:
  static constexpr std::size_t kMostWork = 20'000'000;  // states of all sets that were made, known ones included

  void expand(std::size_t index) {
    std::vector<ByteEdge> all;
    for (const std::int32_t state : sets_[index]) {
      const auto& edges = nfa_.states()[static_cast<std::size_t>(state)].bytes;
      all.insert(all.end(), edges.begin(), edges.end());
    }
    const std::vector<int> cuts = cuts_of(all);
    for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
      States next;
      for (const ByteEdge& edge : all) {
        if (edge.low <= cuts[c] && cuts[c] <= edge.high) next.push_back(edge.to);
      }
      if (next.empty()) continue;
      close(nfa_, next, false, false);
      work_ += next.size();
      append_edge(dfa_.states[index].edges, cuts[c], cuts[c + 1] - 1, find(std::move(next)));
    }
  }

  std::int32_t find(States set) {
    const auto [found, is_new] = known_.emplace(std::move(set), static_cast<std::int32_t>(sets_.size()));
    if (is_new) {
      sets_.push_back(found->first);
      total_ += found->first.size();
      dfa_.states.emplace_back().accept = accepts(nfa_, found->first, false);
    }
    return found->second;
  }

  const Nfa& nfa_;
  Dfa dfa_;
  std::vector<States> sets_;
  std::map<States, std::int32_t> known_;
  std::size_t total_ = 0, work_ = 0;
};

// Walks two lists of edges side by side: visit(low, high, to of a, to of b) for each run of bytes in which neither
// changes; -1: no edge.
template <class Visit>
void sweep(std::span<const ByteEdge> a, std::span<const ByteEdge> b, Visit&& visit) {
  std::size_t i = 0, j = 0;
  for (int byte = 0; byte < 256;) {
    int next = 256;
    const auto target = [&](std::span<const ByteEdge> edges, std::size_t& at) {
      while (at < edges.size() && edges[at].high < byte) ++at;
      if (at == edges.size()) return -1;
      const bool is_there = edges[at].low <= byte;
      next = std::min(next, is_there ? edges[at].high + 1 : edges[at].low);
      return is_there ? edges[at].to : -1;
    };
    const std::int32_t to_a = target(a, i), to_b = target(b, j);
    if (to_a >= 0 || to_b >= 0) visit(byte, next - 1, to_a, to_b);
    byte = next;
  }
}

// The product over pairs of states, -1 where an automaton has refused. `keeps` says which pairs accept, by what each
// does.
Result<Dfa> product(const Dfa& a, const Dfa& b, bool (*keeps)(bool, bool), bool needs_a, bool needs_b) {
  struct Pair {
    std::int32_t a = 0, b = 0;
  };
  const auto key = [](Pair pair) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(pair.a)) << 32 | static_cast<std::uint32_t>(pair.b);
  };
  Dfa out;
  std::vector<Pair> pairs{{0, 0}};
  std::unordered_map<std::uint64_t, std::int32_t> known{{0, 0}};
  const auto accepts = [](const Dfa& dfa, std::int32_t s) {
    return s >= 0 && dfa.states[static_cast<std::size_t>(s)].accept;
  };
  const auto edges_of = [](const Dfa& dfa, std::int32_t s) {
    return s >= 0 ? std::span<const ByteEdge>(dfa.states[static_cast<std::size_t>(s)].edges)
                  : std::span<const ByteEdge>();
  };
  std::vector<ByteEdge> edges;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const Pair pair = pairs[i];
    out.states[i].accept = keeps(accepts(a, pair.a), accepts(b, pair.b));
    edges.clear();
    sweep(edges_of(a, pair.a), edges_of(b, pair.b), [&](int low, int high, std::int32_t to_a, std::int32_t to_b) {
      if ((needs_a && to_a < 0) || (needs_b && to_b < 0)) return;
      const auto [found, is_new] = known.emplace(key({to_a, to_b}), static_cast<std::int32_t>(pairs.size()));
      if (is_new) pairs.push_back({to_a, to_b});
      append_edge(edges, low, high, found->second);
    });
    if (pairs.size() > kMaxAutomatonStates) return too_many_states();
    out.states.resize(pairs.size());
    out.states[i].edges = edges;
  }
  return reduce(std::move(out));
}

Dfa trim(Dfa dfa) {
  const std::size_t count = dfa.states.size();
  std::vector<States> before(count);
  for (std::size_t s = 0; s < count; ++s) {
    for (const ByteEdge& edge : dfa.states[s].edges) {
      before[static_cast<std::size_t>(edge.to)].push_back(static_cast<std::int32_t>(s));
    }
  }
  std::vector<bool> lives(count);
  States open;
  for (std::size_t s = 0; s < count; ++s) {
    if (!dfa.states[s].accept) continue;
    lives[s] = true;
    open.push_back(static_cast<std::int32_t>(s));
  }
  while (!open.empty()) {
    const auto state = static_cast<std::size_t>(open.back());
    open.pop_back();
    for (const std::int32_t s : before[state]) {
      if (lives[static_cast<std::size_t>(s)]) continue;
      lives[static_cast<std::size_t>(s)] = true;
      open.push_back(s);
    }
  }
  // Numbers the states in the order in which the start reaches them.
  std::vector<std::int32_t> place(count, -1);
  States order{0};
  place[0] = 0;
  Dfa out;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Dfa::State& from = dfa.states[static_cast<std::size_t>(order[i])];
    if (i > 0) out.states.emplace_back();
    out.states[i].accept = from.accept;
    for (ByteEdge edge : from.edges) {
      const auto to = static_cast<std::size_t>(edge.to);
      if (!lives[to]) continue;
      if (place[to] < 0) {
        place[to] = static_cast<std::int32_t>(order.size());
        order.push_back(edge.to);
      }
      append_edge(out.states[i].edges, edge.low, edge.high, place[to]);
    }
  }
  return out;
}

// Moore's refinement of the states into classes that no text tells apart. A round looks again only at states with an
// edge into a class that the round before has cut. So a chain, in which each round separates one state more from the
// others, costs little more than its length.
class Refinement {
 public:
  explicit Refinement(const Dfa& dfa) : dfa_(dfa), classes_(dfa.states.size()), before_(dfa.states.size()) {
    members_.resize(2);
    for (std::size_t s = 0; s < dfa.states.size(); ++s) {
      const auto state = static_cast<std::int32_t>(s);
      classes_[s] = dfa.states[s].accept ? 1 : 0;
      members_[static_cast<std::size_t>(classes_[s])].push_back(state);
      dirty_.push_back(state);
      for (const ByteEdge& edge : dfa.states[s].edges) before_[static_cast<std::size_t>(edge.to)].push_back(state);
    }
    is_dirty_.assign(dfa.states.size(), true);
  }

  // Returns the class of each state, numbered as the states come; nullopt if that takes too much work.
  std::optional<std::vector<std::int32_t>> run() {
    const std::size_t most = kMostLooks * dfa_.states.size();
    for (std::size_t looks = 0; !dirty_.empty();) {
      looks += dirty_.size();
      if (looks > most) return std::nullopt;
      round();
    }
    std::vector<std::int32_t> place(members_.size(), -1);
    std::int32_t next = 0;
    for (std::int32_t& of_state : classes_) {
      std::int32_t& known = place[static_cast<std::size_t>(of_state)];
      if (known < 0) known = next++;
      of_state = known;
    }
    return std::move(classes_);
  }

 private:
  static constexpr std::size_t kMostLooks = 60;  // visits of a state, on average
  struct Look {
    std::int32_t of_class = 0, state = 0;
    std::size_t begin = 0, end = 0;  // range of its edges to classes, in seen_
  };

  Look look(std::int32_t state) {
    Look out{classes_[static_cast<std::size_t>(state)], state, seen_.size(), 0};
    for (const ByteEdge& edge : dfa_.states[static_cast<std::size_t>(state)].edges) {
      const std::int32_t to = classes_[static_cast<std::size_t>(edge.to)];
      if (seen_.size() > out.begin && seen_.back().to == to && seen_.back().high + 1 == edge.low) {
        seen_.back().high = edge.high;
      } else {
        seen_.push_back({edge.low, edge.high, to});
      }
    }
    out.end = seen_.size();
    return out;
  }

  std::strong_ordering order(const Look& a, const Look& b) const {
    const auto word = [](const ByteEdge& e) {
      return static_cast<std::uint64_t>(e.low) << 40 | static_cast<std::uint64_t>(e.high) << 32 |
             static_cast<std::uint32_t>(e.to);
    };
    const std::size_t size_a = a.end - a.begin, size_b = b.end - b.begin;
    if (size_a != size_b) return size_a <=> size_b;
    for (std::size_t i = 0; i < size_a; ++i) {
      const auto one = word(seen_[a.begin + i]) <=> word(seen_[b.begin + i]);
      if (one != std::strong_ordering::equal) return one;
    }
    return std::strong_ordering::equal;
  }

  void round() {
    seen_.clear();
    looks_.clear();
    for (const std::int32_t state : dirty_) looks_.push_back(look(state));
    std::ranges::sort(looks_, [&](const Look& a, const Look& b) {
      if (a.of_class != b.of_class) return a.of_class < b.of_class;
      return order(a, b) < 0;
    });
    moved_.clear();
    for (std::size_t first = 0; first < looks_.size();) {
      std::size_t last = first;
      while (last < looks_.size() && looks_[last].of_class == looks_[first].of_class) ++last;
      cut(first, last);
      first = last;
    }
    move_all();
  }

  // Cuts one class: of its states in looks_, groups that differ become classes of their own. Its states that are not in
  // looks_ are alike, and stay; if there are none, the first group stays.
  void cut(std::size_t first, std::size_t last) {
    const States& members = members_[static_cast<std::size_t>(looks_[first].of_class)];
    const auto rest =
        std::ranges::find_if(members, [&](std::int32_t state) { return !is_dirty_[static_cast<std::size_t>(state)]; });
    const Look stays = rest != members.end() ? look(*rest) : looks_[first];
    for (std::size_t begin = first; begin < last;) {
      std::size_t end = begin + 1;
      while (end < last && order(looks_[begin], looks_[end]) == 0) ++end;
      if (order(looks_[begin], stays) != 0) {
        const auto made = static_cast<std::int32_t>(members_.size());
        States& of_made = members_.emplace_back();
        for (std::size_t i = begin; i < end; ++i) of_made.push_back(looks_[i].state);
        moved_.emplace_back(looks_[first].of_class, made);
      }
      begin = end;
    }
  }

  // Applies the changes that the round has found, once all of it has been looked at.
  void move_all() {
    for (const auto& [from, to] : moved_) {
      for (const std::int32_t state : members_[static_cast<std::size_t>(to)]) {
        classes_[static_cast<std::size_t>(state)] = to;
      }
    }
    for (std::size_t i = 0; i < moved_.size(); ++i) {
      const std::int32_t from = moved_[i].first;
      if (i > 0 && moved_[i - 1].first == from) continue;  // entries of one class are neighbours
      std::erase_if(members_[static_cast<std::size_t>(from)],
                    [&](std::int32_t state) { return classes_[static_cast<std::size_t>(state)] != from; });
    }
    for (const std::int32_t state : dirty_) is_dirty_[static_cast<std::size_t>(state)] = false;
    dirty_.clear();
    for (const auto& [from, to] : moved_) {
      for (const std::int32_t state : members_[static_cast<std::size_t>(to)]) {
        for (const std::int32_t before : before_[static_cast<std::size_t>(state)]) {
          if (is_dirty_[static_cast<std::size_t>(before)]) continue;
          is_dirty_[static_cast<std::size_t>(before)] = true;
          dirty_.push_back(before);
        }
      }
    }
  }

  const Dfa& dfa_;
  std::vector<std::int32_t> classes_;
  std::vector<States> before_, members_;  // for each state: the states with an edge to it; the states of each class
  States dirty_;                          // states to visit in this round
  std::vector<std::pair<std::int32_t, std::int32_t>>
      moved_;  // (old class, new class) of members that moved in this round
  std::vector<bool> is_dirty_;
  std::vector<ByteEdge> seen_;
  std::vector<Look> looks_;
};

}  // namespace

Status too_many_states() {
  return resource_exhausted(
      fmt::format("expected automata of at most {} states, found more; use smaller counts or a simpler pattern",
                  kMaxAutomatonStates));
}

std::optional<std::int32_t> Dfa::step(std::int32_t state, std::uint8_t byte) const {
  const auto& edges = states[static_cast<std::size_t>(state)].edges;
  const auto edge = std::ranges::lower_bound(edges, byte, {}, &ByteEdge::high);
  if (edge == edges.end() || edge->low > byte) return std::nullopt;
  return edge->to;
}

bool Dfa::matches(std::string_view text) const {
  std::int32_t state = 0;
  for (const char byte : text) {
    const auto next = step(state, static_cast<std::uint8_t>(byte));
    if (!next) return false;
    state = *next;
  }
  return states[static_cast<std::size_t>(state)].accept;
}

Result<Dfa> determinize(const Nfa& nfa) {
  if (nfa.too_large()) return too_many_states();
  return Determinizer(nfa).run();
}

Result<Dfa> intersect(const Dfa& a, const Dfa& b) {
  return product(a, b, [](bool x, bool y) { return x && y; }, true, true);
}

Result<Dfa> unite(const Dfa& a, const Dfa& b) {
  return product(a, b, [](bool x, bool y) { return x || y; }, false, false);
}

Result<Dfa> subtract(const Dfa& a, const Dfa& b) {
  return product(a, b, [](bool x, bool y) { return x && !y; }, true, false);
}

Dfa reduce(Dfa dfa) {
  constexpr std::size_t kMostRefined = 20'000;  // larger automata count something, and do not shrink
  dfa = trim(std::move(dfa));
  if (dfa.states.size() > kMostRefined) return dfa;
  const auto found = Refinement(dfa).run();
  if (!found) return dfa;
  const std::vector<std::int32_t>& classes = *found;
  Dfa out;
  out.states.resize(static_cast<std::size_t>(*std::ranges::max_element(classes)) + 1);
  if (out.states.size() == dfa.states.size()) return dfa;
  for (std::size_t s = 0; s < dfa.states.size(); ++s) {
    Dfa::State& state = out.states[static_cast<std::size_t>(classes[s])];
    if (!state.edges.empty()) continue;
    state.accept = dfa.states[s].accept;
    for (const ByteEdge& edge : dfa.states[s].edges) {
      append_edge(state.edges, edge.low, edge.high, classes[static_cast<std::size_t>(edge.to)]);
    }
  }
  return out;  // state 0 is the first of class 0
}

}  // namespace sluice
