// Used by grammar/call_network.cc and schema_array_network.cc.
#include "grammar/schema/schema_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "grammar/automata/regex.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxSchemaRules = 20'000;

}  // namespace

SchemaNetwork::SchemaNetwork(boost::json::value schema, NetworkBuilder& builder, JsonText& text, std::string where)
    : document_(std::move(schema)), expander_(document_), builder_(builder), text_(text), where_(std::move(where)) {}

Result<std::int32_t> SchemaNetwork::add() {
  const std::int32_t root = rule_of({document_.root()});
  SLUICE_RETURN_IF_ERROR(build_all());
  return root;
}

Result<std::int32_t> SchemaNetwork::add_arguments(const CallMarkup& markup) {
  const std::int32_t rule = builder_.add_rule("arguments");
  SLUICE_ASSIGN_OR_RETURN(const std::vector<SchemaProduct> products, expander_.expand({document_.root()}));
  bool any = false;
  for (const SchemaProduct& product : products) {
    if ((product.types & kObjectValue) == 0) continue;
    any = true;
    SLUICE_RETURN_IF_ERROR(add_object(rule, product.object, markup.parameter.empty() ? nullptr : &markup));
  }
  if (!any) return invalid_argument("#: expected a schema of objects");
  SLUICE_RETURN_IF_ERROR(build_all());
  return rule;
}

Status SchemaNetwork::build_all() {
  while (!open_.empty()) {
    const auto [conjunction, rule] = std::move(open_.front());
    open_.pop_front();
    SLUICE_RETURN_IF_ERROR(build(conjunction, rule));
    if (builder_.too_large() || rules_.size() > kMaxSchemaRules) {
      return resource_exhausted("#: the schema is too large; use smaller counts and fewer alternatives");
    }
  }
  for (const std::string& remark : expander_.remarks()) builder_.add_remark(where_ + remark);
  return text_.status().ok() ? Status() : text_.status().with_context("#");
}

std::int32_t SchemaNetwork::rule_of(const Conjunction& conjunction) {
  const auto found = rules_.find(conjunction);
  if (found != rules_.end()) return found->second;
  const std::int32_t rule = builder_.add_rule(conjunction.empty() ? "value" : document_.pointer(conjunction[0]));
  rules_.emplace(conjunction, rule);
  open_.emplace_back(conjunction, rule);
  return rule;
}

std::int32_t SchemaNetwork::value(std::int32_t from, const Conjunction& conjunction) {
  if (conjunction.empty()) return text_.any_value(from);
  const std::int32_t to = builder_.add_state();
  builder_.add_call(from, rule_of(conjunction), to);
  return to;
}

Status SchemaNetwork::build(const Conjunction& conjunction, std::int32_t rule) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<SchemaProduct> products, expander_.expand(conjunction));
  for (const SchemaProduct& product : products) SLUICE_RETURN_IF_ERROR(add_product(rule, product));
  return {};
}

Status SchemaNetwork::add_product(std::int32_t rule, const SchemaProduct& product) {
  const std::int32_t start = builder_.start(rule);
  const auto allows = [&](unsigned types) { return (product.types & types) != 0; };
  for (const auto& [type, word] :
       {std::pair{kNullValue, "null"}, std::pair{kTrueValue, "true"}, std::pair{kFalseValue, "false"}}) {
    if (allows(type)) builder_.set_end(builder_.add_literal(start, word));
  }
  if (allows(kNumberValue)) {
    builder_.set_end(product.number == nullptr ? text_.free_number(start) : builder_.add_dfa(start, *product.number));
  }
  if (allows(kStringValue)) {
    builder_.set_end(product.string == nullptr ? text_.free_string(start) : text_.string_of(start, *product.string));
  }
  if (allows(kArrayValue)) SLUICE_RETURN_IF_ERROR(add_array(rule, product.array));
  if (allows(kObjectValue)) SLUICE_RETURN_IF_ERROR(add_object(rule, product.object));
  return {};
}

bool SchemaNetwork::allows_name(const ObjectProduct& object, const std::string& name) {
  return !object.forbidden.contains(name) &&
         std::ranges::all_of(object.names, [&](const DfaPtr& names) { return names->matches(name); });
}

Conjunction SchemaNetwork::value_of(const ObjectProduct& object, const ObjectProduct::Property& property) {
  Conjunction out = property.value;
  for (const ObjectProduct::Pattern& pattern : object.patterns) {
    if (pattern.names->matches(property.name)) out = with(std::move(out), pattern.value);
  }
  for (const ObjectProduct::Additional& additional : object.additional) {
    const bool known =
        additional.names.contains(property.name) ||
        std::ranges::any_of(additional.patterns, [&](const DfaPtr& p) { return p->matches(property.name); });
    if (!known) out = with(std::move(out), additional.value);
  }
  return out;
}

Result<SchemaNetwork::KeyClass> SchemaNetwork::constrained(KeyClass all, const ObjectProduct& object) const {
  std::vector<std::string> named(object.forbidden.begin(), object.forbidden.end());
  for (const ObjectProduct::Property& property : object.properties) named.push_back(property.name);
  if (named.empty() && object.names.empty() && object.patterns.empty()) return all;
  SLUICE_ASSIGN_OR_RETURN(Dfa names, text_of_length(0, -1));
  for (const DfaPtr& more : object.names) {
    SLUICE_ASSIGN_OR_RETURN(names, intersect(names, *more));
  }
  SLUICE_ASSIGN_OR_RETURN(names, subtract(names, dfa_of(named)));
  all.names = std::make_shared<const Dfa>(std::move(names));
  return all;
}

Result<std::vector<SchemaNetwork::KeyClass>> SchemaNetwork::key_classes(const ObjectProduct& object) {
  if (object.patterns.empty()) {
    // One class of all keys: mostly no value may have one.
    Conjunction value;
    for (const ObjectProduct::Additional& additional : object.additional) {
      if (additional.patterns.empty()) value = with(std::move(value), additional.value);
    }
    if (!value.empty() && expander_.is_empty(value)) return std::vector<KeyClass>();
  }
  SLUICE_ASSIGN_OR_RETURN(KeyClass all, constrained({}, object));
  std::vector<KeyClass> classes{std::move(all)};
  for (const ObjectProduct::Pattern& pattern : object.patterns) {
    std::vector<KeyClass> next;
    for (KeyClass& one : classes) {
      const bool known = std::ranges::find(one.matched, pattern.names.get()) != one.matched.end();
      if (known) {
        next.push_back(std::move(one));
        continue;
      }
      SLUICE_ASSIGN_OR_RETURN(Dfa with_it, intersect(*one.names, *pattern.names));
      SLUICE_ASSIGN_OR_RETURN(Dfa without, subtract(*one.names, *pattern.names));
      KeyClass other = one;
      other.names = std::make_shared<const Dfa>(std::move(without));
      one.names = std::make_shared<const Dfa>(std::move(with_it));
      one.matched.push_back(pattern.names.get());
      if (!one.names->empty()) next.push_back(std::move(one));
      if (!other.names->empty()) next.push_back(std::move(other));
    }
    classes = std::move(next);
    if (classes.size() > 64) return invalid_argument("patternProperties overlap in more than 64 ways");
  }
  std::erase_if(classes, [](const KeyClass& one) { return one.names != nullptr && one.names->empty(); });
  for (KeyClass& one : classes) {
    const auto matches = [&](const DfaPtr& p) { return std::ranges::find(one.matched, p.get()) != one.matched.end(); };
    for (const ObjectProduct::Pattern& pattern : object.patterns) {
      if (matches(pattern.names)) one.value = with(std::move(one.value), pattern.value);
    }
    for (const ObjectProduct::Additional& additional : object.additional) {
      if (!std::ranges::any_of(additional.patterns, matches)) one.value = with(std::move(one.value), additional.value);
    }
  }
  std::erase_if(classes, [&](const KeyClass& one) { return !one.value.empty() && expander_.is_empty(one.value); });
  return classes;
}

namespace {

// The names that the attribute of a tag can hold.
const Dfa& parameter_names() {
  static const Dfa dfa = *whole_match(*parse_regex(R"([^"<>\x00-\x1f\x7f]{1,256})", "name"));
  return dfa;
}

}  // namespace

Result<std::int32_t> SchemaNetwork::add_parameter(std::int32_t from, const CallMarkup& tags, const KeyClass& key) {
  const std::int32_t open = builder_.add_literal(from, tags.parameter);
  std::int32_t name = -1;
  if (key.name != nullptr) {
    name = builder_.add_literal(open, *key.name);
  } else if (key.names != nullptr) {
    SLUICE_ASSIGN_OR_RETURN(const Dfa names, intersect(parameter_names(), *key.names));
    name = builder_.add_dfa(open, names);
  } else {
    name = builder_.add_dfa(open, parameter_names());
  }
  const std::int32_t text = builder_.add_literal(name, tags.is_text), json = builder_.add_literal(name, tags.is_json);
  const std::int32_t end = builder_.add_state();
  if (key.value.empty()) {
    builder_.add_empty(text_.raw_string(text, nullptr, tags.parameter_end), end);
    builder_.add_empty(builder_.add_literal(text_.any_but_string(json), tags.parameter_end), end);
    return end;
  }
  SLUICE_ASSIGN_OR_RETURN(std::vector<SchemaProduct> products, expander_.expand(key.value));
  const std::int32_t other = builder_.add_rule("parameter");
  for (SchemaProduct& product : products) {
    if ((product.types & kStringValue) != 0)
      builder_.add_empty(text_.raw_string(text, product.string.get(), tags.parameter_end), end);
    product.types &= ~static_cast<unsigned>(kStringValue);
    SLUICE_RETURN_IF_ERROR(add_product(other, product));
  }
  const std::int32_t behind = builder_.add_state();
  builder_.add_call(json, other, behind);
  builder_.add_empty(builder_.add_literal(behind, tags.parameter_end), end);
  return end;
}

// Keys in their order: behind(i, n) is a state behind a value, with n keys written and those from i on to come.
Status SchemaNetwork::add_object(std::int32_t rule, const ObjectProduct& object, const CallMarkup* tags) {
  std::vector<ObjectProduct::Property> keys;
  for (const ObjectProduct::Property& property : object.properties) {
    if (allows_name(object, property.name)) {
      keys.push_back({property.name, value_of(object, property)});
    } else if (object.required.contains(property.name)) {
      return {};
    }
  }
  SLUICE_ASSIGN_OR_RETURN(const std::vector<KeyClass> others, key_classes(object));
  const auto count = static_cast<std::int64_t>(keys.size()),
             required = static_cast<std::int64_t>(object.required.size());
  const std::int64_t least = object.least > required ? object.least : 0;
  const std::int64_t most = others.empty() && object.most >= count ? kNoLimit : object.most;
  if (least > 1 && !others.empty()) {
    return invalid_argument(
        object.least_pointer +
        ": with keys that the schema does not name more than 1 is not supported, as they may repeat");
  }
  const std::int64_t counted = most != kNoLimit ? most : least;
  const auto is_required = [&](std::int64_t i) {
    return object.required.contains(keys[static_cast<std::size_t>(i)].name);
  };
  std::int64_t last_required = count;  // one more than the last key that must come
  while (last_required > 0 && !is_required(last_required - 1)) --last_required;

  std::map<std::pair<std::int64_t, std::int64_t>, std::int32_t> behind_states, key_states;
  std::vector<std::pair<std::int64_t, std::int64_t>> open_behind, open_keys;
  const auto find = [&](auto& states, auto& open, std::int64_t i, std::int64_t n) {
    const auto [found, is_new] = states.emplace(std::pair{i, n}, -1);
    if (is_new) {
      found->second = builder_.add_state();
      open.emplace_back(i, n);
    }
    return found->second;
  };
  const auto may_end = [&](std::int64_t i, std::int64_t n) { return i >= last_required && n >= least; };
  const auto add_value = [&](std::int32_t key, const Conjunction& meets) {
    return value(text_.space(builder_.add_literal(key, ":")), meets);
  };
  const auto add_end = [&](std::int32_t from) {
    builder_.set_end(tags != nullptr ? from : builder_.add_literal(from, "}"));
  };
  const std::int32_t start = builder_.start(rule);
  const std::int32_t first = tags != nullptr ? start : text_.space(builder_.add_literal(start, "{"));
  if (may_end(0, 0)) add_end(first);
  builder_.add_empty(first, find(key_states, open_keys, 0, 0));
  for (std::size_t k = 0, b = 0; k < open_keys.size() || b < open_behind.size();) {
    if (builder_.too_large()) break;
    if (b < open_behind.size()) {
      const auto [i, n] = open_behind[b++];
      const std::int32_t state = behind_states.at({i, n});
      if (may_end(i, n)) add_end(tags != nullptr ? state : text_.space(state));
      const std::int32_t next = tags != nullptr ? builder_.add_literal(state, tags->parameters_between)
                                                : text_.space(builder_.add_literal(state, ","));
      builder_.add_empty(next, find(key_states, open_keys, i, n));
      continue;
    }
    const auto [i, n] = open_keys[k++];
    const std::int32_t state = key_states.at({i, n});
    if (most != kNoLimit && n >= most) continue;
    if (i == count) {
      for (const KeyClass& other : others) {
        std::int32_t to = -1;
        if (tags != nullptr) {
          SLUICE_ASSIGN_OR_RETURN(to, add_parameter(state, *tags, other));
        } else {
          to = add_value(other.names == nullptr ? text_.free_string(state) : text_.string_of(state, *other.names),
                         other.value);
        }
        builder_.add_empty(to, find(behind_states, open_behind, i, std::min(n + 1, counted)));
      }
      continue;
    }
    const ObjectProduct::Property& key = keys[static_cast<std::size_t>(i)];
    std::int32_t to = -1;
    if (tags != nullptr) {
      SLUICE_ASSIGN_OR_RETURN(to, add_parameter(state, *tags, {.name = &key.name, .matched = {}, .value = key.value}));
      if (!parameter_names().matches(key.name)) {
        return invalid_argument(
            fmt::format("the property '{}' cannot be named in this model's syntax of calls", key.name));
      }
    } else {
      to = add_value(text_.string_of(state, key.name), key.value);
    }
    builder_.add_empty(to, find(behind_states, open_behind, i + 1, std::min(n + 1, counted)));
    if (!is_required(i)) builder_.add_empty(state, find(key_states, open_keys, i + 1, n));
  }
  return {};
}

Result<Network> compile_json_schema(const boost::json::value& schema, JsonOptions options) {
  NetworkBuilder builder;
  JsonText text(builder, options.compact);
  SLUICE_ASSIGN_OR_RETURN(const std::int32_t root, SchemaNetwork(schema, builder, text).add());
  auto network = builder.finish(root);
  if (!network.ok()) return network.status().with_context("#");
  return network;
}

}  // namespace sluice
