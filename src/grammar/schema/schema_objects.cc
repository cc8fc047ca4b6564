// The keywords of SchemaExpander for objects.
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/string.hpp>
#include <utility>

#include "files/json.h"
#include "grammar/schema/schema_expander.h"

namespace sluice {
namespace {

SchemaProduct of_objects(SchemaProduct product) {
  product.types &= kObjectValue;
  return product;
}

SchemaProduct not_of_objects(SchemaProduct product) {
  product.types &= ~static_cast<unsigned>(kObjectValue);
  return product;
}

bool allows_objects(const SchemaProduct& product) {
  return (product.types & kObjectValue) != 0;
}

void add_property(ObjectProduct& object, std::string_view name, const Conjunction& value) {
  const auto found = std::ranges::find(object.properties, name, &ObjectProduct::Property::name);
  if (found == object.properties.end()) {
    object.properties.push_back({std::string(name), value});
  } else {
    found->value = with(std::move(found->value), value);
  }
}

void require_property(ObjectProduct& object, std::string_view name) {
  object.required.insert(std::string(name));
  add_property(object, name, {});
}

// Returns whether the property itself says that it is required, as draft 3 and some generators have it.
bool is_required_itself(const boost::json::value& schema) {
  const boost::json::value* required = schema.is_object() ? schema.get_object().if_contains("required") : nullptr;
  return required != nullptr && required->is_bool() && required->get_bool();
}

// Reads the strings of an array; false if the value is none.
bool read_names(const boost::json::value& value, std::vector<std::string>& out) {
  if (!value.is_array()) return false;
  for (const boost::json::value& name : value.get_array()) {
    if (!name.is_string()) return false;
    out.emplace_back(name.get_string().data(), name.get_string().size());
  }
  return true;
}

}  // namespace

SchemaExpander::Products SchemaExpander::property_count(const Keyword& k, bool holds, const SchemaProduct& product) {
  const auto count = count_of(k);
  if (!count) return {};
  SchemaProduct out = holds ? product : of_objects(product);
  if ((k.name == "minProperties") == holds) {
    out.object.least = std::max(out.object.least, holds ? *count : *count + 1);
    out.object.least_pointer = k.pointer;
  } else {
    out.object.most = std::min(out.object.most, holds ? *count : *count - 1);
  }
  return {out};
}

SchemaExpander::Products SchemaExpander::required(const Keyword& k, bool holds, const SchemaProduct& product) {
  std::vector<std::string> names;
  if (k.value.is_bool()) return holds ? Products{product} : Products{};  // draft 3: read by `properties`
  if (!read_names(k.value, names))
    return fail(k.pointer, "expected an array of names, found " + describe_json(&k.value));
  Products out;
  SchemaProduct all = product;
  for (const std::string& name : names) {
    if (allows_objects(all)) require_property(all.object, name);
    out.push_back(of_objects(product));
    out.back().object.forbidden.insert(name);
  }
  return holds ? Products{all} : out;
}

SchemaExpander::Products SchemaExpander::properties(const Keyword& k, bool holds, const SchemaProduct& product) {
  if (!k.value.is_object()) return fail(k.pointer, "expected an object of schemas, found " + describe_json(&k.value));
  Products out;
  SchemaProduct all = product;
  for (const auto& [key, value] : k.value.get_object()) {
    const std::string_view name(key.data(), key.size());
    const auto schema = child(k, value, pointer_step(name));
    if (!schema) return {};
    if (allows_objects(all)) add_property(all.object, name, {*schema});
    if (allows_objects(all) && is_required_itself(value)) require_property(all.object, name);
    if (holds) continue;
    out.push_back(of_objects(product));
    require_property(out.back().object, name);
    add_property(out.back().object, name, {SchemaDocument::negated(*schema)});
  }
  return holds ? Products{all} : out;
}

SchemaExpander::Products SchemaExpander::pattern_properties(const Keyword& k, bool holds,
                                                            const SchemaProduct& product) {
  if (!k.value.is_object()) return fail(k.pointer, "expected an object of schemas, found " + describe_json(&k.value));
  SchemaProduct out = product;
  for (const auto& [key, value] : k.value.get_object()) {
    const auto schema = child(k, value, pointer_step(key));
    if (!schema) return {};
    out.object.patterns.push_back({pattern_dfa(key, k.pointer + pointer_step(key)), {*schema}});
  }
  if (holds || k.value.get_object().empty()) return holds ? Products{out} : Products{};
  return allows_objects(product) ? fail(k.pointer, "cannot be negated") : Products{};
}

SchemaExpander::Products SchemaExpander::additional_properties(const Keyword& k, bool holds,
                                                               const SchemaProduct& product) {
  const auto schema = child(k, k.value, "");
  if (!schema) return {};
  if (!holds) {
    if (k.value.is_bool() && k.value.get_bool()) return {};
    return allows_objects(product) ? fail(k.pointer, "cannot be negated") : Products{};
  }
  SchemaProduct out = product;
  ObjectProduct::Additional additional;
  additional.value = {*schema};
  if (const boost::json::value* known = k.schema.if_contains("properties"); known != nullptr && known->is_object()) {
    for (const auto& [key, value] : known->get_object()) additional.names.insert(std::string(key));
  }
  if (const boost::json::value* known = k.schema.if_contains("patternProperties");
      known != nullptr && known->is_object()) {
    const std::string pointer = document_.pointer(k.owner) + "/patternProperties";
    for (const auto& [key, value] : known->get_object()) {
      additional.patterns.push_back(pattern_dfa(key, pointer + pointer_step(key)));
    }
  }
  out.object.additional.push_back(std::move(additional));
  return {out};
}

SchemaExpander::Products SchemaExpander::property_names(const Keyword& k, bool holds, const SchemaProduct& product) {
  const auto schema = child(k, k.value, "");
  if (!schema) return {};
  if (!holds) {
    if (k.value.is_bool() && k.value.get_bool()) return {};
    return allows_objects(product) ? fail(k.pointer, "cannot be negated") : Products{};
  }
  SchemaProduct out = product;
  if (!allows_objects(out)) return {out};
  const int was_deep = depth_;
  Products names = apply(*schema, {.types = kStringValue, .number = {}, .string = {}, .array = {}, .object = {}});
  depth_ = was_deep;
  DfaPtr all = std::make_shared<const Dfa>();
  for (const SchemaProduct& name : names) {
    if ((name.types & kStringValue) == 0) continue;
    if (name.string == nullptr) return {out};
    all = checked(unite(*all, *name.string), k.pointer);
  }
  out.object.names.push_back(all);
  return {out};
}

// For each name: it is not there, or those that it brings are.
SchemaExpander::Products SchemaExpander::dependent_required(const Keyword& k, bool holds,
                                                            const SchemaProduct& product) {
  if (!k.value.is_object()) return fail(k.pointer, "expected an object of arrays, found " + describe_json(&k.value));
  Products out;
  if (holds) out.push_back(product);
  for (const auto& [key, value] : k.value.get_object()) {
    std::vector<std::string> names;
    if (k.name == "dependencies" && !value.is_array()) continue;  // dependentSchemas reads it
    if (!read_names(value, names)) return fail(k.pointer + pointer_step(key), "expected an array of names");
    if (names.empty()) continue;
    Products next;
    for (const SchemaProduct& one : holds ? out : Products{product}) {
      if (!holds) {
        for (const std::string& name : names) {
          next.push_back(of_objects(one));
          require_property(next.back().object, key);
          next.back().object.forbidden.insert(name);
        }
        continue;
      }
      if (!allows_objects(one)) {
        next.push_back(one);
        continue;
      }
      next.push_back(one);
      next.back().object.forbidden.insert(std::string(key));
      next.push_back(of_objects(one));
      require_property(next.back().object, key);
      for (const std::string& name : names) require_property(next.back().object, name);
    }
    if (holds) out.clear();
    add(out, std::move(next));
    if (out.size() > kMaxProducts) return fail(k.pointer, "too many alternatives");
  }
  return out;
}

SchemaExpander::Products SchemaExpander::dependent_schemas(const Keyword& k, bool holds, const SchemaProduct& product) {
  if (!k.value.is_object()) return fail(k.pointer, "expected an object of schemas, found " + describe_json(&k.value));
  Products out;
  if (holds) out.push_back(product);
  for (const auto& [key, value] : k.value.get_object()) {
    if (k.name == "dependencies" && value.is_array()) continue;  // dependentRequired reads it
    const auto schema = child(k, value, pointer_step(key));
    if (!schema) return {};
    SchemaProduct there = of_objects(product);
    require_property(there.object, key);
    if (!holds) {
      add(out, apply(SchemaDocument::negated(*schema), there));
      continue;
    }
    Products next;
    for (const SchemaProduct& one : out) {
      if (const SchemaProduct others = not_of_objects(one); others.types != 0) next.push_back(others);
      if (!allows_objects(one)) continue;
      next.push_back(of_objects(one));
      next.back().object.forbidden.insert(std::string(key));
      there = of_objects(one);
      require_property(there.object, key);
      add(next, apply(*schema, there));
    }
    out = std::move(next);
    if (out.size() > kMaxProducts) return fail(k.pointer, "too many alternatives");
  }
  return out;
}

// Drafts up to 7 have dependentRequired and dependentSchemas in one keyword.
SchemaExpander::Products SchemaExpander::dependencies(const Keyword& k, bool holds, const SchemaProduct& product) {
  Products out = dependent_required(k, holds, product);
  if (!holds) {
    add(out, dependent_schemas(k, holds, product));
    return out;
  }
  Products both;
  for (const SchemaProduct& one : out) add(both, dependent_schemas(k, holds, one));
  return both;
}

struct SchemaExpander::Evaluated {
  ObjectProduct::Additional additional;
  bool all = false;
  bool any() const { return all || !additional.names.empty() || !additional.patterns.empty(); }
};

// Returns false if this depends on the object's values.
bool SchemaExpander::find_evaluated(Literal literal, Evaluated& out, int depth) {
  const boost::json::value& schema = document_.schema(literal);
  if (depth > 20) return false;
  if (!schema.is_object()) return true;
  for (const auto& [key, value] : schema.get_object()) {
    const std::string_view name(key.data(), key.size());
    const Keyword k{literal, schema.get_object(), name, value, document_.pointer(literal) + pointer_step(name)};
    const bool is_outer = depth == 0;
    out.all = out.all || name == "additionalProperties" || (name == "unevaluatedProperties" && !is_outer);
    if (name == "properties" && value.is_object()) {
      for (const auto& [property, inner] : value.get_object()) out.additional.names.insert(std::string(property));
    } else if (name == "patternProperties" && value.is_object()) {
      for (const auto& [pattern, inner] : value.get_object()) {
        out.additional.patterns.push_back(pattern_dfa(pattern, k.pointer + pointer_step(pattern)));
      }
    } else if (name == "allOf" || name == "anyOf" || name == "oneOf") {
      Evaluated some;
      Evaluated& found = name == "allOf" ? out : some;
      for (const Literal one : children(k).value_or(std::vector<Literal>())) {
        if (!find_evaluated(one, found, depth + 1)) return false;
      }
      if (some.any()) return false;
    } else if (name == "$ref" && value.is_string()) {
      const auto found = document_.resolve(std::string_view(value.get_string()), k.pointer);
      if (found.ok() && !find_evaluated(*found, out, depth + 1)) return false;
    } else if (name == "if" || name == "then" || name == "else" || name == "dependentSchemas") {
      return false;
    }
  }
  return true;
}

SchemaExpander::Products SchemaExpander::unevaluated_properties(const Keyword& k, bool holds,
                                                                const SchemaProduct& product) {
  const auto schema = child(k, k.value, "");
  if (!schema) return {};
  if (k.value.is_bool() && k.value.get_bool()) return holds ? Products{product} : Products{};
  Evaluated evaluated;
  if (!find_evaluated(k.owner, evaluated, 0)) {
    return fail(k.pointer,
                "is supported where properties, patternProperties, allOf and $ref alone name what is evaluated");
  }
  if (evaluated.all) return holds ? Products{product} : Products{};
  if (!holds) return allows_objects(product) ? fail(k.pointer, "cannot be negated") : Products{};
  SchemaProduct out = product;
  evaluated.additional.value = {*schema};
  out.object.additional.push_back(std::move(evaluated.additional));
  return {out};
}

}  // namespace sluice
