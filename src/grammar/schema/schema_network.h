// SchemaNetwork: writes the products of a JSON Schema (schema_expander.h) as rules of a network, one for each
// conjunction of schemas that a value must meet. Thread safety: one thread at a time.
// Used by grammar/call_network.cc and schema_array_network.cc.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "grammar/automata/network.h"
#include "grammar/call_markup.h"
#include "grammar/schema/json_schema.h"
#include "grammar/schema/json_text.h"
#include "grammar/schema/schema_expander.h"

namespace sluice {

class SchemaNetwork {
 public:
  // Appends to `builder` by way of `text`, which must outlive it. `where` begins the remarks.
  SchemaNetwork(boost::json::value schema, NetworkBuilder& builder, JsonText& text, std::string where = "");

  // A rule for the values of the schema.
  Result<std::int32_t> add();
  // A rule for those of its values that are objects, as JSON or, if `markup` has tagged parameters, as these.
  Result<std::int32_t> add_arguments(const CallMarkup& markup);

 private:
  // Keys that a schema does not name and that match the same patterns.
  struct KeyClass {
    const std::string* name = nullptr;  // this one alone, of a schema; or
    DfaPtr names = {};                  // these; null: every text
    std::vector<const Dfa*> matched;
    Conjunction value;
  };

  std::int32_t rule_of(const Conjunction& conjunction);
  // Appends a value that meets the conjunction.
  std::int32_t value(std::int32_t from, const Conjunction& conjunction);
  Status build(const Conjunction& conjunction, std::int32_t rule);
  Status add_product(std::int32_t rule, const SchemaProduct& product);
  Status add_array(std::int32_t rule, const ArrayProduct& array);
  // Adds the arrays in which each of a few values occurs at most once.
  Status add_unique(std::int32_t rule, const ArrayProduct& array);
  struct UniqueValues;
  Result<UniqueValues> unique_values(const ArrayProduct& array);
  Status add_object(std::int32_t rule, const ObjectProduct& object, const CallMarkup* tags = nullptr);
  Result<std::int32_t> add_parameter(std::int32_t from, const CallMarkup& tags, const KeyClass& key);
  Status build_all();
  Result<std::vector<KeyClass>> key_classes(const ObjectProduct& object);
  Result<KeyClass> constrained(KeyClass all, const ObjectProduct& object) const;
  static bool allows_name(const ObjectProduct& object, const std::string& name);
  static Conjunction value_of(const ObjectProduct& object, const ObjectProduct::Property& property);

  SchemaDocument document_;
  SchemaExpander expander_;
  NetworkBuilder& builder_;
  JsonText& text_;
  const std::string where_;
  std::map<Conjunction, std::int32_t> rules_;
  std::deque<std::pair<Conjunction, std::int32_t>> open_;
};

}  // namespace sluice
