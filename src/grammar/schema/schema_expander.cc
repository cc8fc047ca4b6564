// Used by grammar/schema.
#include "grammar/schema/schema_expander.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "files/json.h"

namespace sluice {
namespace {

constexpr int kMaxSchemaDepth = 150;  // nested schemas that describe one value

// A count so large that no answer reaches it, as generators write for "any".
bool is_no_limit(std::string_view name, const boost::json::value& value) {
  const bool is_count = name == "maxLength" || name == "maxItems" || name == "maxProperties";
  return is_count && value.is_number() && value.to_number<double>() >= 1 << 30;
}

}  // namespace

Result<std::vector<SchemaProduct>> SchemaExpander::expand(const Conjunction& conjunction) {
  error_ = {};
  depth_ = 0;
  Products out = apply_all(conjunction, {});
  if (!error_.ok()) return error_;
  std::erase_if(out, [&](const SchemaProduct& product) { return is_empty(product, 0); });
  if (!error_.ok()) return error_;
  return out;
}

Result<DfaPtr> SchemaExpander::strings_of(const Conjunction& conjunction) {
  SLUICE_ASSIGN_OR_RETURN(const Products products, expand(conjunction));
  DfaPtr out = std::make_shared<const Dfa>();
  for (const SchemaProduct& product : products) {
    if ((product.types & kStringValue) == 0) continue;
    if (product.string == nullptr) return DfaPtr();
    SLUICE_ASSIGN_OR_RETURN(Dfa both, unite(*out, *product.string));
    out = std::make_shared<const Dfa>(std::move(both));
  }
  return out;
}

// Errors are not of interest here: what they are about is then said to be possible.
bool SchemaExpander::is_empty(const Conjunction& conjunction, int depth) {
  const Status before = std::exchange(error_, {});
  const int was_deep = depth_;
  const Products products = apply_all(conjunction, {});
  depth_ = was_deep;
  const bool failed = !std::exchange(error_, before).ok();
  return !failed && std::ranges::all_of(products, [&](const SchemaProduct& p) { return is_empty(p, depth); });
}

bool SchemaExpander::is_empty(const SchemaProduct& product, int depth) {
  constexpr unsigned kSimple = kNullValue | kFalseValue | kTrueValue;
  if ((product.types & kSimple) != 0) return false;
  if ((product.types & kNumberValue) != 0 && (product.number == nullptr || !product.number->empty())) return false;
  if ((product.types & kStringValue) != 0 && (product.string == nullptr || !product.string->empty())) return false;
  if ((product.types & kArrayValue) != 0) {
    const ArrayProduct& array = product.array;
    bool empty = array.least > array.most;
    for (const auto& [place, item] : array.at) {
      empty = empty || (depth > 0 && place < array.least && is_empty(item, depth - 1));
    }
    if (!empty) return false;
  }
  if ((product.types & kObjectValue) != 0) {
    const ObjectProduct& object = product.object;
    bool empty = object.least > object.most || static_cast<std::int64_t>(object.required.size()) > object.most;
    for (const std::string& name : object.required) empty = empty || object.forbidden.contains(name);
    for (const ObjectProduct::Property& property : object.properties) {
      empty = empty || (depth > 0 && object.required.contains(property.name) && is_empty(property.value, depth - 1));
    }
    if (!empty) return false;
  }
  return true;
}

// Formats do not count: to a validator to which they say nothing they exclude nothing.
bool SchemaExpander::excludes(const SchemaProduct& product, Literal literal) {
  const Status before = std::exchange(error_, {});
  const int was_deep = depth_;
  const bool asserted = std::exchange(formats_are_asserted_, false);
  const Products products = apply(literal, product);
  formats_are_asserted_ = asserted;
  depth_ = was_deep;
  const bool failed = !std::exchange(error_, before).ok();
  return !failed && std::ranges::all_of(products, [&](const SchemaProduct& p) { return is_empty(p, 3); });
}

void SchemaExpander::add(Products& to, Products more) {
  for (SchemaProduct& product : more) to.push_back(std::move(product));
}

SchemaExpander::Products SchemaExpander::apply_all(const std::vector<Literal>& literals, const SchemaProduct& product) {
  Products out{product};
  for (const Literal literal : literals) {
    Products next;
    for (const SchemaProduct& one : out) add(next, apply(literal, one));
    out = std::move(next);
  }
  return out;
}

SchemaExpander::Products SchemaExpander::apply(Literal literal, const SchemaProduct& product) {
  if (!error_.ok() || product.types == 0) return {};
  const std::string& pointer = document_.pointer(literal);
  const boost::json::value& schema = document_.schema(literal);
  const bool holds = SchemaDocument::holds(literal);
  if (schema.is_bool()) return schema.get_bool() == holds ? Products{product} : Products{};
  if (!schema.is_object()) {
    return fail(pointer, "expected a schema, an object or a boolean, found " + describe_json(&schema));
  }
  if (++depth_ > kMaxSchemaDepth) return fail(pointer, "the schema refers to itself, or nests too deep, for one value");
  if (++steps_ > kMaxExpanded) return fail(pointer, "the schema has too many alternatives");
  Products out = apply_keywords(literal, product);
  --depth_;
  if (out.size() > kMaxProducts)
    return fail(pointer, fmt::format("the schema has more than {} alternatives here", kMaxProducts));
  return out;
}

// Applies the condition that all keywords hold, or that one does not.
SchemaExpander::Products SchemaExpander::apply_keywords(Literal literal, const SchemaProduct& product) {
  const Object& schema = document_.schema(literal).get_object();
  const bool holds = SchemaDocument::holds(literal);
  Products out;
  if (holds) out.push_back(product);
  // The keyword that narrows most comes first.
  const bool is_alone = document_.is_old() && schema.contains("$ref");
  const auto is_narrow = [](std::string_view name) { return name == "type" || name == "const" || name == "enum"; };
  for (const bool narrow : {true, false}) {
    for (const auto& [key, value] : schema) {
      const std::string_view name(key.data(), key.size());
      if (is_narrow(name) != narrow) continue;
      if (is_alone && name != "$ref") {
        if (handler_of(name) != &SchemaExpander::ignored) remark(document_.pointer(literal) + pointer_step(name));
        continue;
      }
      out = apply_keyword({literal, schema, name, value, document_.pointer(literal) + pointer_step(name)}, holds,
                          product, std::move(out));
      if (!error_.ok()) return {};
    }
  }
  return out;
}

// `out`: what the keywords before have left.
SchemaExpander::Products SchemaExpander::apply_keyword(const Keyword& keyword, bool holds, const SchemaProduct& product,
                                                       Products out) {
  const Handler handler =
      is_no_limit(keyword.name, keyword.value) ? &SchemaExpander::ignored : handler_of(keyword.name);
  const auto drop_empty = [&](Products& products) {
    std::erase_if(products, [&](const SchemaProduct& p) { return is_empty(p, 0); });
  };
  if (!holds) {
    add(out, (this->*handler)(keyword, false, product));
    drop_empty(out);
  } else {
    Products next;
    for (const SchemaProduct& one : out) add(next, (this->*handler)(keyword, true, one));
    drop_empty(next);
    // The rest is of no use, but faults in it are reported.
    if (out.empty() && error_.ok()) (this->*handler)(keyword, true, product);
    out = std::move(next);
  }
  if (out.size() > kMaxProducts) return fail(keyword.pointer, fmt::format("more than {} alternatives", kMaxProducts));
  return out;
}

void SchemaExpander::remark(std::string what) {
  if (std::ranges::find(remarks_, what) == remarks_.end()) remarks_.push_back(std::move(what));
}

SchemaExpander::Products SchemaExpander::fail(const std::string& pointer, std::string_view message) {
  if (error_.ok()) error_ = invalid_argument(fmt::format("{}: {}", pointer.empty() ? "#" : pointer, message));
  return {};
}

SchemaExpander::Products SchemaExpander::fail(const Status& status, const std::string& pointer) {
  if (error_.ok()) error_ = status.with_context(pointer);
  return {};
}

std::optional<std::int64_t> SchemaExpander::count_of(const Keyword& k) {
  constexpr std::int64_t kMost = 1 << 30;
  std::optional<std::int64_t> out;
  if (k.value.is_int64()) out = k.value.get_int64();
  if (k.value.is_uint64()) out = static_cast<std::int64_t>(std::min<std::uint64_t>(k.value.get_uint64(), kMost));
  if (k.value.is_double() && k.value.get_double() >= 0 && k.value.get_double() < static_cast<double>(kMost)) {
    const auto whole = static_cast<std::int64_t>(k.value.get_double());
    if (static_cast<double>(whole) == k.value.get_double()) out = whole;
  }
  if (out && *out >= 0 && *out < kMost) return out;
  fail(k.pointer, "expected a count, found " + describe_json(&k.value));
  return std::nullopt;
}

std::optional<Literal> SchemaExpander::child(const Keyword& k, const boost::json::value& schema,
                                             const std::string& step) {
  if (!schema.is_object() && !schema.is_bool()) {
    fail(k.pointer + step, "expected a schema, found " + describe_json(&schema));
    return std::nullopt;
  }
  return document_.literal(schema, k.pointer + step);
}

std::optional<std::vector<Literal>> SchemaExpander::children(const Keyword& k) {
  if (!k.value.is_array() || k.value.get_array().empty()) {
    fail(k.pointer, "expected an array of schemas, found " + describe_json(&k.value));
    return std::nullopt;
  }
  std::vector<Literal> out;
  for (std::size_t i = 0; i < k.value.get_array().size(); ++i) {
    const auto one = child(k, k.value.get_array()[i], pointer_step(i));
    if (!one) return std::nullopt;
    out.push_back(*one);
  }
  return out;
}

DfaPtr SchemaExpander::checked(Result<Dfa> dfa, const std::string& pointer) {
  if (dfa.ok()) return std::make_shared<const Dfa>(std::move(*dfa));
  fail(dfa.status(), pointer);
  return std::make_shared<const Dfa>();
}

void SchemaExpander::narrow(DfaPtr& constraint, const DfaPtr& more, const std::string& pointer) {
  if (constraint == more || more == nullptr) return;
  constraint = constraint == nullptr ? more : checked(intersect(*constraint, *more), pointer);
}

DfaPtr SchemaExpander::opposite(const DfaPtr& dfa, const Dfa& universe, const std::string& pointer) {
  return checked(subtract(universe, *dfa), pointer);
}

}  // namespace sluice
