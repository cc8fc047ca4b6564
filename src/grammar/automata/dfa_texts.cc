// Automata of texts that are given, and the texts of automata.
// Used by grammar/automata and grammar/schema.
#include <algorithm>
#include <functional>
#include <utility>

#include "grammar/automata/dfa.h"

namespace sluice {

Dfa any_bytes() {
  Dfa out;
  out.states[0] = {{{0, 0xFF, 0}}, true};
  return out;
}

Result<Dfa> texts_with(std::span<const std::string_view> texts) {
  Nfa nfa;
  nfa.start = nfa.add_state();
  nfa.accept = nfa.add_state();
  nfa.add_byte(nfa.start, 0, 0xFF, nfa.start);
  nfa.add_byte(nfa.accept, 0, 0xFF, nfa.accept);
  for (const std::string_view text : texts) nfa.add_empty(nfa.add_literal(nfa.start, text), nfa.accept);
  return determinize(nfa);
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
