// JSON Schema (2020-12) as a grammar: the JSON texts whose value is valid, written by the rules of json_text.h.
//
//   keys         those that `properties` names first, in its order (with allOf and references: in the order in which
//   they
//                are met), then any others; a key that the schema names is written once
//   integers     without fraction or exponent; numbers with a constraint without an exponent
//   enum, const  numbers in their shortest decimal form
// A keyword that cannot be enforced is refused with its JSON pointer (docs/structured_outputs.md). Thread safety: pure
// functions.
// Used by grammar/grammar.cc and schema_network.h.
#pragma once

#include <boost/json/value.hpp>

#include "grammar/automata/network.h"
#include "sluice/status.h"

namespace sluice {

struct JsonOptions {
  bool compact = false;  // no white space between the parts
};

Result<Network> compile_json_schema(const boost::json::value& schema, JsonOptions options = {});

}  // namespace sluice
