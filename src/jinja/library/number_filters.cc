#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>

#include "jinja/bound_arguments.h"
#include "jinja/lexer.h"
#include "jinja/library/builtins.h"
#include "jinja/library/operations.h"
#include "jinja/unicode.h"

namespace sluice::jinja {

namespace {

// Python's int(text, base).
std::optional<Int> parse_integer(std::string_view text, int base) {
  text = strip_right(strip_left(text));
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.size() > 2 && text[0] == '0') {
    const char kind = static_cast<char>(text[1] | 0x20);
    const int named = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
    if (named != 0 && (base == named || base == 0)) {
      base = named;
      text.remove_prefix(2);
    }
  }
  if (base == 0) base = 10;
  Int number = 0;
  bool after_digit = false;
  for (const char c : text) {
    if (c == '_' && after_digit) {
      after_digit = false;
      continue;
    }
    const char lowered = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
    const int digit = c >= '0' && c <= '9' ? c - '0' : lowered >= 'a' && lowered <= 'z' ? lowered - 'a' + 10 : 99;
    if (digit >= base) return std::nullopt;
    if (__builtin_mul_overflow(number, Int(base), &number) || __builtin_add_overflow(number, Int(digit), &number)) {
      return std::nullopt;
    }
    after_digit = true;
  }
  if (!after_digit) return std::nullopt;
  return negative ? -number : number;
}

// Python's float(text).
std::optional<double> parse_real(std::string_view text) {
  text = strip_right(strip_left(text));
  if (text.starts_with('+')) text.remove_prefix(1);
  std::string digits(text);
  std::erase(digits, '_');
  double number = 0.0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (digits.empty() || end != digits.data() + digits.size() || code == std::errc::invalid_argument)
    return std::nullopt;
  if (code == std::errc::result_out_of_range) return digits.starts_with('-') ? -HUGE_VAL : HUGE_VAL;
  return number;
}

std::optional<Int> truncated(double number) {
  if (!(std::abs(number) < 1e37)) return std::nullopt;
  return static_cast<Int>(number);
}

Value to_int(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "int", arguments, {"default", "base"});
  if (run.failed()) return {};
  const Value absent = args.value_or(0, Value::integer(0));
  std::optional<Int> number;
  if (input.is_undefined()) {
    run.fail_undefined(input);
  } else if (input.is_integral()) {
    number = input.as_int();
  } else if (input.is_number()) {
    number = truncated(input.as_real());
  } else if (input.is_text()) {
    number = parse_integer(input.bytes(), static_cast<int>(std::clamp(args.integer(1, 10), Int(0), Int(36))));
    if (const auto real = parse_real(input.bytes()); !number && real) number = truncated(*real);
  }
  return number ? Value::integer(*number) : absent;
}

Value to_float(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "float", arguments, {"default"});
  if (run.failed()) return {};
  if (input.is_undefined()) {
    run.fail_undefined(input);
    return {};
  }
  if (input.is_number()) return Value::real(input.as_real());
  if (const auto real = input.is_text() ? parse_real(input.bytes()) : std::nullopt) return Value::real(*real);
  return args.value_or(0, Value::real(0.0));
}

Value absolute(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "abs", arguments, {});
  if (!input.is_number() || run.failed()) {
    if (input.is_undefined()) {
      run.fail_undefined(input);
    } else {
      run.fail("bad operand type for abs(): '" + std::string(input.type_name()) + "'");
    }
    return {};
  }
  if (!input.is_integral()) return Value::real(std::abs(input.as_real()));
  return input.as_int() < 0 ? negate(run, input) : Value::integer(input.as_int());
}

// Python's round(number, places): the decimal that is nearest to the number, ties to even.
double round_to(double number, int places) {
  if (!std::isfinite(number)) return number;
  if (places < 0) {
    const double scale = std::pow(10.0, -places);
    return std::nearbyint(number / scale) * scale;
  }
  char digits[400];
  const auto written = std::to_chars(digits, digits + sizeof(digits), number, std::chars_format::fixed, places);
  double rounded = number;
  std::from_chars(digits, written.ptr, rounded);
  return rounded;
}

Value round(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "round", arguments, {"precision", "method"});
  const Int places = args.integer(0, 0);
  const std::string_view method = args.text(1, "common");
  if (method != "common" && method != "ceil" && method != "floor") {
    run.fail("round() expected the method common, ceil or floor, found '" + std::string(method) + "'");
  }
  if (places < -20 || places > 20) run.fail("round() expected a precision from -20 to 20");
  if (!input.is_number()) {
    if (input.is_undefined()) {
      run.fail_undefined(input);
    } else {
      run.fail("type " + std::string(input.type_name()) + " cannot be rounded");
    }
  }
  if (run.failed()) return {};
  if (method == "common") {
    if (input.is_integral() && places >= 0) return Value::integer(input.as_int());
    const double rounded = round_to(input.as_real(), static_cast<int>(places));
    return input.is_integral() ? Value::integer(static_cast<Int>(rounded)) : Value::real(rounded);
  }
  const double scale = std::pow(10.0, static_cast<double>(places));
  const double scaled = input.as_real() * scale;
  return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

constexpr std::array kNumberFilters = {
    FilterEntry{"int", to_int},
    FilterEntry{"float", to_float},
    FilterEntry{"abs", absolute},
    FilterEntry{"round", round},
};

}  // namespace

const FilterEntry* find_number_filter(std::string_view name) {
  const auto found = std::ranges::find(kNumberFilters, name, &FilterEntry::name);
  return found == kNumberFilters.end() ? nullptr : &*found;
}

}  // namespace sluice::jinja
