// Used by grammar.cc.
#include "grammar/gbnf.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "grammar/gbnf_parser.h"

namespace sluice {
namespace {

// Rules that are no part of a recursion are regular: they become automata, which are walked faster than calls. One
// whose automaton would be large is called all the same.
class GbnfCompiler {
 public:
  explicit GbnfCompiler(const Gbnf& grammar) : grammar_(grammar), automata_(grammar.rules.size()) {}

  Result<Network> compile() {
    for (const GbnfRule& rule : grammar_.rules) builder_.add_rule(rule.name);
    order_rules();
    for (const int rule : order_) {
      if (!is_recursive_[at(rule)]) automata_[at(rule)] = automaton(body(rule));
    }
    for (std::size_t r = 0; r < grammar_.rules.size() && !builder_.too_large(); ++r) {
      const auto rule = static_cast<int>(r);
      const std::int32_t start = builder_.start(rule);
      builder_.set_end(automata_[r] ? builder_.add_dfa(start, *automata_[r]) : append(body(rule), start));
    }
    return builder_.finish(grammar_.root);
  }

 private:
  static constexpr std::size_t kMostInlined = 4'000;     // largest automaton that is inlined
  static constexpr std::size_t kMostNfaStates = 20'000;  // most NFA states to build it
  static constexpr std::size_t kMostSpent = 2'000'000;   // NFA states in all; further rules stay calls

  static std::size_t at(int rule) { return static_cast<std::size_t>(rule); }
  const Expression& body(int rule) const { return grammar_.rules[at(rule)].body; }

  template <class Visit>
  static void for_each_rule(const Expression& e, Visit&& visit) {
    if (e.kind == Expression::Kind::kRule) visit(e.rule);
    for (const Expression& part : e.parts) for_each_rule(part, visit);
  }

  // order_: rules after those that they use; is_recursive_: those on a cycle, or that use one.
  void order_rules() {
    const std::size_t count = grammar_.rules.size();
    std::vector<std::vector<int>> uses(count);
    for (std::size_t r = 0; r < count; ++r) {
      for_each_rule(grammar_.rules[r].body, [&](int rule) { uses[r].push_back(rule); });
    }
    // A rule is done when all that it uses are; what never gets done is recursive.
    std::vector<std::vector<int>> used_by(count);
    std::vector<std::size_t> open(count);
    for (std::size_t r = 0; r < count; ++r) {
      open[r] = uses[r].size();
      for (const int rule : uses[r]) used_by[at(rule)].push_back(static_cast<int>(r));
    }
    is_recursive_.assign(count, true);
    for (std::size_t r = 0; r < count; ++r) {
      if (open[r] == 0) order_.push_back(static_cast<int>(r));
    }
    for (std::size_t i = 0; i < order_.size(); ++i) {
      is_recursive_[at(order_[i])] = false;
      for (const int user : used_by[at(order_[i])]) {
        if (--open[at(user)] == 0) order_.push_back(user);
      }
    }
  }

  bool is_regular(const Expression& e) const {
    bool regular = true;
    for_each_rule(e, [&](int rule) { regular = regular && automata_[at(rule)].has_value(); });
    return regular;
  }

  // Rules in the part are replaced by their automata.
  std::int32_t append(Nfa& nfa, const Expression& e, std::int32_t from) const {
    if (nfa.states().size() > kMostNfaStates) return from;
    switch (e.kind) {
      case Expression::Kind::kRule: {
        const Dfa& dfa = *automata_[at(e.rule)];
        const auto first = static_cast<std::int32_t>(nfa.states().size());
        for (std::size_t s = 0; s < dfa.states.size(); ++s) nfa.add_state();
        const std::int32_t out = nfa.add_state();
        for (std::size_t s = 0; s < dfa.states.size(); ++s) {
          const auto state = first + static_cast<std::int32_t>(s);
          for (const ByteEdge& edge : dfa.states[s].edges) nfa.add_byte(state, edge.low, edge.high, first + edge.to);
          if (dfa.states[s].accept) nfa.add_empty(state, out);
        }
        nfa.add_empty(from, first);
        return out;
      }
      case Expression::Kind::kSequence:
        for (const Expression& part : e.parts) from = append(nfa, part, from);
        return from;
      case Expression::Kind::kChoice: {
        const std::int32_t out = nfa.add_state();
        for (const Expression& part : e.parts) nfa.add_empty(append(nfa, part, from), out);
        return out;
      }
      case Expression::Kind::kRepeat: {
        for (int i = 0; i < e.least && nfa.states().size() <= kMostNfaStates; ++i) from = append(nfa, e.parts[0], from);
        const std::int32_t out = nfa.add_state();
        if (e.most < 0) {
          nfa.add_empty(from, out);
          nfa.add_empty(append(nfa, e.parts[0], out), out);
          return out;
        }
        nfa.add_empty(from, out);
        for (int i = e.least; i < e.most && nfa.states().size() <= kMostNfaStates; ++i) {
          from = append(nfa, e.parts[0], from);
          nfa.add_empty(from, out);
        }
        return out;
      }
      default:
        return append_expression(nfa, e, from);
    }
  }

  // Returns the automaton of a part of the grammar, which repetitions come back to; nullptr if it has none, or a large
  // one.
  const Dfa* automaton_of(const Expression& part) {
    const auto [known, is_new] = part_automata_.try_emplace(&part);
    if (is_new) known->second = automaton(part);
    return known->second ? &*known->second : nullptr;
  }

  std::optional<Dfa> automaton(const Expression& e) {
    if (!is_regular(e) || (spent_ > kMostSpent && !e.parts.empty())) return std::nullopt;
    Nfa nfa;
    nfa.start = nfa.add_state();
    const std::int32_t begin = nfa.add_state();
    nfa.add_empty(nfa.start, begin);
    nfa.accept = nfa.add_state();
    nfa.add_empty(append(nfa, e, begin), nfa.accept);
    spent_ += nfa.states().size();
    if (nfa.states().size() > kMostNfaStates) return std::nullopt;
    auto dfa = determinize(nfa);
    if (!dfa.ok() || dfa->states.size() > kMostInlined) return std::nullopt;
    return std::move(*dfa);
  }

  // Parts without calls become one automaton, also neighbours in a sequence.
  std::int32_t append(const Expression& e, std::int32_t from) {
    if (builder_.too_large()) return from;
    if (const Dfa* dfa = automaton_of(e)) return builder_.add_dfa(from, *dfa);
    switch (e.kind) {
      case Expression::Kind::kRule: {
        const std::int32_t to = builder_.add_state();
        builder_.add_call(from, e.rule, to);
        return to;
      }
      case Expression::Kind::kSequence:
        return append_sequence(e, from);
      case Expression::Kind::kChoice: {
        const std::int32_t out = builder_.add_state();
        for (const Expression& part : e.parts) builder_.add_empty(append(part, from), out);
        return out;
      }
      case Expression::Kind::kRepeat: {
        for (int i = 0; i < e.least && !builder_.too_large(); ++i) from = append(e.parts[0], from);
        const std::int32_t out = builder_.add_state();
        builder_.add_empty(from, out);
        if (e.most < 0) builder_.add_empty(append(e.parts[0], out), out);
        for (int i = e.least; i < e.most && !builder_.too_large(); ++i) {
          from = append(e.parts[0], from);
          builder_.add_empty(from, out);
        }
        return out;
      }
      default:  // handled above: it has an automaton
        return from;
    }
  }

  std::int32_t append_sequence(const Expression& e, std::int32_t from) {
    std::vector<const Expression*> regular;  // neighbours without calls
    const auto flush = [&] {
      Expression all{.kind = Expression::Kind::kSequence};
      for (const Expression* part : regular) all.parts.push_back(*part);
      const auto dfa = regular.size() > 1 ? automaton(all) : std::nullopt;
      if (dfa) {
        from = builder_.add_dfa(from, *dfa);
      } else {
        for (const Expression* part : regular) from = append(*part, from);
      }
      regular.clear();
    };
    for (const Expression& part : e.parts) {
      if (is_regular(part)) {
        regular.push_back(&part);
        continue;
      }
      flush();
      from = append(part, from);
    }
    flush();
    return from;
  }

  const Gbnf& grammar_;
  NetworkBuilder builder_;
  std::vector<std::optional<Dfa>> automata_;  // one for each rule
  std::map<const Expression*, std::optional<Dfa>> part_automata_;
  std::size_t spent_ = 0;
  std::vector<int> order_;
  std::vector<bool> is_recursive_;
};

}  // namespace

Result<Network> compile_gbnf(std::string_view text) {
  SLUICE_ASSIGN_OR_RETURN(const Gbnf grammar, parse_gbnf(text));
  auto network = GbnfCompiler(grammar).compile();
  if (!network.ok()) return network.status().with_context("grammar");
  return network;
}

}  // namespace sluice
