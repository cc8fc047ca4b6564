// The text in the form in which a pre-tokenizer's patterns should see it.
//
// Patterns were written for a library with newer Unicode tables than PCRE2's. Where the two disagree about a
// character's class (a letter that did not exist yet, U+180E as a space), the patterns see another character instead,
// of a class on which both agree and of the same length in UTF-8; the words are still cut from the text itself. Thread
// safety: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

// `text` (valid UTF-8) itself, or, when something has to be replaced, a view of `buffer`, which then holds a text of
// the same length with the same character boundaries.
std::string_view regex_shape(std::string_view text, std::string& buffer);

// The same for one character.
char32_t regex_shape(char32_t character);

}  // namespace sluice
