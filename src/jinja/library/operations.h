// Python's operations on values: comparison, arithmetic, membership, iteration, attributes and items.
//
// Where Python raises, the run fails with a message in Python's words, and the result is meaningless.
// Thread safety: as the run.
// Used by jinja and jinja/library.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/utf8.h"
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

// Operations that methods and filters of texts share. Their results have marks (marks.h), except for padding. A result
// that is too long fails the run. Thread safety: as the run.

// Without white space, or without the characters of `characters` if it is a text, at either end.
Value strip_text(Run& run, const Value& text, const Value& characters, bool left, bool right);

// Python's split at a separator, and at white space; `most` below 0: everywhere.
Value split_text(Run& run, const Value& text, std::string_view separator, Int most, bool from_right);
Value split_words(Run& run, const Value& text, Int most, bool from_right);
Value split_lines(Run& run, const Value& text, bool keep_ends);

// The first `count` places; all of them if it is below 0.
Value replace_text(Run& run, const Value& text, std::string_view old_part, const Value& new_part, Int count);

// str() of each, with the separator between them.
Value join_texts(Run& run, const std::vector<Value>& items, const Value& separator);

// Filled up to `width` code points with `fill`, one character, before or after it, or both for the middle.
Value pad_text(Run& run, const Value& text, Int width, std::string_view fill, bool before, bool after);

}  // namespace sluice::jinja
