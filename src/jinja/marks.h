// Marks: the origin of the bytes of texts, through every operation of a template.
//
// A template's own texts are its constants and the special tokens; what a request holds is its client's. Writing,
// joining, cutting and replacing keep the marks of each byte. The result of any other operation on a client's text is
// the client's as a whole: a marker of the template in it is then not a special token, but never the reverse. Thread
// safety: as the run.
// Used by jinja and jinja/library.
#pragma once

#include "base/marked_text.h"
#include "jinja/run.h"
#include "jinja/value.h"

namespace sluice::jinja {

// str(value), with its marks.
void append_marked(Run& run, const Value& value, MarkedText& out);
// The same as a text value; a text is returned as it is.
Value marked_text(Run& run, const Value& value);

// Marks what an operation made of these values: a text without marks is the client's if one of the values is, or holds,
// a client's text.
Value settled(Run& run, Value result, const Value& input, const Arguments& arguments);

}  // namespace sluice::jinja
