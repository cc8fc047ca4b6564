// Used by jinja and jinja/library.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "jinja/library/operations.h"
#include "jinja/marks.h"
#include "jinja/print.h"
#include "jinja/safe_text.h"

namespace sluice::jinja {

namespace {

using Kind = Value::Kind;

std::string_view sign_of(Operator operation) {
  switch (operation) {
    case Operator::kAdd:
      return "+";
    case Operator::kSubtract:
      return "-";
    case Operator::kMultiply:
      return "*";
    case Operator::kDivide:
      return "/";
    case Operator::kFloorDivide:
      return "//";
    case Operator::kModulo:
      return "%";
    default:
      return "**";
  }
}

Value fail_types(Run& run, Operator operation, const Value& a, const Value& b) {
  if (a.is_undefined()) {
    run.fail_undefined(a);
  } else if (b.is_undefined()) {
    run.fail_undefined(b);
  } else if (operation == Operator::kAdd && a.is_text()) {
    run.fail("can only concatenate str (not \"" + std::string(b.type_name()) + "\") to str");
  } else {
    run.fail("unsupported operand type(s) for " + std::string(sign_of(operation)) + ": '" + std::string(a.type_name()) +
             "' and '" + std::string(b.type_name()) + "'");
  }
  return {};
}

Value fail_overflow(Run& run) {
  run.fail("an integer becomes too large");
  return {};
}

Value power(Run& run, Int base, Int exponent) {
  if (exponent < 0) {
    if (base != 0) return Value::real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
    run.fail("0.0 cannot be raised to a negative power");
    return {};
  }
  Int result = 1;
  if (base == 0 || base == 1) return Value::integer(exponent == 0 ? 1 : base);
  if (base == -1) return Value::integer(exponent % 2 == 0 ? 1 : -1);
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(result, base, &result)) return fail_overflow(run);
  }
  return Value::integer(result);
}

// Python rounds quotients down, and a remainder has the sign of its divisor.
Value floor_divide(Int a, Int b) {
  const Int quotient = a / b;
  return Value::integer(a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient);
}

Value modulo(Int a, Int b) {
  const Int remainder = a % b;
  return Value::integer(remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder);
}

Value integer_arithmetic(Run& run, Operator operation, Int a, Int b) {
  Int result = 0;
  const bool divides =
      operation == Operator::kDivide || operation == Operator::kFloorDivide || operation == Operator::kModulo;
  if (divides && b == 0) {
    run.fail("division by zero");
    return {};
  }
  switch (operation) {
    case Operator::kAdd:
      return __builtin_add_overflow(a, b, &result) ? fail_overflow(run) : Value::integer(result);
    case Operator::kSubtract:
      return __builtin_sub_overflow(a, b, &result) ? fail_overflow(run) : Value::integer(result);
    case Operator::kMultiply:
      return __builtin_mul_overflow(a, b, &result) ? fail_overflow(run) : Value::integer(result);
    case Operator::kDivide:
      return Value::real(static_cast<double>(a) / static_cast<double>(b));
    case Operator::kFloorDivide:
      if (b == -1) return __builtin_sub_overflow(Int(0), a, &result) ? fail_overflow(run) : Value::integer(result);
      return floor_divide(a, b);
    case Operator::kModulo:
      return b == -1 ? Value::integer(0) : modulo(a, b);
    default:
      return power(run, a, b);
  }
}

// A result that is no real number of Python's is an error: a quotient by zero, a complex number, one that is too large.
Value power(Run& run, double base, double exponent) {
  const double result = std::pow(base, exponent);
  if (std::isfinite(result) || !std::isfinite(base) || !std::isfinite(exponent)) return Value::real(result);
  run.fail(base == 0.0 ? "0.0 cannot be raised to a negative power" : "the result of ** is no real number");
  return {};
}

Value real_arithmetic(Run& run, Operator operation, double a, double b) {
  const bool divides =
      operation == Operator::kDivide || operation == Operator::kFloorDivide || operation == Operator::kModulo;
  if (divides && b == 0.0) {
    run.fail("float division by zero");
    return {};
  }
  switch (operation) {
    case Operator::kAdd:
      return Value::real(a + b);
    case Operator::kSubtract:
      return Value::real(a - b);
    case Operator::kMultiply:
      return Value::real(a * b);
    case Operator::kDivide:
      return Value::real(a / b);
    case Operator::kFloorDivide:
      return Value::real(std::floor(a / b));
    case Operator::kModulo: {
      const double remainder = std::fmod(a, b);
      if (remainder == 0.0) return Value::real(std::copysign(0.0, b));
      return Value::real((remainder < 0) != (b < 0) ? remainder + b : remainder);
    }
    default:
      return power(run, a, b);
  }
}

// Python counts repetitions in 64 bits, whatever is repeated.
bool check_count(Run& run, Int count) {
  if (count >= std::numeric_limits<std::int64_t>::min() && count <= std::numeric_limits<std::int64_t>::max())
    return true;
  run.fail("cannot fit 'int' into an index-sized integer");
  return false;
}

Value repeat_text(Run& run, std::string_view text, Int count) {
  if (!check_count(run, count)) return {};
  if (count <= 0 || text.empty()) return run.text({});
  const auto most = static_cast<Int>(run.limits().max_text_bytes) + 1;
  const auto times = static_cast<std::size_t>(std::min(count, most));
  if (!run.fits(times * text.size())) return {};
  std::string out;
  out.reserve(times * text.size());
  for (std::size_t i = 0; i < times; ++i) out += text;
  return run.text(std::move(out));
}

Value repeat_items(Run& run, const Sequence& sequence, Int count) {
  if (!check_count(run, count)) return {};
  if (count <= 0 || sequence.items.empty()) return run.sequence({}, sequence.flavor);
  const auto most = static_cast<Int>(run.limits().max_text_bytes) + 1;
  const auto times = static_cast<std::size_t>(std::min(count, most));
  if (!run.fits(times * sequence.items.size() * sizeof(Value))) return {};
  std::vector<Value> items;
  for (std::size_t i = 0; i < times; ++i) items.insert(items.end(), sequence.items.begin(), sequence.items.end());
  return run.sequence(std::move(items), sequence.flavor);
}

bool is_list_or_tuple(const Value& value) {
  return value.is(Kind::kSequence) && value.sequence()->flavor <= Sequence::Flavor::kTuple;
}

Value add_sequences(Run& run, const Sequence& a, const Sequence& b) {
  if (!run.fits((a.items.size() + b.items.size()) * sizeof(Value))) return {};
  std::vector<Value> items = a.items;
  items.insert(items.end(), b.items.begin(), b.items.end());
  return run.sequence(std::move(items), a.flavor);
}

Value add_texts(Run& run, const Value& a, const Value& b) {
  if (a.is_safe_text() != b.is_safe_text()) {
    const Value left = escaped(run, a), right = escaped(run, b);
    return run.failed() ? Value() : run.as_safe(add_texts(run, left, right));
  }
  if (!run.fits(a.bytes().size() + b.bytes().size())) return {};
  MarkedText out;
  append_marked(run, a, out);
  append_marked(run, b, out);
  return run.as_safe(run.marked(std::move(out)), a.is_safe_text());
}

}  // namespace

Value arithmetic(Run& run, Operator operation, const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return integer_arithmetic(run, operation, a.as_int(), b.as_int());
  if (a.is_number() && b.is_number()) return real_arithmetic(run, operation, a.as_real(), b.as_real());
  switch (operation) {
    case Operator::kAdd:
      if (a.is_text() && b.is_text()) return add_texts(run, a, b);
      if (is_list_or_tuple(a) && is_list_or_tuple(b) && a.sequence()->flavor == b.sequence()->flavor) {
        return add_sequences(run, *a.sequence(), *b.sequence());
      }
      break;
    case Operator::kMultiply:
      if (a.is_text() && b.is_integral()) return settled_safe(run, repeat_text(run, a.bytes(), b.as_int()), a);
      if (b.is_text() && a.is_integral()) return settled_safe(run, repeat_text(run, b.bytes(), a.as_int()), b);
      if (is_list_or_tuple(a) && b.is_integral()) return repeat_items(run, *a.sequence(), b.as_int());
      if (is_list_or_tuple(b) && a.is_integral()) return repeat_items(run, *b.sequence(), a.as_int());
      break;
    case Operator::kModulo:
      if (a.is_text()) return format_percent(run, a, b);
      break;
    default:
      break;
  }
  return fail_types(run, operation, a, b);
}

Value negate(Run& run, const Value& value) {
  if (value.is(Kind::kFloat)) return Value::real(-value.as_real());
  if (value.is_integral()) return integer_arithmetic(run, Operator::kSubtract, 0, value.as_int());
  if (value.is_undefined()) {
    run.fail_undefined(value);
  } else {
    run.fail("bad operand type for unary -: '" + std::string(value.type_name()) + "'");
  }
  return {};
}

}  // namespace sluice::jinja
