// What values of Python's types have by name: methods of texts, lists and dicts, attributes of loops and namespaces.
//
// As in the sandbox that chat templates are written for, nothing can be changed through a method: append, update and
// the like are undefined, and say so when they are called. Thread safety: as the run.
#pragma once

#include <string_view>

#include "jinja/run.h"
#include "jinja/value.h"

namespace sluice::jinja {

// The attribute `name` of a value, bound to it if it is a method; false if the type has none. The keys of a dict are
// not attributes.
bool find_attribute(Run& run, const Value& value, std::string_view name, Value& out);

struct Method {
  std::string_view name;
  Function::Native native;
};

// The method of texts; nullptr if there is none.
const Method* find_text_method(std::string_view name);

}  // namespace sluice::jinja
