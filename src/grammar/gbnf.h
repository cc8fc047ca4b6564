// Grammars in EBNF as llama.cpp and XGrammar write it (GBNF):
//
//   root   ::= answer ("," ws answer)*      # the rule `root` is the text; a rule ends with its line, except in ( )
//   answer ::= "yes" | "no" | [0-9]{1,3} | [^"\n]+ | .
//   ws     ::= [ \t]?
//
// Escapes in "..." and [...]: \n \r \t \\ \" \[ \] \- \^ \xHH \uHHHH \UHHHHHHHH. `.` is any character. Names: letters,
// digits, - and _. Errors name the line. A rule must not begin with itself (network.h).
// Thread safety: pure functions.
// Used by grammar.cc.
#pragma once

#include <string_view>

#include "grammar/automata/network.h"
#include "sluice/status.h"

namespace sluice {

Result<Network> compile_gbnf(std::string_view text);

}  // namespace sluice
