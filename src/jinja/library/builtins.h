// The names that a template finds: filters, tests, methods and attributes, and global functions.
// Used by jinja and jinja/library.
#pragma once

#include <string_view>

#include "jinja/run.h"
#include "jinja/value.h"

namespace sluice::jinja {

// The filters of templates, {{ value | filter(arguments) }}: those of Jinja2 that chat templates use.
//
// tojson is Python's json.dumps with ensure_ascii off, as chat templates expect; what safe does is in safe_text.h.
// Thread safety: as the run.

struct FilterEntry {
  std::string_view name;
  Value (*apply)(Run& run, const Value& input, const Arguments& arguments);
};

// nullptr for a filter that does not exist.
const FilterEntry* find_filter(std::string_view name);

// The parts of the list, by what they work on.
const FilterEntry* find_text_filter(std::string_view name);
const FilterEntry* find_number_filter(std::string_view name);
const FilterEntry* find_selection_filter(std::string_view name);
const FilterEntry* find_sequence_filter(std::string_view name);

// The key that sort, unique and the like compare items by: an attribute path like "function.name" or an index
// (undefined or None for the item itself), in lower case if texts are compared without case.
Value sort_key(Run& run, const Value& item, const Value& attribute, bool case_sensitive);

// The tests of templates, {{ value is test(arguments) }}: all of Jinja2's.
// Thread safety: as the run.

struct TestEntry {
  std::string_view name;
  bool (*holds)(Run& run, const Value& input, const Arguments& arguments);
};

// nullptr for a test that does not exist.
const TestEntry* find_test(std::string_view name);

// The names that values of Python's types have: methods of texts, lists and dicts, attributes of loops and namespaces.
//
// As in the sandbox that chat templates are written for, nothing can be changed through a method. Append, update and
// the like are undefined, and say so when they are called. Thread safety: as the run.

// The attribute `name` of a value, bound to it if it is a method; false if the type has none. The keys of a dict are
// not attributes.
bool find_attribute(Run& run, const Value& value, std::string_view name, Value& out);

struct Method {
  std::string_view name;
  Function::Native native;
};

// The method of texts; nullptr if there is none.
const Method* find_text_method(std::string_view name);

// The functions that every chat template may call: range, dict, namespace, raise_exception and strftime_now.
// Thread safety: as the run.

struct GlobalFunction {
  std::string_view name;
  Function::Native native;
};

// nullptr for any other name.
const GlobalFunction* find_global(std::string_view name);

// namespace.name = value. Fails if that is not a namespace, and for names that start with an underscore.
void set_attribute(Run& run, const Value& space, const std::string& name, Value value);

}  // namespace sluice::jinja
