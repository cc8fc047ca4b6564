// Facts that Python's texts know about characters: white space, case, and places counted in code points. Texts are
// valid UTF-8. Thread safety: pure functions.
// Used by jinja and jinja/library.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "jinja/value.h"

namespace sluice::jinja {

bool is_space(char32_t c);
bool is_letter_or_digit(char32_t c);
// Returns whether repr() shows it as it is.
bool is_printable(char32_t c);

// The text without white space at its start and at its end.
std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);
// These strip the code points in `characters`.
std::string_view strip_left(std::string_view text, std::string_view characters);
std::string_view strip_right(std::string_view text, std::string_view characters);

// The bytes of the code point that starts at `offset`.
std::size_t code_point_bytes(std::string_view text, std::size_t offset);
// The offset in bytes of the code point `index`, which is at most the length.
std::size_t offset_of(const Text& text, std::size_t index);
// The code points from `begin` up to `end`.
std::string_view slice(const Text& text, std::size_t begin, std::size_t end);
std::string reversed(std::string_view text);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
// The first character in upper case, the others in lower case.
std::string capitalize(std::string_view text);
// Every letter that follows no letter in upper case, the others in lower case: str.title.
std::string title(std::string_view text);
// Has letters, and all of them are of that case.
bool is_upper(std::string_view text);
bool is_lower(std::string_view text);

}  // namespace sluice::jinja
