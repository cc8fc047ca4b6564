// Calls of tools as a grammar: answers that call, by a model's markup, functions that are on offer.
//
//   forced     up to two line breaks, then calls, to the end of the answer
//   schema     the same, or else JSON of the schema
//   otherwise  any bytes; where the markup of a call begins, calls, to the end of the answer
// Each call names one of the tools and has arguments that are an object: of the schema of a strict tool, any of
// others. Strings in tagged parameters are raw texts. Thread safety: pure functions.
// Used by grammar.h.
#pragma once

#include <string>
#include <vector>

#include "grammar/automata/network.h"
#include "grammar/call_markup.h"
#include "sluice/status.h"

namespace sluice {

inline constexpr std::size_t kMaxTools = 512;

struct CallGrammar {
  struct Tool {
    std::string name;
    std::string schema;  // JSON; "": any object
    std::string where;   // the schema's, for errors

    bool operator==(const Tool&) const = default;
  };
  const CallMarkup* markup = nullptr;
  std::vector<Tool> tools = {};  // at least one tool
  bool forced = false;
  bool parallel = true;         // more than one call
  bool may_think = false;       // <think>...</think> may stand before it all
  bool may_go_on = false;       // line breaks may follow the calls: who bans the end token needs another one
  std::string schema = {};      // binds an answer that does not call; "": none
  bool compact_schema = false;  // its JSON has no white space
  std::string where = {};       // the schema's, for errors

  bool operator==(const CallGrammar&) const = default;
};

// kInvalidArgument: a schema that cannot be enforced, a name that the markup cannot hold; kResourceExhausted.
Result<Network> compile_calls(const CallGrammar& grammar);

}  // namespace sluice
