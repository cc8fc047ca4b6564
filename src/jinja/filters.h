// The filters of templates, {{ value | filter(arguments) }}: those of Jinja2 that chat templates use.
//
// tojson is Python's json.dumps with ensure_ascii off, as chat templates expect; safe changes nothing,
// because nothing is escaped. Thread safety: as the run.
#pragma once

#include <string_view>

#include "jinja/run.h"
#include "jinja/value.h"

namespace sluice::jinja {

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

}  // namespace sluice::jinja
