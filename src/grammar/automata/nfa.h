// Nfa: a finite automaton over bytes with empty edges, as patterns are built; determinize() (dfa.h) makes a Dfa of it.
// Thread safety: plain values.
// Used by dfa.h, network.h and regex.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice {

// The most states that one automaton may have on its way to a grammar: memory and time stay bounded.
inline constexpr std::size_t kMaxAutomatonStates = 120'000;

struct ByteEdge {
  std::uint8_t low = 0, high = 0;
  std::int32_t to = 0;

  bool operator==(const ByteEdge&) const = default;
};

struct CodePointRange {
  char32_t low = 0, high = 0;  // both included

  bool operator==(const CodePointRange&) const = default;
};

inline constexpr char32_t kLastCodePoint = 0x10FFFF;

// Sorted, disjoint, not adjacent, without surrogates.
std::vector<CodePointRange> normalize(std::vector<CodePointRange> ranges);
// All other characters.
std::vector<CodePointRange> complement(const std::vector<CodePointRange>& ranges);

class Nfa {
 public:
  // An empty edge may hold anywhere, or only before the first byte, or only after the last one (^ and $).
  enum class Where : std::uint8_t { kAnywhere, kBegin, kEnd };
  struct EmptyEdge {
    std::int32_t to = 0;
    Where where = Where::kAnywhere;
  };
  struct State {
    std::vector<ByteEdge> bytes;
    std::vector<EmptyEdge> empty;
  };

  std::int32_t add_state();
  void add_byte(std::int32_t from, std::uint8_t low, std::uint8_t high, std::int32_t to);
  void add_empty(std::int32_t from, std::int32_t to, Where where = Where::kAnywhere);
  // One character, in UTF-8.
  void add_characters(std::int32_t from, const std::vector<CodePointRange>& ranges, std::int32_t to);
  // A new state after the bytes.
  std::int32_t add_literal(std::int32_t from, std::string_view bytes);

  const std::vector<State>& states() const { return states_; }
  bool too_large() const { return states_.size() > kMaxAutomatonStates; }

  std::int32_t start = 0, accept = 0;

 private:
  void add_character_range(std::int32_t from, char32_t low, char32_t high, std::int32_t to);

  std::vector<State> states_;
};

}  // namespace sluice
