// Dfa: a deterministic automaton over bytes: the languages of strings, keys and numbers, with their boolean algebra.
//
// State 0 is the start; a byte without an edge is refused. Every state can reach acceptance (trim()), so the automaton
// of the empty language has one state and no edge. Thread safety: plain values, pure functions.
// Used by grammar/automata and grammar/schema.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/automata/nfa.h"
#include "sluice/status.h"

namespace sluice {

struct Dfa {
  struct State {
    std::vector<ByteEdge> edges;  // ascending, disjoint
    bool accept = false;
  };
  std::vector<State> states = std::vector<State>(1);

  std::optional<std::int32_t> step(std::int32_t state, std::uint8_t byte) const;
  bool matches(std::string_view text) const;
  bool empty() const { return !states[0].accept && states[0].edges.empty(); }
};

// The error of kResourceExhausted that an automaton beyond kMaxAutomatonStates is.
Status too_many_states();

// kResourceExhausted beyond kMaxAutomatonStates.
Result<Dfa> determinize(const Nfa& nfa);
// Both; either; the first but not the second.
Result<Dfa> intersect(const Dfa& a, const Dfa& b);
Result<Dfa> unite(const Dfa& a, const Dfa& b);
Result<Dfa> subtract(const Dfa& a, const Dfa& b);

// Returns the automaton without states that cannot reach acceptance; equal states are merged if that takes little.
Dfa reduce(Dfa dfa);

// All sequences of bytes; those that have one of the texts in them.
Dfa any_bytes();
Result<Dfa> texts_with(std::span<const std::string_view> texts);
// Exactly these texts.
Dfa dfa_of(const std::vector<std::string>& texts);
// All texts of valid UTF-8 of `least` to `most` characters; no limit: -1.
Result<Dfa> text_of_length(std::int64_t least, std::int64_t most);

// The texts of the language if there are at most `limit` of them.
std::optional<std::vector<std::string>> list_texts(const Dfa& dfa, std::size_t limit);

}  // namespace sluice
