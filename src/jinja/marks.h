// Where the bytes of texts are from, through every operation of a template.
//
// A template's own texts are its constants and the special tokens; what a request holds is its client's. Texts that are
// written, joined, cut and replaced in carry their marks along byte by byte. Whatever else an operation makes of a
// client's text is the client's as a whole: a template's own marker within it is then no special token, never the
// reverse. Thread safety: as the run.
#pragma once

#include "base/marked_text.h"
#include "jinja/run.h"
#include "jinja/value.h"

namespace sluice::jinja {

// str(value), with its marks.
void append_marked(Run& run, const Value& value, MarkedText& out);
// The same as a text: the value itself if it is one.
Value marked_text(Run& run, const Value& value);

// What an operation made of these values: texts that do not tell where they are from are the client's if one of the
// values is or holds a text of a client's.
Value settled(Run& run, Value result, const Value& input, const Arguments& arguments);

}  // namespace sluice::jinja
