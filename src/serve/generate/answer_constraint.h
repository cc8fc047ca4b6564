// The binding of a request's answer: the fields that ask for it, and the constraint that the engine gets.
// Used by serve, serve/api/openai and serve/generate.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "grammar/grammar.h"
#include "serve/api/openai/openai_request.h"
#include "serve/api/request_fields.h"
#include "sluice/constraint.h"
#include "sluice/engine.h"
#include "text/tokenizer/tokenizer.h"

namespace sluice {

// response_format, structured_outputs, guided_json, guided_regex, guided_choice, guided_grammar: at most one of them.
// Returns the schema of response_format if it has one; it belongs to the request's object.
const boost::json::object* read_constraint(RequestFields& fields, GenerationOptions& out);

// Returns the maker of tries for a GrammarCache. A trie has the tokens of the tokenizer that the engine has, except
// special ones, and the engine's end tokens. It also has the special tokens that calls are written with (`markup`;
// null: none). All three arguments must outlive it.
std::function<std::shared_ptr<const TokenTrie>()> trie_maker(const Engine& engine, const Tokenizer& tokenizer,
                                                             const CallMarkup* markup = nullptr);

// Returns the constraint; null: the request asks for none. `behind`: the text of the answer after which the constraint
// begins; "": at once. `continued`: the beginning of the bound text, with which the answer goes on. Compiles, which may
// take long. Parts of a schema that bind nothing are added to options.ignored.
ApiResult<std::shared_ptr<const TokenConstraint>> make_constraint(GrammarCache& grammars, GenerationOptions& options,
                                                                  const std::string& behind,
                                                                  const std::string& continued = "");
// No text that meets the constraint of this field begins as the message that is to be continued.
ApiError prefix_error(const std::string& field);

}  // namespace sluice
