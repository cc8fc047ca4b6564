// Used by json_text.cc and schema_scalars.cc.
#include "grammar/schema/decimals.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <optional>
#include <utility>

#include "files/json.h"

namespace sluice {
namespace {

// The part of -12.34 that a text has come to.
enum class Part : std::uint8_t { kStart, kSign, kZero, kInteger, kPoint, kFraction };

std::optional<Part> next_part(Part part, char c) {
  const bool digit = c >= '0' && c <= '9';
  switch (part) {
    case Part::kStart:
      if (c == '-') return Part::kSign;
      [[fallthrough]];
    case Part::kSign:
      if (digit) return c == '0' ? Part::kZero : Part::kInteger;
      return std::nullopt;
    case Part::kInteger:
      if (digit) return Part::kInteger;
      [[fallthrough]];
    case Part::kZero:
      if (c == '.') return Part::kPoint;
      return std::nullopt;
    default:
      if (digit) return Part::kFraction;
      return std::nullopt;
  }
}

bool may_end(Part part) {
  return part == Part::kZero || part == Part::kInteger || part == Part::kFraction;
}

// The automaton of a machine whose states are values: step(state, byte) and accept(state).
template <class State, class Step, class Accept>
Dfa explore(const State& start, Step&& step, Accept&& accept) {
  Dfa out;
  std::map<State, std::int32_t> known{{start, 0}};
  std::vector<State> states{start};
  for (std::size_t i = 0; i < states.size(); ++i) {
    out.states[i].accept = accept(states[i]);
    for (const char c : std::string_view("-.0123456789")) {
      const std::optional<State> next = step(states[i], c);
      if (!next) continue;
      const auto [found, is_new] = known.emplace(*next, static_cast<std::int32_t>(states.size()));
      if (is_new) {
        states.push_back(*next);
        out.states.emplace_back();
      }
      out.states[i].edges.push_back({static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c), found->second});
    }
  }
  return reduce(std::move(out));
}

// The size of the digits so far, compared with the bound's.
struct Compared {
  Part part = Part::kStart;
  bool negative = false, is_zero = true;
  int order = 0;             // compares the digits so far with as many of the bound's
  std::size_t whole = 0;     // digits of the integer part, at most one more than the bound has
  std::size_t fraction = 0;  // digits after the point, at most as many as the bound has

  auto operator<=>(const Compared&) const = default;
};

class Comparer {
 public:
  explicit Comparer(const Decimal& bound)
      : negative_(bound.negative && !bound.digits.empty()), zero_(bound.digits.empty()) {
    const auto point = static_cast<std::size_t>(std::max(bound.point, 0));
    std::string digits = bound.digits;
    if (bound.point < 0 && !digits.empty()) digits.insert(0, static_cast<std::size_t>(-bound.point), '0');
    if (digits.size() < point) digits.resize(point, '0');
    whole_ = point == 0 ? "0" : digits.substr(0, point);
    fraction_ = digits.substr(point);
  }

  std::optional<Compared> step(Compared s, char c) const {
    const auto part = next_part(s.part, c);
    if (!part) return std::nullopt;
    s.part = *part;
    if (c == '-') s.negative = true;
    if (c == '-' || c == '.') return s;
    if (c != '0') s.is_zero = false;
    if (*part == Part::kFraction) {
      const char other = s.fraction < fraction_.size() ? fraction_[s.fraction] : '0';
      if (s.order == 0 && c != other) s.order = c < other ? -1 : 1;
      s.fraction = std::min(s.fraction + 1, fraction_.size());
    } else {
      if (s.order == 0 && s.whole < whole_.size() && c != whole_[s.whole]) s.order = c < whole_[s.whole] ? -1 : 1;
      s.whole = std::min(s.whole + 1, whole_.size() + 1);
    }
    if (*part != Part::kFraction && s.whole > whole_.size()) s.order = 1;
    return s;
  }

  // -1, 0, 1 of the number that ends here and the bound.
  int result(const Compared& s) const {
    int size = s.order;
    // If the digits so far are equal, the bound's digits go on, and do not end in zeros.
    const bool is_beginning = s.whole == whole_.size() && size == 0 && s.fraction < fraction_.size();
    if (s.whole < whole_.size() || is_beginning) size = -1;
    const int sign = s.is_zero ? 0 : s.negative ? -1 : 1, other = zero_ ? 0 : negative_ ? -1 : 1;
    if (sign != other) return sign < other ? -1 : 1;
    return sign == 0 ? 0 : sign * size;
  }

 private:
  bool negative_, zero_;
  std::string whole_, fraction_;
};

struct Counted {
  Part part = Part::kStart;
  int whole = 0, fraction = 0;

  auto operator<=>(const Counted&) const = default;
};

struct Remainder {
  Part part = Part::kStart;
  std::int64_t value = 0;
  int fraction = 0;

  auto operator<=>(const Remainder&) const = default;
};

}  // namespace

Result<Decimal> decimal_of(const boost::json::value& number) {
  constexpr double kMost = 1e19;
  std::string text;
  if (number.is_int64()) {
    text = fmt::format("{}", number.get_int64());
  } else if (number.is_uint64()) {
    text = fmt::format("{}", number.get_uint64());
  } else {
    if (std::abs(number.get_double()) >= kMost) {
      return invalid_argument("expected a number below 10^19, found " + describe_json(&number));
    }
    append_json_number(text, number.get_double());
  }
  Decimal out;
  std::string_view rest = text;
  if (rest.starts_with('-')) {
    out.negative = true;
    rest.remove_prefix(1);
  }
  int exponent = 0;
  if (const std::size_t e = rest.find('e'); e != rest.npos) {
    exponent = std::atoi(std::string(rest.substr(e + 1)).c_str());
    rest = rest.substr(0, e);
  }
  const std::size_t point = std::min(rest.find('.'), rest.size());
  out.digits = std::string(rest.substr(0, point)) + std::string(point < rest.size() ? rest.substr(point + 1) : "");
  out.point = static_cast<int>(point) + exponent;
  const std::size_t zeros = std::min(out.digits.find_first_not_of('0'), out.digits.size());
  out.digits.erase(0, zeros);
  out.point -= static_cast<int>(zeros);
  out.digits.erase(out.digits.find_last_not_of('0') + 1);
  if (out.digits.empty()) out = {};
  return out;
}

std::string decimal_text(const Decimal& decimal) {
  std::string whole = "0", fraction = decimal.digits;
  if (decimal.point > 0) {
    const auto point = static_cast<std::size_t>(decimal.point);
    whole = decimal.digits.substr(0, point);
    whole.resize(point, '0');
    fraction = decimal.digits.size() > point ? decimal.digits.substr(point) : "";
  } else if (!fraction.empty()) {
    fraction.insert(0, static_cast<std::size_t>(-decimal.point), '0');
  }
  return (decimal.negative ? "-" : "") + whole + (fraction.empty() ? "" : "." + fraction);
}

Dfa decimals() {
  return explore(
      Counted{},
      [](Counted s, char c) -> std::optional<Counted> {
        const auto part = next_part(s.part, c);
        if (!part) return std::nullopt;
        s.part = *part;
        if (c == '-') return s;
        if (c == '.') return s.whole < kMaxSignificantDigits ? std::optional(s) : std::nullopt;
        ++(s.part == Part::kFraction ? s.fraction : s.whole);
        const bool too_long =
            s.fraction > 0 ? s.whole + s.fraction > kMaxSignificantDigits : s.whole > kMaxIntegerDigits;
        if (too_long) return std::nullopt;
        return s;
      },
      [](const Counted& s) { return may_end(s.part); });
}

Dfa integer_texts() {
  return explore(
      Counted{},
      [](Counted s, char c) -> std::optional<Counted> {
        const auto part = next_part(s.part, c);
        if (!part || c == '.') return std::nullopt;
        s.part = *part;
        if (c != '-' && ++s.whole > kMaxIntegerDigits) return std::nullopt;
        return s;
      },
      [](const Counted& s) { return may_end(s.part); });
}

Result<Dfa> integer_values() {
  const Dfa zeros = explore(
      Part::kStart,
      [](Part part, char c) -> std::optional<Part> {
        const auto next = next_part(part, c);
        if (next == Part::kFraction && c != '0') return std::nullopt;
        return next;
      },
      may_end);
  return intersect(decimals(), zeros);
}

Result<Dfa> decimals_where(Comparison comparison, const Decimal& bound) {
  if (bound.point < -kMaxFractionDigits || static_cast<int>(bound.digits.size()) - bound.point > kMaxFractionDigits) {
    return invalid_argument(fmt::format("expected at most {} digits behind the point", kMaxFractionDigits));
  }
  const Comparer comparer(bound);
  const Dfa all = explore(
      Compared{}, [&](const Compared& s, char c) { return comparer.step(s, c); },
      [&](const Compared& s) {
        if (!may_end(s.part)) return false;
        const int result = comparer.result(s);
        switch (comparison) {
          case Comparison::kLess:
            return result < 0;
          case Comparison::kAtMost:
            return result <= 0;
          case Comparison::kEqual:
            return result == 0;
          case Comparison::kAtLeast:
            return result >= 0;
          default:
            return result > 0;
        }
      });
  return all;
}

Result<Dfa> multiples_of(const Decimal& divisor) {
  // divisor = units / 10^places
  const int places = std::max(0, static_cast<int>(divisor.digits.size()) - divisor.point);
  std::string digits = divisor.digits;
  if (places == 0) digits.resize(static_cast<std::size_t>(divisor.point), '0');
  if (digits.size() > 6 || std::atoll(digits.c_str()) * (places + 1) > kMaxMultiple || places > kMaxFractionDigits) {
    return resource_exhausted(fmt::format("expected a divisor with at most {} remainders", kMaxMultiple));
  }
  const std::int64_t units = std::atoll(digits.c_str());
  const Dfa all = explore(
      Remainder{},
      [&](Remainder s, char c) -> std::optional<Remainder> {
        const auto part = next_part(s.part, c);
        if (!part) return std::nullopt;
        s.part = *part;
        if (c == '-' || c == '.') return s;
        if (s.part == Part::kFraction && s.fraction == places) return c == '0' ? std::optional(s) : std::nullopt;
        if (s.part == Part::kFraction) ++s.fraction;
        s.value = (s.value * 10 + (c - '0')) % units;
        return s;
      },
      [&](const Remainder& s) {
        std::int64_t value = s.value;
        for (int i = s.fraction; i < places; ++i) value = value * 10 % units;
        return may_end(s.part) && value == 0;
      });
  return all;
}

}  // namespace sluice
