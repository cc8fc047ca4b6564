// Cuts a template into tokens: text between tags, and the words and signs in them.
//
// White space around tags is removed here, with the options that chat templates are written for. trim_blocks removes
// the first newline after a block or comment; lstrip_blocks removes spaces between the start of a line and a block or
// comment. The template's last newline is removed, and the marks {%- -%} {%+ +%} hold. Line ends become \n. Thread
// safety: a pure function.
// Used by jinja/library/number_filters.cc and token_stream.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/value.h"
#include "sluice/status.h"

namespace sluice::jinja {

struct Token {
  enum class Type : std::uint8_t {
    kData,           // text outside tags
    kVariableBegin,  // {{
    kVariableEnd,
    kBlockBegin,  // {%
    kBlockEnd,
    kName,
    kString,  // text: without quotes, escapes resolved
    kInteger,
    kFloat,
    kSign,  // text: the operator or bracket
    kEnd,   // the template's end
  };
  Type type = Type::kEnd;
  int line = 1;
  std::string text = {};
  Int integer = 0;
  double real = 0.0;
};

// The tokens, the last of them kEnd. Errors name the line: "line 3: ...".
Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace sluice::jinja
