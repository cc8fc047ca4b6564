// The keywords of SchemaExpander for arrays.
#include <algorithm>
#include <boost/json/array.hpp>
#include <utility>

#include "files/json.h"
#include "grammar/schema/schema_expander.h"

namespace sluice {
namespace {

SchemaProduct of_arrays(SchemaProduct product) {
  product.types &= kArrayValue;
  return product;
}

bool allows_arrays(const SchemaProduct& product) {
  return (product.types & kArrayValue) != 0;
}

void require_item(ArrayProduct& array, std::int64_t place, Literal item) {
  array.least = std::max(array.least, place + 1);
  array.at[place] = with(std::move(array.at[place]), item);
}

}  // namespace

SchemaExpander::Products SchemaExpander::item_count(const Keyword& k, bool holds, const SchemaProduct& product) {
  const auto count = count_of(k);
  if (!count) return {};
  SchemaProduct out = holds ? product : of_arrays(product);
  if ((k.name == "minItems") == holds) {
    out.array.least = std::max(out.array.least, holds ? *count : *count + 1);
  } else {
    out.array.most = std::min(out.array.most, holds ? *count : *count - 1);
  }
  return {out};
}

SchemaExpander::Products SchemaExpander::prefix_items(const Keyword& k, bool holds, const SchemaProduct& product) {
  const auto schemas = children(k);
  if (!schemas) return {};
  Products out;
  SchemaProduct all = product;
  for (std::size_t i = 0; i < schemas->size(); ++i) {
    const auto place = static_cast<std::int64_t>(i);
    all.array.at[place] = with(std::move(all.array.at[place]), (*schemas)[i]);
    SchemaProduct one = of_arrays(product);
    require_item(one.array, place, SchemaDocument::negated((*schemas)[i]));
    out.push_back(std::move(one));
  }
  return holds ? Products{all} : out;
}

// With `items` an array of schemas, as drafts before 2020-12 have it, it is what prefixItems is now, and
// additionalItems is what items is.
SchemaExpander::Products SchemaExpander::items(const Keyword& k, bool holds, const SchemaProduct& product) {
  const boost::json::value* prefix = k.schema.if_contains("prefixItems");
  const boost::json::value* const items = k.schema.if_contains("items");
  const bool is_old = prefix == nullptr && items != nullptr && items->is_array();
  if (k.name == "additionalItems" && !is_old) return holds ? Products{product} : Products{};
  if (k.name == "items" && is_old) {
    if (!k.value.get_array().empty()) return prefix_items(k, holds, product);
    return holds ? Products{product} : Products{};
  }
  if (is_old) prefix = items;
  const auto schema = child(k, k.value, "");
  if (!schema) return {};
  std::int64_t from = 0;
  if (prefix != nullptr && prefix->is_array()) from = static_cast<std::int64_t>(prefix->get_array().size());
  SchemaProduct out = holds ? product : of_arrays(product);
  if (holds) {
    out.array.items.emplace_back(from, Conjunction{*schema});
  } else {
    out.array.contained.push_back({.from = from, .item = {SchemaDocument::negated(*schema)}});
  }
  return {out};
}

SchemaExpander::Products SchemaExpander::contains(const Keyword& k, bool holds, const SchemaProduct& product) {
  if (k.name != "contains") {  // minContains and maxContains are read with contains
    if (!count_of(k)) return {};
    return holds ? Products{product} : Products{};
  }
  const auto schema = child(k, k.value, "");
  if (!schema) return {};
  std::int64_t least = 1, most = kNoLimit;
  for (const auto& [name, bound] : {std::pair{"minContains", &least}, std::pair{"maxContains", &most}}) {
    const boost::json::value* value = k.schema.if_contains(name);
    if (value == nullptr) continue;
    const auto count = count_of({k.owner, k.schema, name, *value, document_.pointer(k.owner) + pointer_step(name)});
    if (!count) return {};
    *bound = *count;
  }
  if (holds) {
    SchemaProduct out = product;
    out.array.contained.push_back({.least = least, .most = most, .item = {*schema}});
    return {out};
  }
  Products out;
  if (least > 0) {
    out.push_back(of_arrays(product));
    out.back().array.contained.push_back({.least = 0, .most = least - 1, .item = {*schema}});
  }
  if (most != kNoLimit) {
    out.push_back(of_arrays(product));
    out.back().array.contained.push_back({.least = most + 1, .item = {*schema}});
  }
  return out;
}

SchemaExpander::Products SchemaExpander::unique_items(const Keyword& k, bool holds, const SchemaProduct& product) {
  if (!k.value.is_bool()) return fail(k.pointer, "expected true or false, found " + describe_json(&k.value));
  if (!k.value.get_bool()) return holds ? Products{product} : Products{};
  if (!holds) return allows_arrays(product) ? fail(k.pointer, "cannot be negated") : Products{};
  SchemaProduct out = product;
  out.array.unique = k.pointer;
  return {out};
}

}  // namespace sluice
