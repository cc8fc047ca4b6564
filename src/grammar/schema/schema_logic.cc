// The keywords of SchemaExpander that combine schemas, and the list of all keywords.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/string.hpp>
#include <utility>

#include "files/json.h"
#include "grammar/schema/schema_expander.h"

namespace sluice {

SchemaExpander::Products SchemaExpander::all_of(const Keyword& k, bool holds, const SchemaProduct& product) {
  const auto schemas = children(k);
  if (!schemas) return {};
  if (holds) return apply_all(*schemas, product);
  Products out;
  for (const Literal schema : *schemas) add(out, apply(SchemaDocument::negated(schema), product));
  return out;
}

SchemaExpander::Products SchemaExpander::any_of(const Keyword& k, bool holds, const SchemaProduct& product) {
  const auto schemas = children(k);
  if (!schemas) return {};
  Products out;
  if (holds) {
    for (const Literal schema : *schemas) add(out, apply(schema, product));
    return out;
  }
  std::vector<Literal> negated;
  for (const Literal schema : *schemas) negated.push_back(SchemaDocument::negated(schema));
  return apply_all(negated, product);
}

// One holds and no other does. That another does not is written down only where it is not plain from the first.
SchemaExpander::Products SchemaExpander::one_of(const Keyword& k, bool holds, const SchemaProduct& product) {
  const auto schemas = children(k);
  if (!schemas) return {};
  Products out;
  if (!holds) {  // not exactly one holds: none, or two
    std::vector<Literal> negated;
    for (const Literal schema : *schemas) negated.push_back(SchemaDocument::negated(schema));
    out = apply_all(negated, product);
    for (std::size_t i = 0; i < schemas->size(); ++i) {
      for (std::size_t j = i + 1; j < schemas->size(); ++j)
        add(out, apply_all({(*schemas)[i], (*schemas)[j]}, product));
    }
    return out;
  }
  for (std::size_t i = 0; i < schemas->size(); ++i) {
    Products one = apply((*schemas)[i], product);
    for (std::size_t j = 0; j < schemas->size() && error_.ok(); ++j) {
      if (i == j) continue;
      Products next;
      for (SchemaProduct& p : one) {
        if (excludes(p, (*schemas)[j])) {
          next.push_back(std::move(p));
        } else {
          add(next, apply(SchemaDocument::negated((*schemas)[j]), p));
        }
      }
      one = std::move(next);
    }
    add(out, std::move(one));
    if (out.size() > kMaxProducts) return fail(k.pointer, "too many alternatives");
  }
  return out;
}

SchemaExpander::Products SchemaExpander::negation(const Keyword& k, bool holds, const SchemaProduct& product) {
  const auto schema = child(k, k.value, "");
  if (!schema) return {};
  if (holds && excludes(product, *schema)) return {product};
  return apply(holds ? SchemaDocument::negated(*schema) : *schema, product);
}

SchemaExpander::Products SchemaExpander::condition(const Keyword& k, bool holds, const SchemaProduct& product) {
  const auto condition = child(k, k.value, "");
  if (!condition || k.name != "if")
    return condition && holds ? Products{product} : Products{};  // then and else are read with if
  if (holds && !k.schema.contains("then") && !k.schema.contains("else")) return {product};
  Products out;
  for (const bool met : {true, false}) {
    const char* name = met ? "then" : "else";
    const boost::json::value* value = k.schema.if_contains(name);
    if (value == nullptr && !holds) continue;
    std::vector<Literal> literals{met ? *condition : SchemaDocument::negated(*condition)};
    if (value != nullptr) {
      const Keyword other{k.owner, k.schema, name, *value, document_.pointer(k.owner) + pointer_step(name)};
      const auto branch = child(other, *value, "");
      if (!branch) return {};
      literals.push_back(holds ? *branch : SchemaDocument::negated(*branch));
    }
    add(out, apply_all(literals, product));
  }
  return out;
}

SchemaExpander::Products SchemaExpander::reference(const Keyword& k, bool holds, const SchemaProduct& product) {
  if (!k.value.is_string()) return fail(k.pointer, "expected a string, found " + describe_json(&k.value));
  const auto schema = document_.resolve({k.value.get_string().data(), k.value.get_string().size()}, k.pointer);
  if (!schema.ok()) {
    if (error_.ok()) error_ = schema.status();
    return {};
  }
  return apply(holds ? *schema : SchemaDocument::negated(*schema), product);
}

// The keyword says nothing of a value.
SchemaExpander::Products SchemaExpander::ignored(const Keyword&, bool holds, const SchemaProduct& product) {
  return holds ? Products{product} : Products{};
}

// The keyword says nothing, by JSON Schema's rule for unknown keywords.
SchemaExpander::Products SchemaExpander::unknown(const Keyword& k, bool holds, const SchemaProduct& product) {
  if (k.name != "id" || !document_.has_plain_ids()) remark(k.pointer);
  return holds ? Products{product} : Products{};
}

SchemaExpander::Products SchemaExpander::refused(const Keyword& k, bool, const SchemaProduct&) {
  return fail(k.pointer, "this keyword is not supported");
}

SchemaExpander::Handler SchemaExpander::handler_of(std::string_view name) {
  using E = SchemaExpander;
  static constexpr std::pair<std::string_view, Handler> kHandlers[] = {
      {"type", &E::type},
      {"enum", &E::values},
      {"const", &E::values},
      {"minimum", &E::number},
      {"maximum", &E::number},
      {"exclusiveMinimum", &E::number},
      {"exclusiveMaximum", &E::number},
      {"multipleOf", &E::number},
      {"minLength", &E::length},
      {"maxLength", &E::length},
      {"pattern", &E::pattern},
      {"format", &E::format},
      {"minItems", &E::item_count},
      {"maxItems", &E::item_count},
      {"prefixItems", &E::prefix_items},
      {"items", &E::items},
      {"contains", &E::contains},
      {"minContains", &E::contains},
      {"maxContains", &E::contains},
      {"uniqueItems", &E::unique_items},
      {"minProperties", &E::property_count},
      {"maxProperties", &E::property_count},
      {"required", &E::required},
      {"properties", &E::properties},
      {"patternProperties", &E::pattern_properties},
      {"additionalProperties", &E::additional_properties},
      {"propertyNames", &E::property_names},
      {"dependentRequired", &E::dependent_required},
      {"dependentSchemas", &E::dependent_schemas},
      {"dependencies", &E::dependencies},
      {"additionalItems", &E::items},
      {"unevaluatedProperties", &E::unevaluated_properties},
      {"unevaluatedItems", &E::refused},
      {"allOf", &E::all_of},
      {"anyOf", &E::any_of},
      {"oneOf", &E::one_of},
      {"not", &E::negation},
      {"if", &E::condition},
      {"then", &E::condition},
      {"else", &E::condition},
      {"$ref", &E::reference},
      {"$dynamicRef", &E::refused},
      {"$recursiveRef", &E::refused},
  };
  static constexpr std::string_view kIgnored[] = {"$schema",          "$id",           "$anchor",     "$dynamicAnchor",
                                                  "$recursiveAnchor", "$vocabulary",   "$comment",    "$defs",
                                                  "definitions",      "title",         "description", "default",
                                                  "examples",         "readOnly",      "writeOnly",   "contentEncoding",
                                                  "contentMediaType", "contentSchema", "deprecated",  "discriminator"};
  const auto found = std::ranges::find(kHandlers, name, &std::pair<std::string_view, Handler>::first);
  if (found != std::end(kHandlers)) return found->second;
  return std::ranges::find(kIgnored, name) != std::end(kIgnored) ? &E::ignored : &E::unknown;
}

}  // namespace sluice
