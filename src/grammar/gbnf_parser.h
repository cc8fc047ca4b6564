// The syntax of gbnf.h, read into expressions. Thread safety: pure functions.
// Used by gbnf.cc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "grammar/automata/regex.h"
#include "sluice/status.h"

namespace sluice {

struct GbnfRule {
  std::string name;
  Expression body;
  int line = 0;  // 0: not defined
};

struct Gbnf {
  std::vector<GbnfRule> rules;  // by Expression::rule
  int root = 0;
};

Result<Gbnf> parse_gbnf(std::string_view text);

}  // namespace sluice
