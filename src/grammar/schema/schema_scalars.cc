// The keywords of SchemaExpander for values without parts: type, enum, const, numbers, strings.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/string.hpp>
#include <utility>

#include "files/json.h"
#include "grammar/automata/regex.h"
#include "grammar/schema/decimals.h"
#include "grammar/schema/formats.h"
#include "grammar/schema/schema_expander.h"

namespace sluice {
namespace {

std::string_view text_in(const boost::json::value& value) {
  return {value.get_string().data(), value.get_string().size()};
}

const DfaPtr& every_decimal() {
  static const DfaPtr dfa = std::make_shared<const Dfa>(decimals());
  return dfa;
}

const DfaPtr& every_integer() {
  static const DfaPtr dfa = std::make_shared<const Dfa>(integer_texts());
  return dfa;
}

const Dfa& every_text() {
  static const Dfa dfa = *text_of_length(0, -1);
  return dfa;
}

// Schemas that nothing but this array or object meets.
boost::json::value exactly(const boost::json::value& value) {
  boost::json::object out;
  if (value.is_array()) {
    boost::json::array items;
    for (const boost::json::value& item : value.get_array()) items.push_back(boost::json::object{{"const", item}});
    out["type"] = "array";
    out["minItems"] = out["maxItems"] = items.size();
    if (!items.empty()) out["prefixItems"] = std::move(items);
    return out;
  }
  boost::json::object properties;
  boost::json::array names;
  for (const auto& [key, inner] : value.get_object()) {
    properties[key] = boost::json::object{{"const", inner}};
    names.emplace_back(boost::json::string(key));
  }
  out["type"] = "object";
  out["maxProperties"] = names.size();
  out["properties"] = std::move(properties);
  out["required"] = std::move(names);
  return out;
}

// Stands for bounds of floating-point types beyond 10^19, which no number of interest reaches.
constexpr std::int64_t kFarBound = 1'000'000'000'000'000'000;

SchemaProduct of_types(SchemaProduct product, unsigned types) {
  product.types &= types;
  return product;
}

}  // namespace

// integer is a kind of number: 1.0 is one, but integers are written without a fraction.
SchemaExpander::Products SchemaExpander::type(const Keyword& k, bool holds, const SchemaProduct& product) {
  unsigned types = 0;
  bool integer = false, is_known = k.value.is_string() || (k.value.is_array() && !k.value.get_array().empty());
  const auto read = [&](const boost::json::value& value) {
    static constexpr std::pair<std::string_view, unsigned> kTypes[] = {
        {"null", kNullValue},     {"boolean", kFalseValue | kTrueValue},
        {"number", kNumberValue}, {"string", kStringValue},
        {"array", kArrayValue},   {"object", kObjectValue}};
    const std::string_view name = value.is_string() ? text_in(value) : std::string_view();
    const auto found = std::ranges::find(kTypes, name, &std::pair<std::string_view, unsigned>::first);
    if (found != std::end(kTypes)) types |= found->second;
    integer = integer || name == "integer";
    is_known = is_known && (found != std::end(kTypes) || name == "integer");
  };
  if (k.value.is_string()) read(k.value);
  if (k.value.is_array()) std::ranges::for_each(k.value.get_array(), read);
  if (!is_known)
    return fail(k.pointer,
                "expected the name of a type of JSON, or an array of them, found " + describe_json(&k.value));
  integer = integer && (types & kNumberValue) == 0;
  SchemaProduct out = of_types(product, holds ? types | (integer ? kNumberValue : 0U) : kEveryValue & ~types);
  if (integer && (out.types & kNumberValue) != 0) {
    DfaPtr numbers = every_integer();
    if (!holds) numbers = opposite(checked(integer_values(), k.pointer), *every_decimal(), k.pointer);
    narrow(out.number, numbers, k.pointer);
  }
  return {out};
}

// enum and const.
SchemaExpander::Products SchemaExpander::values(const Keyword& k, bool holds, const SchemaProduct& product) {
  std::vector<const boost::json::value*> all;
  if (k.name == "const") {
    all.push_back(&k.value);
  } else if (k.value.is_array() && !k.value.get_array().empty()) {
    for (const boost::json::value& value : k.value.get_array()) all.push_back(&value);
  } else {
    return fail(k.pointer, "expected an array of values, found " + describe_json(&k.value));
  }
  unsigned words = 0;
  std::vector<std::string> strings, numbers;
  std::vector<Literal> composed;
  DfaPtr other_numbers = every_decimal();
  for (const boost::json::value* value : all) {
    if (value->is_null()) words |= kNullValue;
    if (value->is_bool()) words |= value->get_bool() ? kTrueValue : kFalseValue;
    if (value->is_string()) strings.emplace_back(text_in(*value));
    if (value->is_number()) {
      const auto decimal = decimal_of(*value);
      if (!decimal.ok()) return fail(decimal.status(), k.pointer);
      numbers.push_back(decimal_text(*decimal));
      if (holds) continue;
      const DfaPtr equal = checked(decimals_where(Comparison::kEqual, *decimal), k.pointer);
      other_numbers = checked(subtract(*other_numbers, *equal), k.pointer);
    }
    if (value->is_array() || value->is_object()) composed.push_back(document_.keep(exactly(*value), k.pointer));
  }
  const DfaPtr texts = std::make_shared<const Dfa>(dfa_of(strings));
  if (!holds) {
    SchemaProduct out = of_types(product, kEveryValue & ~words);
    if (!strings.empty()) narrow(out.string, opposite(texts, every_text(), k.pointer), k.pointer);
    if (!numbers.empty()) narrow(out.number, other_numbers, k.pointer);
    std::vector<Literal> negated;
    for (const Literal literal : composed) negated.push_back(SchemaDocument::negated(literal));
    return apply_all(negated, out);
  }
  unsigned types = words;
  if (!strings.empty()) types |= kStringValue;
  if (!numbers.empty()) types |= kNumberValue;
  SchemaProduct simple = of_types(product, types);
  narrow(simple.string, texts, k.pointer);
  narrow(simple.number, std::make_shared<const Dfa>(dfa_of(numbers)), k.pointer);
  Products out{simple};
  for (const Literal literal : composed) add(out, apply(literal, product));
  return out;
}

SchemaExpander::Products SchemaExpander::number(const Keyword& k, bool holds, const SchemaProduct& product) {
  const boost::json::value* value = &k.value;
  if (k.value.is_bool() && k.name.starts_with("exclusive")) {  // draft 4: true makes minimum or maximum exclusive
    value = k.schema.if_contains(k.name == "exclusiveMinimum" ? "minimum" : "maximum");
    if (!k.value.get_bool() || value == nullptr) return holds ? Products{product} : Products{};
  }
  if (!value->is_number()) return fail(k.pointer, "expected a number, found " + describe_json(value));
  const boost::json::value far(k.name.ends_with("aximum") ? kFarBound : -kFarBound);
  const bool is_far = value->is_double() && (k.name.ends_with("aximum") ? 1 : -1) * value->get_double() >= 1e19;
  const auto bound = decimal_of(holds && is_far && k.name != "multipleOf" ? far : *value);
  if (!bound.ok()) return fail(bound.status(), k.pointer);
  DfaPtr numbers;
  if (k.name == "multipleOf") {
    if (bound->digits.empty() || bound->negative) return fail(k.pointer, "expected a number above 0");
    numbers = checked(multiples_of(*bound), k.pointer);
  } else {
    const Comparison comparison = k.name == "minimum"            ? Comparison::kAtLeast
                                  : k.name == "exclusiveMinimum" ? Comparison::kMore
                                  : k.name == "maximum"          ? Comparison::kAtMost
                                                                 : Comparison::kLess;
    numbers = checked(decimals_where(comparison, *bound), k.pointer);
  }
  SchemaProduct out = holds ? product : of_types(product, kNumberValue);
  if (!holds) numbers = opposite(numbers, *every_decimal(), k.pointer);
  if ((out.types & kNumberValue) == 0) return {out};
  if (out.number == nullptr) out.number = every_decimal();  // every number that has few enough digits
  narrow(out.number, numbers, k.pointer);
  return {out};
}

SchemaExpander::Products SchemaExpander::length(const Keyword& k, bool holds, const SchemaProduct& product) {
  const auto count = count_of(k);
  if (!count) return {};
  SchemaProduct out = holds ? product : of_types(product, kStringValue);
  if ((out.types & kStringValue) == 0) return {out};
  const bool is_least = (k.name == "minLength") == holds;
  const std::int64_t bound = holds ? *count : is_least ? *count + 1 : *count - 1;
  if (bound < 0) return {};
  narrow(out.string, checked(is_least ? text_of_length(bound, -1) : text_of_length(0, bound), k.pointer), k.pointer);
  return {out};
}

DfaPtr SchemaExpander::pattern_dfa(std::string_view pattern, const std::string& pointer) {
  if (const auto found = patterns_.find(std::string(pattern)); found != patterns_.end()) return found->second;
  const LookAheads split = split_look_aheads(pattern);
  const auto search = [&](const std::string& text) {
    const auto expression = parse_regex(text, pointer);
    if (expression.ok()) return checked(search_match(*expression), pointer);
    if (error_.ok()) error_ = expression.status();
    return std::make_shared<const Dfa>();
  };
  DfaPtr made = search(split.rest);
  for (const auto& [negative, text] : split.heads) {
    if (!error_.ok()) break;
    const DfaPtr head = search(text);
    made = checked(negative ? subtract(*made, *head) : intersect(*made, *head), pointer);
  }
  if (error_.ok()) patterns_[std::string(pattern)] = made;
  return made;
}

SchemaExpander::Products SchemaExpander::pattern(const Keyword& k, bool holds, const SchemaProduct& product) {
  if (!k.value.is_string()) return fail(k.pointer, "expected a string, found " + describe_json(&k.value));
  SchemaProduct out = holds ? product : of_types(product, kStringValue);
  DfaPtr strings = pattern_dfa(text_in(k.value), k.pointer);
  if ((out.types & kStringValue) == 0) return {out};
  if (!holds) strings = opposite(strings, every_text(), k.pointer);
  narrow(out.string, strings, k.pointer);
  return {out};
}

SchemaExpander::Products SchemaExpander::format(const Keyword& k, bool holds, const SchemaProduct& product) {
  if (!k.value.is_string()) return fail(k.pointer, "expected a string, found " + describe_json(&k.value));
  const auto pattern = format_pattern(text_in(k.value));
  if (!pattern) {
    remark(fmt::format("{} ({})", k.pointer, text_in(k.value).substr(0, 100)));
    return holds ? Products{product} : Products{};
  }
  if (!holds) return of_types(product, kStringValue).types == 0 ? Products{} : fail(k.pointer, "cannot be negated");
  SchemaProduct out = product;
  if (!formats_are_asserted_) return {out};
  if ((out.types & kStringValue) != 0) narrow(out.string, pattern_dfa("^(" + *pattern + ")$", k.pointer), k.pointer);
  return {out};
}

}  // namespace sluice
