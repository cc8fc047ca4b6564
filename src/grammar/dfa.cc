#include "grammar/dfa.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

namespace sluice {
namespace {

using States = std::vector<std::int32_t>;

Status too_many_states() {
  return resource_exhausted(
      fmt::format("expected automata of at most {} states, found more; use smaller counts or a simpler pattern",
                  kMaxAutomatonStates));
}

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

// Adds what empty edges reach; `begin` and `end`: whether those that hold there count.
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
  static constexpr std::size_t kMostWork = 20'000'000;  // states of sets that were made, also of those known before

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

std::int32_t target(const Dfa& dfa, std::int32_t state, int byte) {
  if (state < 0) return -1;
  return dfa.step(state, static_cast<std::uint8_t>(byte)).value_or(-1);
}

// The product over pairs of states, -1 where an automaton has refused. `keeps` says which pairs accept, by what each
// does.
Result<Dfa> product(const Dfa& a, const Dfa& b, bool (*keeps)(bool, bool), bool needs_a, bool needs_b) {
  using Pair = std::pair<std::int32_t, std::int32_t>;
  Dfa out;
  std::vector<Pair> pairs{{0, 0}};
  std::map<Pair, std::int32_t> known{{{0, 0}, 0}};
  const auto accepts = [](const Dfa& dfa, std::int32_t s) {
    return s >= 0 && dfa.states[static_cast<std::size_t>(s)].accept;
  };
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto [p, q] = pairs[i];
    out.states[i].accept = keeps(accepts(a, p), accepts(b, q));
    std::vector<ByteEdge> all;
    if (p >= 0) all = a.states[static_cast<std::size_t>(p)].edges;
    if (q >= 0) {
      const auto& edges = b.states[static_cast<std::size_t>(q)].edges;
      all.insert(all.end(), edges.begin(), edges.end());
    }
    const std::vector<int> cuts = cuts_of(all);
    for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
      const Pair next{target(a, p, cuts[c]), target(b, q, cuts[c])};
      if ((needs_a && next.first < 0) || (needs_b && next.second < 0) || (next.first < 0 && next.second < 0)) continue;
      const auto [found, is_new] = known.emplace(next, static_cast<std::int32_t>(pairs.size()));
      if (is_new) {
        pairs.push_back(next);
        out.states.emplace_back();
        if (pairs.size() > kMaxAutomatonStates) return too_many_states();
      }
      append_edge(out.states[i].edges, cuts[c], cuts[c + 1] - 1, found->second);
    }
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
  // In the order in which the start reaches them.
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

// Moore's refinement: `classes` of states that no text of the rounds so far tells apart. False: not done in `rounds`.
bool refine(const Dfa& dfa, int rounds, std::vector<std::int32_t>& classes) {
  const std::size_t count = dfa.states.size();
  classes.resize(count);
  for (std::size_t s = 0; s < count; ++s) classes[s] = dfa.states[s].accept ? 1 : 0;
  std::size_t found = 0;
  for (; rounds > 0; --rounds) {
    std::map<std::vector<std::int32_t>, std::int32_t> known;
    std::vector<std::int32_t> next(count);
    for (std::size_t s = 0; s < count; ++s) {
      std::vector<ByteEdge> edges;
      for (const ByteEdge& edge : dfa.states[s].edges) {
        append_edge(edges, edge.low, edge.high, classes[static_cast<std::size_t>(edge.to)]);
      }
      std::vector<std::int32_t> key{classes[s]};
      for (const ByteEdge& edge : edges) key.insert(key.end(), {edge.low, edge.high, edge.to});
      next[s] = known.emplace(std::move(key), static_cast<std::int32_t>(known.size())).first->second;
    }
    classes = std::move(next);
    if (known.size() == found) return true;
    found = known.size();
  }
  return false;
}

}  // namespace

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
  constexpr int kRounds = 60;
  constexpr std::size_t kMostRefined = 20'000;  // larger ones count something, which takes as many rounds
  dfa = trim(std::move(dfa));
  std::vector<std::int32_t> classes;
  if (dfa.states.size() > kMostRefined || !refine(dfa, kRounds, classes)) return dfa;
  Dfa out;
  out.states.resize(static_cast<std::size_t>(*std::ranges::max_element(classes)) + 1);
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

Dfa dfa_of(const std::vector<std::string>& texts) {
  Dfa out;
  std::vector<std::string> sorted = texts;
  std::ranges::sort(sorted);
  for (const std::string& text : sorted) {
    std::size_t state = 0;
    for (const char c : text) {
      const auto byte = static_cast<std::uint8_t>(c);
      auto& edges = out.states[state].edges;
      if (edges.empty() || edges.back().low != byte) {
        edges.push_back({byte, byte, static_cast<std::int32_t>(out.states.size())});
        state = out.states.size();
        out.states.emplace_back();
      } else {
        state = static_cast<std::size_t>(edges.back().to);
      }
    }
    out.states[state].accept = true;
  }
  return reduce(std::move(out));
}

Result<Dfa> text_of_length(std::int64_t least, std::int64_t most) {
  const std::vector<CodePointRange> any{{0, kLastCodePoint}};
  const std::int64_t counted = most >= 0 ? most : least;
  constexpr std::int64_t kStatesPerCharacter = 8;
  if (counted > static_cast<std::int64_t>(kMaxAutomatonStates) / kStatesPerCharacter) return too_many_states();
  Dfa out;
  if (most >= 0 && least > most) return out;
  Nfa one;
  one.start = one.add_state();
  one.accept = one.add_state();
  one.add_characters(one.start, any, one.accept);
  SLUICE_ASSIGN_OR_RETURN(const Dfa character, determinize(one));
  // The character's states but its last one, over and over.
  std::int32_t last = 0;
  for (std::size_t s = 0; s < character.states.size(); ++s) {
    if (character.states[s].accept) last = static_cast<std::int32_t>(s);
  }
  const auto size = static_cast<std::int32_t>(character.states.size());
  const auto place = [&](std::int64_t count, std::int32_t state) {
    if (state == last)
      return static_cast<std::int32_t>(most < 0 && count == counted ? count * size : (count + 1) * size);
    return static_cast<std::int32_t>(count * size + state);
  };
  out.states.resize(static_cast<std::size_t>((counted + 1) * size));
  for (std::int64_t count = 0; count <= counted; ++count) {
    out.states[static_cast<std::size_t>(count * size)].accept = count >= least;
    if (count == counted && most >= 0) break;
    for (std::int32_t s = 0; s < size; ++s) {
      if (s == last) continue;
      for (ByteEdge edge : character.states[static_cast<std::size_t>(s)].edges) {
        edge.to = place(count, edge.to);
        out.states[static_cast<std::size_t>(count * size + s)].edges.push_back(edge);
      }
    }
  }
  return reduce(std::move(out));
}

std::optional<std::vector<std::string>> list_texts(const Dfa& dfa, std::size_t limit) {
  std::vector<std::string> out;
  std::size_t visits = 0;
  // Every state can reach acceptance, so that a walk longer than there are states shows a loop.
  const std::function<bool(std::int32_t, std::string&)> walk = [&](std::int32_t s, std::string& text) {
    if (++visits > 64 * limit + 4096 || text.size() > dfa.states.size()) return false;
    const Dfa::State& state = dfa.states[static_cast<std::size_t>(s)];
    if (state.accept) out.push_back(text);
    if (out.size() > limit) return false;
    for (const ByteEdge& edge : state.edges) {
      for (int byte = edge.low; byte <= edge.high; ++byte) {
        text.push_back(static_cast<char>(byte));
        const bool goes_on = walk(edge.to, text);
        text.pop_back();
        if (!goes_on) return false;
      }
    }
    return true;
  };
  std::string text;
  if (!walk(0, text)) return std::nullopt;
  return out;
}

}  // namespace sluice
