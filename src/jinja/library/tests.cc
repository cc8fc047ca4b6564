#include <algorithm>
#include <array>
#include <string>

#include "jinja/bound_arguments.h"
#include "jinja/library/builtins.h"
#include "jinja/library/operations.h"
#include "jinja/print.h"
#include "jinja/unicode.h"

namespace sluice::jinja {

namespace {

using Kind = Value::Kind;

template <bool (*kHolds)(const Value&)>
bool plain(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "the test", arguments, {});
  return kHolds(input);
}

template <Operator kOperation>
bool compares(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "the test", arguments, {"other"}, 1);
  return !run.failed() && compare(run, kOperation, input, args.value(0));
}

template <bool (*kHolds)(std::string_view)>
bool in_case(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "the test", arguments, {});
  const std::string text = to_str(run, input);
  return run.work(text.size() / 64) && kHolds(text);
}

bool divides(Run& run, const Value& input, const Value& divisor) {
  const Value remainder = arithmetic(run, Operator::kModulo, input, divisor);
  return !run.failed() && remainder.is_number() && remainder.as_real() == 0.0;
}

bool even(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "even", arguments, {});
  return divides(run, input, Value::integer(2));
}

bool odd(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "odd", arguments, {});
  const Value remainder = arithmetic(run, Operator::kModulo, input, Value::integer(2));
  return !run.failed() && remainder.is_number() && remainder.as_real() == 1.0;
}

bool divisible_by(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "divisibleby", arguments, {"num"}, 1);
  return !run.failed() && divides(run, input, args.value(0));
}

bool same_as(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "sameas", arguments, {"other"}, 1);
  return !run.failed() && input.same_as(args.value(0));
}

bool is_filter(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "filter", arguments, {});
  return input.is_text() && find_filter(input.bytes()) != nullptr;
}

bool is_test(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "test", arguments, {});
  return input.is_text() && find_test(input.bytes()) != nullptr;
}

bool defined(const Value& v) {
  return !v.is_undefined();
}
bool is_bool(const Value& v) {
  return v.is(Kind::kBool);
}
bool is_true(const Value& v) {
  return v.is(Kind::kBool) && v.as_bool();
}
bool is_false(const Value& v) {
  return v.is(Kind::kBool) && !v.as_bool();
}
bool is_integer(const Value& v) {
  return v.is(Kind::kInt);
}
bool is_float(const Value& v) {
  return v.is(Kind::kFloat);
}
bool is_number(const Value& v) {
  return v.is_number();
}
bool is_undefined(const Value& v) {
  return v.is_undefined();
}
bool is_none(const Value& v) {
  return v.is_none();
}
bool is_string(const Value& v) {
  return v.is_text();
}
bool is_mapping(const Value& v) {
  return v.is(Kind::kDict);
}
bool is_iterable(const Value& v) {
  return v.is_text() || v.is(Kind::kSequence) || v.is(Kind::kDict) || v.is(Kind::kGenerator) || v.is(Kind::kLoop) ||
         v.is_undefined();
}
// Has a length and items by index or key.
bool is_sequence(const Value& v) {
  if (v.is(Kind::kSequence)) return v.sequence()->flavor <= Sequence::Flavor::kRange;
  return v.is_text() || v.is(Kind::kDict) || v.is_undefined();
}
bool is_callable(const Value& v) {
  return v.is(Kind::kFunction) || v.is(Kind::kLoop) || v.is_undefined();
}
bool is_escaped(const Value& v) {
  return v.is_safe_text();
}

constexpr std::array kTests = {
    TestEntry{"defined", plain<defined>},
    TestEntry{"undefined", plain<is_undefined>},
    TestEntry{"none", plain<is_none>},
    TestEntry{"string", plain<is_string>},
    TestEntry{"mapping", plain<is_mapping>},
    TestEntry{"iterable", plain<is_iterable>},
    TestEntry{"sequence", plain<is_sequence>},
    TestEntry{"number", plain<is_number>},
    TestEntry{"integer", plain<is_integer>},
    TestEntry{"float", plain<is_float>},
    TestEntry{"boolean", plain<is_bool>},
    TestEntry{"true", plain<is_true>},
    TestEntry{"false", plain<is_false>},
    TestEntry{"callable", plain<is_callable>},
    TestEntry{"escaped", plain<is_escaped>},
    TestEntry{"sameas", same_as},
    TestEntry{"even", even},
    TestEntry{"odd", odd},
    TestEntry{"divisibleby", divisible_by},
    TestEntry{"filter", is_filter},
    TestEntry{"test", is_test},
    TestEntry{"lower", in_case<is_lower>},
    TestEntry{"upper", in_case<is_upper>},
    TestEntry{"in", compares<Operator::kIn>},
    TestEntry{"==", compares<Operator::kEqual>},
    TestEntry{"eq", compares<Operator::kEqual>},
    TestEntry{"equalto", compares<Operator::kEqual>},
    TestEntry{"!=", compares<Operator::kNotEqual>},
    TestEntry{"ne", compares<Operator::kNotEqual>},
    TestEntry{">", compares<Operator::kGreater>},
    TestEntry{"gt", compares<Operator::kGreater>},
    TestEntry{"greaterthan", compares<Operator::kGreater>},
    TestEntry{">=", compares<Operator::kGreaterOrEqual>},
    TestEntry{"ge", compares<Operator::kGreaterOrEqual>},
    TestEntry{"<", compares<Operator::kLess>},
    TestEntry{"lt", compares<Operator::kLess>},
    TestEntry{"lessthan", compares<Operator::kLess>},
    TestEntry{"<=", compares<Operator::kLessOrEqual>},
    TestEntry{"le", compares<Operator::kLessOrEqual>},
};

}  // namespace

const TestEntry* find_test(std::string_view name) {
  const auto found = std::ranges::find(kTests, name, &TestEntry::name);
  return found == kTests.end() ? nullptr : &*found;
}

}  // namespace sluice::jinja
