// JSON: strict parsing with positions, and printing as Python does.
//
// Values are boost::json::value; include <boost/json/...> where you look inside them. Objects keep the order of their
// keys. Thread safety: pure functions.
// Used by many folders, among them cli, config and engine.
#pragma once

#include <boost/json/value.hpp>
#include <cstddef>
#include <string>
#include <string_view>

#include "sluice/status.h"

namespace sluice {

struct JsonLimits {
  std::size_t max_depth = 128;  // the depth of nested arrays and objects
  // Files that Python's json module writes: NaN, Infinity and -Infinity are numbers, a number beyond f64 is infinite,
  // and a lone surrogate in a string becomes U+FFFD.
  bool of_python = false;
};

// Parses one JSON text (RFC 8259). Refuses, with "<what>: line L, column C: ...": syntax errors, trailing text,
// duplicate keys, invalid UTF-8 and nesting beyond the limit. Unless the text is Python's, it also refuses lone
// surrogates and numbers beyond the range of f64. The column counts characters. Integers that fit i64 or u64 are kept
// exactly; every other number is the nearest f64.
Result<boost::json::value> parse_json(std::string_view text, std::string_view what, JsonLimits limits = {});

// The text that Python's json.dumps(value, ensure_ascii=False) gives: separators ", " and ": ", floats as repr prints
// them (1.0, 1e-06, 1e+16; NaN, Infinity). Chat encodings are trained on exactly this form.
std::string dump_json_python(const boost::json::value& value);

// Compact JSON without white space, for API answers. Numbers as above, but null for what JSON cannot express
// (NaN, infinities).
std::string dump_json(const boost::json::value& value);

// Appends `text` as a JSON string with its quotes; escapes only what must be escaped. Every string of an answer comes
// through here: bytes that are no UTF-8 (of a file's name, say) become U+FFFD.
void append_json_string(std::string& out, std::string_view text);
// The same of a piece of a string, without quotes; it may begin and end within a character.
void append_json_piece(std::string& out, std::string_view text);

// Appends a finite number as Python's repr: the shortest digits that read back to the same f64.
void append_json_number(std::string& out, double number);

// The JSON text for an error message, shortened if long; "nothing" for nullptr.
std::string describe_json(const boost::json::value* value);

}  // namespace sluice
