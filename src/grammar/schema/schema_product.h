// SchemaProduct: one way for a value to meet a conjunction of schemas, sorted by the types of JSON: which types it may
// have, and for each type what must hold. The rules for one type say nothing of the others. Thread safety: plain
// values.
// Used by schema_expander.h.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "grammar/automata/dfa.h"
#include "grammar/schema/schema_document.h"

namespace sluice {

enum ValueTypes : unsigned {
  kNullValue = 1,
  kFalseValue = 2,
  kTrueValue = 4,
  kNumberValue = 8,
  kStringValue = 16,
  kArrayValue = 32,
  kObjectValue = 64,
  kEveryValue = 127,
};

using DfaPtr = std::shared_ptr<const Dfa>;  // null: no constraint
inline constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

struct ArrayProduct {
  struct Contained {  // `least` to `most` of the items from `from` on meet the schema
    std::int64_t from = 0, least = 1, most = kNoLimit;
    Conjunction item;
  };
  std::map<std::int64_t, Conjunction> at;                   // schemas of one item
  std::vector<std::pair<std::int64_t, Conjunction>> items;  // schemas of all items from an index on
  std::vector<Contained> contained;
  std::int64_t least = 0, most = kNoLimit;
  std::string unique;  // the pointer of uniqueItems: true
};

struct ObjectProduct {
  struct Property {
    std::string name;
    Conjunction value;
  };
  struct Pattern {
    DfaPtr names;
    Conjunction value;
  };
  struct Additional {  // schema of names neither in `names` nor matched by `patterns`
    std::set<std::string> names;
    std::vector<DfaPtr> patterns;
    Conjunction value;
  };
  std::vector<Property> properties;  // in the order in which they are written
  std::set<std::string> required, forbidden;
  std::vector<Pattern> patterns;
  std::vector<Additional> additional;
  std::vector<DfaPtr> names;  // automata that every key must match
  std::int64_t least = 0, most = kNoLimit;
  std::string least_pointer;  // the pointer of minProperties
};

struct SchemaProduct {
  unsigned types = kEveryValue;
  DfaPtr number;  // over decimal text
  DfaPtr string;  // over the characters
  ArrayProduct array;
  ObjectProduct object;
};

}  // namespace sluice
