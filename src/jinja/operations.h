// Python's operations on values: comparison, arithmetic, membership, iteration, attributes and items.
//
// Where Python raises, the run fails with a message in Python's words, and the result is meaningless.
// Thread safety: as the run.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "jinja/ast.h"
#include "jinja/run.h"
#include "jinja/value.h"

namespace sluice::jinja {

bool equal(Run& run, const Value& a, const Value& b);
// Python's a < b.
bool less(Run& run, const Value& a, const Value& b);
// Python's item in container.
bool contains(Run& run, const Value& container, const Value& item);
bool compare(Run& run, Operator operation, const Value& a, const Value& b);

// + - * / // % **
Value arithmetic(Run& run, Operator operation, const Value& a, const Value& b);
Value negate(Run& run, const Value& value);

// The items that iterating over a value gives; a generator is used up. Null when the run failed.
std::shared_ptr<const Sequence> iterate(Run& run, const Value& value);

// value[key] and value.name as Jinja looks them up: item or attribute first, then the other, else undefined.
Value item(Run& run, const Value& value, const Value& key);
Value attribute(Run& run, const Value& value, std::string_view name);
// value[from:to:step]; each part is an integer or none.
Value slice(Run& run, const Value& value, const Value& from, const Value& to, const Value& step);

// The value of a key, which may be anything that Python can hash; nullptr if there is none.
const Value* find_key(Run& run, const Dict& dict, const Value& key);
// Sets a key; an existing one keeps its place.
void set_key(Run& run, Dict::Entries& entries, Value key, Value value);
// A list, a dict and the like cannot be a key.
bool is_hashable(Run& run, const Value& value);

}  // namespace sluice::jinja
