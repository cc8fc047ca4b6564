// CallMarkup: how a model writes calls of tools, as plain texts: what its answers are bound to (grammar/call_network.h)
// and its parser reads back.
//
//   open  call NAME name_end ARGUMENTS call_end  between  call NAME name_end ARGUMENTS call_end  ...  close
//
// ARGUMENTS is a JSON object, or with `parameter` a row of tagged ones, `parameters_between` them:
//   parameter KEY is_text TEXT parameter_end         a string, as it is
//   parameter KEY is_json JSON parameter_end         any other value
// Thread safety: const; the texts are literals.
// Used by grammar, grammar/schema, text/chat and text/chat/parsers.
#pragma once

#include <array>
#include <string_view>

namespace sluice {

struct CallMarkup {
  std::string_view begins;    // what in an answer only calls follow; mostly the beginning of the first call
  std::string_view at_start;  // so does this text where the answer begins with it, white space aside; "": nothing
  std::string_view open, call, name_end, call_end, between, close;
  std::string_view parameter = {}, is_text = {}, is_json = {}, parameter_end = {}, parameters_between = {};
  std::array<std::string_view, 4> ends_parameter = {};  // texts that no value of a tagged parameter may contain
  std::array<std::string_view, 2> tokens = {};          // where a vocabulary has these, each call is begun with one
};

// An answer's markup: how it calls, and where it reasons. No constraint looks into text that its parser takes for
// reasoning, and the other way round.
struct AnswerMarkup {
  const CallMarkup* calls = nullptr;  // null: the model calls nothing
  bool may_open_reasoning = false;    // the answer may begin with <think> by itself
  bool reads_reasoning = true;        // false: what follows a prompt that has opened reasoning is content all the same
};

}  // namespace sluice
