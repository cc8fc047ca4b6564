// Values as text, in Python's ways: str(), repr(), json.dumps() and the % operator.
// Where Python raises, or where the text becomes too long, the run fails. Thread safety: as the run.
// Used by jinja and jinja/library.
#pragma once

#include <string>
#include <string_view>

#include "jinja/run.h"
#include "jinja/value.h"

namespace sluice::jinja {

// str(value), which is what {{ value }} writes; an undefined value is nothing.
void append_str(Run& run, const Value& value, std::string& out);
std::string to_str(Run& run, const Value& value);
// repr(value), as values within lists and dicts are written.
void append_repr(Run& run, const Value& value, std::string& out);
std::string to_text(Int number);

struct JsonForm {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool has_indent = false;  // writes one item a line
  std::string indent = {};
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

// json.dumps(value).
void append_json(Run& run, const Value& value, const JsonForm& form, std::string& out);

// format % arguments: %s %r %d %i %x %f %e %g and %%, with flags, width and precision; %(name)s with a dict.
Value format_percent(Run& run, const Value& format, const Value& arguments);
// "{} {0} {name}".format(...), without format specifications.
Value format_braces(Run& run, std::string_view format, const Arguments& arguments);

}  // namespace sluice::jinja
