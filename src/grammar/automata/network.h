// Network: a compiled grammar: rules, each a finite automaton whose edges are bytes or calls of rules (a recursive
// transition network). A matcher (matcher.h) walks through it.
//
// No dead ends: finish() keeps only what can reach the end of its rule within kMaxRuleDepth open rules, and every state
// knows how many it needs. So a matcher that never opens more can always complete the text. Left recursion is refused:
// between two bytes rules are entered in one order. Thread safety: a const Network may be used from any thread.
// Used by grammar, grammar/automata and grammar/schema.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/automata/dfa.h"
#include "grammar/automata/nfa.h"
#include "sluice/status.h"

namespace sluice {

inline constexpr int kMaxRuleDepth = 512;  // rules open at once
inline constexpr std::size_t kMaxNetworkStates = 400'000;
inline constexpr int kMaxPlainRun = 255;

struct CallEdge {
  std::int32_t rule = 0, to = 0;  // to: where the caller goes on

  bool operator==(const CallEdge&) const = default;
};

struct NetworkState {
  std::vector<ByteEdge> bytes;  // may overlap
  std::vector<CallEdge> calls;
  std::vector<std::int32_t> reach;  // this state and what empty edges reach, of those that have bytes, calls or the end
  bool ends = false;                // the rule may end here
  bool only_ends = false;           // only the end of the rule is reached from here
  std::uint8_t plain_run = 0;  // texts of this many plain characters (token_trie.h) go on; kMaxPlainRun: of any length
  std::int16_t least_depth = 0;  // rules that must be opened below this one before it can end
};

struct NetworkRule {
  std::int32_t start = 0;
  std::int32_t order = 0;  // a rule comes before those that it may enter without a byte
  bool may_be_empty = false;
};

class Network {
 public:
  const NetworkState& state(std::int32_t index) const { return states_[static_cast<std::size_t>(index)]; }
  const NetworkRule& rule(std::int32_t index) const { return rules_[static_cast<std::size_t>(index)]; }
  std::int32_t root() const { return root_; }
  std::size_t size() const { return states_.size(); }
  std::size_t rules() const { return rules_.size(); }
  int deepest_need() const { return deepest_need_; }  // the largest least_depth
  // Pointers to the parts of its schema that bind nothing, although their author may have meant something by them.
  const std::vector<std::string>& remarks() const { return remarks_; }
  std::size_t bytes() const;

 private:
  friend class NetworkBuilder;
  std::vector<NetworkState> states_;
  std::vector<NetworkRule> rules_;
  std::vector<std::string> remarks_;
  std::int32_t root_ = 0;
  int deepest_need_ = 0;
};

class NetworkBuilder {
 public:
  // A rule with a start state. The name is for errors.
  std::int32_t add_rule(std::string name);
  std::int32_t start(std::int32_t rule) const { return rules_[static_cast<std::size_t>(rule)].start; }

  std::int32_t add_state();
  void add_byte(std::int32_t from, std::uint8_t low, std::uint8_t high, std::int32_t to);
  void add_empty(std::int32_t from, std::int32_t to);
  void add_call(std::int32_t from, std::int32_t rule, std::int32_t to);
  void set_end(std::int32_t state);  // the rule may end here
  // New states after the bytes, or after each text of the automaton.
  std::int32_t add_literal(std::int32_t from, std::string_view bytes);
  std::int32_t add_dfa(std::int32_t from, const Dfa& dfa);

  void add_remark(std::string what) { remarks_.push_back(std::move(what)); }

  std::size_t size() const { return states_.size(); }
  bool too_large() const { return states_.size() > kMaxNetworkStates; }

  // The grammar whose texts are those of rule `root`. kInvalidArgument: left recursion, or no text at all;
  // kResourceExhausted: too large. Call once.
  Result<Network> finish(std::int32_t root);

 private:
  struct State {
    std::vector<ByteEdge> bytes;
    std::vector<CallEdge> calls;
    std::vector<std::int32_t> empty;
    bool ends = false;
    int depth = kUnreachable;
  };
  struct Rule {
    std::string name;
    std::int32_t start = 0;
    bool may_be_empty = false;
  };
  static constexpr int kUnreachable = 1 << 20;

  void find_empty_rules();
  void find_depths();
  void drop_dead_ends();
  Status order_rules(Network& out) const;
  Status close_states(Network& out) const;
  static void find_plain_runs(Network& out);

  std::vector<State> states_;
  std::vector<Rule> rules_;
  std::vector<std::string> remarks_;
};

}  // namespace sluice
