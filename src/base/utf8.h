// UTF-8: validation with offsets, decoding one character at a time, and lossy decoding.
//
// Unicode's table 3-7 defines valid text (no surrogates, no overlong forms, at most U+10FFFF). An invalid sequence is
// replaced as Unicode recommends and Rust, Python and browsers do: one U+FFFD for each maximal subpart, that is, for
// the longest prefix of a valid character found there, or for one byte. Thread safety: pure functions.
// Used by many folders, among them base, cli and files.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {

struct Utf8Char {
  enum class Kind {
    kValid,
    kInvalid,     // `length` bytes are to be replaced by one U+FFFD, whatever follows
    kIncomplete,  // the text ends inside a character that may still become valid
  };
  Kind kind;
  std::size_t length;   // bytes read, at least 1
  char32_t code_point;  // set if kind is kValid
};

// The character at the start of `text`, which must not be empty.
Utf8Char decode_utf8(std::string_view text);

// The length of the longest prefix that is valid UTF-8; text.size() if all of it is, else the offset of the first bad
// byte (the first byte of the bad sequence).
std::size_t valid_utf8_prefix(std::string_view text);

// The number of bytes at the end (0 to 3) that begin a character which more bytes could complete.
std::size_t incomplete_utf8_suffix(std::string_view text);

// Appends a code point (not a surrogate, at most U+10FFFF).
void append_utf8(char32_t code_point, std::string& out);

// Appends `text` with every invalid sequence, and an incomplete one at the end, replaced by U+FFFD.
void append_lossy_utf8(std::string_view text, std::string& out);

// Returns a copy with the same replacements, for names from files, flags and the environment, which may be any bytes.
std::string to_valid_utf8(std::string_view text);

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace sluice
