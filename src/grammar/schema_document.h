// SchemaDocument: the schemas of a JSON Schema document by number, with the JSON pointers that errors name, and
// references resolved. Thread safety: one thread at a time.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sluice/status.h"

namespace sluice {

// A schema that must hold (an even number), or must not (odd).
using Literal = std::int32_t;
// Schemas that must all hold, or not, ascending, each once. Of one and the same value.
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

  // "#", "#/a/b": the schema there. `from`: where the reference stands, for errors.
  Result<Literal> resolve(std::string_view reference, const std::string& from);
  // A schema made here, for one at `pointer`.
  Literal keep(boost::json::value schema, std::string pointer);

 private:
  const boost::json::value root_;
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
