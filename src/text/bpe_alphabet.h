// The byte-level alphabet of GPT-2: each byte is written as one printable character (a space as U+0120 "Ġ"), so that a
// vocabulary of arbitrary byte strings can be kept as JSON text.
// Thread safety: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

// Appends the bytes that `text` stands for and returns true; false, with `out` unchanged, if some character of it is
// not in the alphabet.
bool append_alphabet_bytes(std::string_view text, std::string& out);

// The character of one byte, as UTF-8.
std::string alphabet_character(unsigned char byte);

}  // namespace sluice
