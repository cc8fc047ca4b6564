// ParseSets: the states of all parses of a text by a Network at once, a byte at a time.
//
// A set has every (state, stack) that some parse of the text so far is in. Stacks are shared: a Stack is a rule's open
// call with all the places to which it may return, each with the stack below it. Sets and stacks are values: equal ones
// have the same number, and nothing is ever changed. So keeping a number is keeping the parse, and going back is using
// an old number. The set after a text depends on the text alone. A set is never empty: a parse that cannot be completed
// is not in one (network.h), and a byte that no parse can take leads to kNoSet.
//
// Work and memory are bounded: a set of more than kMostParses parses, or one that takes more than kMostWork steps to
// make, is not made: kTooMany stands for it. That, too, depends on the text alone.
//
// Thread safety: one thread at a time.
// Used by matcher.h, run_masks.h, token_masks.h and token_walk.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "grammar/automata/network.h"

namespace sluice {

using SetId = std::int32_t;
using StackId = std::int32_t;
inline constexpr SetId kNoSet = -1;    // no text goes on so
inline constexpr SetId kTooMany = -2;  // too ambiguous to be followed
inline constexpr StackId kRootStack = 0;
inline constexpr std::size_t kMostParses = 3'000;  // most parses of one set
inline constexpr std::size_t kMostWork = 500'000;  // states entered for what follows one set

struct Parse {
  std::int32_t state = 0;  // a state with byte edges
  StackId stack = kRootStack;

  bool operator==(const Parse&) const = default;
  auto operator<=>(const Parse&) const = default;
};

class ParseSets {
 public:
  struct Range {  // bytes low to high lead to `to`
    std::uint8_t low = 0, high = 0;
    SetId to = kNoSet;
  };
  struct Set {
    std::vector<Parse> parses;  // ascending
    bool complete = false;      // the text may end here
    bool expanded = false;
    std::uint32_t work = 0;     // once expanded: states entered for that
    std::uint32_t charged = 0;  // the walk that it was counted in
    std::vector<Range> ranges;  // once expanded: ascending, disjoint
    std::uint64_t loops = 0;    // once expanded: the kinds of bytes (byte_kind()) all of which lead back to it
  };

  explicit ParseSets(const Network& network);

  SetId start();                             // the start of the root rule, with nothing read
  SetId at(std::int32_t state);              // this state of a rule, on an empty stack
  SetId after_return(StackId stack);         // where the calls of this stack return to; may be kNoSet
  SetId step(SetId set, std::uint8_t byte);  // any of them may be kTooMany

  // Returns a set that was made.
  const Set& set(SetId id) const { return sets_[static_cast<std::size_t>(id)]; }
  const std::vector<Range>& ranges(SetId id);
  // The work that the sets of a walk took to make, each counted once, whether or not they were made for it.
  std::uint32_t begin_walk() { return ++walk_; }
  std::size_t charge(SetId expanded, std::uint32_t walk);
  int depth(StackId stack) const { return stacks_[static_cast<std::size_t>(stack)].depth; }

  std::size_t bytes() const { return bytes_; }
  // The same set in another ParseSets of the network.
  SetId copy_to(ParseSets& other, SetId id) const;

 private:
  static constexpr SetId kNotKnown = kTooMany - 1;
  struct Frame {
    std::int32_t to = -1;  // the state to go on in; -1: the bottom
    StackId below = kRootStack;

    bool operator==(const Frame&) const = default;
    auto operator<=>(const Frame&) const = default;
  };
  struct Stack {
    std::vector<Frame> frames;  // ascending
    int depth = 0;              // the lowest frame's depth
    SetId returned = kNotKnown;
  };
  struct Pending {  // a call to be entered
    std::int32_t order = 0, rule = 0;
    Frame frame;
  };

  // A set while it is made: enter() states, then finish().
  void enter(std::int32_t state, StackId stack);
  void enter_reached(const NetworkState& state, StackId stack, bool may_end);
  void leave(StackId stack);
  void call(const CallEdge& edge, StackId stack);
  SetId finish();
  StackId intern(std::vector<Frame> frames);
  SetId intern(Set set);

  const Network& network_;
  std::vector<Stack> stacks_;
  std::vector<Set> sets_;
  std::unordered_multimap<std::uint64_t, StackId> stack_ids_;
  std::unordered_multimap<std::uint64_t, SetId> set_ids_;
  std::size_t bytes_ = 0;
  std::uint32_t walk_ = 0;

  std::vector<Parse> parses_;  // the parses of the set that is being made
  std::vector<Pending> pending_;
  std::vector<StackId> left_;
  std::size_t work_ = 0;  // the work of the call under way
  bool complete_ = false;
};

}  // namespace sluice
