// Safe texts: what the filter safe makes, markupsafe's Markup.
//
// Templates escape nothing by themselves, but a safe text escapes whatever is put into it: by +, %, join, replace and
// format. A part of it, or it in other letters, is safe, too; the operator ~ and the filters join and replace give
// plain texts. Marks of clients' bytes are kept (marks.h). Thread safety: as the run.
// Used by jinja and jinja/library.
#pragma once

#include "jinja/run.h"
#include "jinja/value.h"

namespace sluice::jinja {

// str(value) with & < > ' " written as entities; a safe text as it is.
Value escaped(Run& run, const Value& value);

// The arguments of %, and of format(), where they are put into a safe text.
Value escaped_operand(Run& run, const Value& operand);
Arguments escaped_arguments(Run& run, const Arguments& arguments);

// Returns the result of an operation on the safe text `self`: its texts are safe.
Value settled_safe(Run& run, Value result, const Value& self);

}  // namespace sluice::jinja
