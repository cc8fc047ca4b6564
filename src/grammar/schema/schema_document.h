// SchemaDocument: the schemas of a JSON Schema document by number, with the JSON pointers that errors name, and
// references resolved: pointers, anchors and identifiers within the document. Thread safety: one thread at a time.
// Used by schema_expander.h and schema_product.h.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sluice/status.h"

namespace sluice {

// A schema that must hold (an even number), or must not (odd).
using Literal = std::int32_t;
// Schemas that must all hold, or not, for one and the same value; ascending, each once.
using Conjunction = std::vector<Literal>;

class SchemaDocument {
 public:
  explicit SchemaDocument(boost::json::value root);

  Literal root() { return literal(root_, ""); }
  // The schema at a place of the document (or kept by keep()), whose pointer is `pointer`.
  Literal literal(const boost::json::value& schema, std::string pointer);
  const boost::json::value& schema(Literal literal) const { return *schemas_[static_cast<std::size_t>(literal / 2)]; }
  const std::string& pointer(Literal literal) const { return pointers_[static_cast<std::size_t>(literal / 2)]; }
  static bool holds(Literal literal) { return literal % 2 == 0; }
  static Literal negated(Literal literal) { return literal ^ 1; }

  // The schema that a reference leads to: "#", "#/a/b", "#anchor", "identifier#...". `from`: where the reference
  // stands.
  Result<Literal> resolve(std::string_view reference, const std::string& from);
  // A schema made here, for one at `pointer`.
  Literal keep(boost::json::value schema, std::string pointer);

  // `$schema` names draft 7 or an older one: the keywords next to a `$ref` say nothing.
  bool is_old() const { return is_old_; }
  // `$schema` names draft 4 or 3: identifiers stand in `id`.
  bool has_plain_ids() const { return has_plain_ids_; }

 private:
  // A schema with an identifier, or the root: what references in it start from.
  struct Resource {
    std::string url;
    std::map<std::string, std::string> anchors;  // the pointers of its schemas that have one
  };

  void find_names(const boost::json::value& value, const std::string& pointer, std::string resource);

  const boost::json::value root_;
  bool is_old_ = false, has_plain_ids_ = false;
  std::map<std::string, Resource> resources_;  // by pointer
  std::map<std::string, std::string> by_url_;  // pointers of resources
  std::vector<const boost::json::value*> schemas_;
  std::vector<std::string> pointers_;
  std::unordered_map<const boost::json::value*, Literal> known_;  // only looked up
  std::deque<boost::json::value> kept_;
};

// A step of a JSON pointer: "/" and the key, with ~ and / escaped.
std::string pointer_step(std::string_view key);
std::string pointer_step(std::size_t index);

// conjunction + literal.
Conjunction with(Conjunction conjunction, Literal literal);
Conjunction with(Conjunction conjunction, const Conjunction& more);

}  // namespace sluice
