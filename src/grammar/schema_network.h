// SchemaNetwork: writes the products of a JSON Schema (schema_expander.h) as rules of a network, one for each
// conjunction of schemas that a value must meet. Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "grammar/json_schema.h"
#include "grammar/json_text.h"
#include "grammar/network.h"
#include "grammar/schema_expander.h"

namespace sluice {

class SchemaNetwork {
 public:
  SchemaNetwork(boost::json::value schema, JsonOptions options);

  Result<Network> compile();

 private:
  // Keys that a schema does not name and that match the same patterns.
  struct KeyClass {
    DfaPtr names;  // null: every text
    std::vector<const Dfa*> matched;
    Conjunction value;
  };

  std::int32_t rule_of(const Conjunction& conjunction);
  // Appends a value that meets the conjunction.
  std::int32_t value(std::int32_t from, const Conjunction& conjunction);
  Status build(const Conjunction& conjunction, std::int32_t rule);
  Status add_product(std::int32_t rule, const SchemaProduct& product);
  Status add_array(std::int32_t rule, const ArrayProduct& array);
  Status add_object(std::int32_t rule, const ObjectProduct& object);
  Result<std::vector<KeyClass>> key_classes(const ObjectProduct& object);
  Result<KeyClass> constrained(KeyClass all, const ObjectProduct& object) const;
  static bool allows_name(const ObjectProduct& object, const std::string& name);
  static Conjunction value_of(const ObjectProduct& object, const ObjectProduct::Property& property);

  SchemaDocument document_;
  SchemaExpander expander_;
  NetworkBuilder builder_;
  JsonText text_;
  std::map<Conjunction, std::int32_t> rules_;
  std::deque<std::pair<Conjunction, std::int32_t>> open_;
};

}  // namespace sluice
