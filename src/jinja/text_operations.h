// What methods and filters of texts share.
// Their results have marks (marks.h), except for padding. A result that is too long fails the run. Thread safety: as
// the run.
#pragma once

#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "jinja/run.h"
#include "jinja/value.h"

namespace sluice::jinja {

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
