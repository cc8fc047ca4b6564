// The tests of templates, {{ value is test(arguments) }}: all of Jinja2's.
// Thread safety: as the run.
#pragma once

#include <string_view>

#include "jinja/run.h"
#include "jinja/value.h"

namespace sluice::jinja {

struct TestEntry {
  std::string_view name;
  bool (*holds)(Run& run, const Value& input, const Arguments& arguments);
};

// nullptr for a test that does not exist.
const TestEntry* find_test(std::string_view name);

}  // namespace sluice::jinja
