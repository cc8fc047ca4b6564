// The functions that every chat template may call: range, dict, namespace, raise_exception and strftime_now.
// Thread safety: as the run.
#pragma once

#include <string_view>

#include "jinja/run.h"
#include "jinja/value.h"

namespace sluice::jinja {

struct GlobalFunction {
  std::string_view name;
  Function::Native native;
};

// nullptr for any other name.
const GlobalFunction* find_global(std::string_view name);

// namespace.name = value. Fails if that is not a namespace, and for names that start with an underscore.
void set_attribute(Run& run, const Value& space, const std::string& name, Value value);

}  // namespace sluice::jinja
