// Sets of numbers as automata over their decimal text: [-] digits [. digits], without an exponent, exact at any length.
// Thread safety: plain values, pure functions.
// Used by json_text.cc and schema_scalars.cc.
#pragma once

#include <boost/json/value.hpp>
#include <string>

#include "grammar/automata/dfa.h"
#include "sluice/status.h"

namespace sluice {

// The digits that a number may have: a model that never ends one is stopped here.
inline constexpr int kMaxIntegerDigits = 40, kMaxFractionDigits = 40;
// The digits of a number with a constraint and a fraction. This many digits read back from f64 as they were, so a
// reader that computes with f64 finds the number on the same side of every bound.
inline constexpr int kMaxSignificantDigits = 15;
inline constexpr int kMaxMultiple = 20'000;  // states of a remainder's automaton

// (-1)^negative * 0.digits * 10^point; no leading or trailing zeros in `digits`, empty for zero.
struct Decimal {
  bool negative = false;
  std::string digits;
  int point = 0;
};

// The decimal that reads back as the number; kInvalidArgument for one beyond 10^19 that may have been rounded.
Result<Decimal> decimal_of(const boost::json::value& number);
// Returns the text without an exponent or needless zeros.
std::string decimal_text(const Decimal& decimal);

enum class Comparison { kLess, kAtMost, kEqual, kAtLeast, kMore };

Dfa decimals();                // all, up to the limits of digits
Dfa integer_texts();           // decimals without a fraction
Result<Dfa> integer_values();  // decimals whose value is an integer
// These have any number of digits: they are to be intersected with one of the above, and small while they are not.
Result<Dfa> decimals_where(Comparison comparison, const Decimal& bound);
Result<Dfa> multiples_of(const Decimal& divisor);  // divisor > 0; kResourceExhausted if that takes too many states

}  // namespace sluice
