// Parses a template into its tree: the statements of Jinja2 (if, for, set, macro, call, filter, with, print, raw), loop
// controls (break, continue) and {% generation %}; not include, import, extends, block and autoescape.
//
// The tree's depth is limited, so that walking it cannot exhaust the stack.
// Thread safety: a pure function.
// Used by expression_parser.cc, template.cc and text/chat/templates/chat_templates.cc.
#pragma once

#include <string_view>

#include "jinja/ast.h"
#include "sluice/status.h"

namespace sluice::jinja {

inline constexpr int kMaxTreeDepth = 200;  // for nested statements, and for an expression
inline constexpr std::size_t kMaxTemplateBytes = 1U << 20U;

// Errors name the line: "line 3: expected 'endif', found the end of the template".
Result<TemplateTree> parse_template(std::string_view source);

}  // namespace sluice::jinja
