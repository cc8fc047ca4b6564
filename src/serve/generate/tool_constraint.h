// The binding of an answer by its request's tools: which functions a call may name, with which arguments.
// Used by answer_planners.cc, serve/api/openai/chat_completion_request.cc and serve/server.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "grammar/grammar.h"
#include "serve/api/openai/openai_request.h"
#include "serve/api/request_fields.h"
#include "sluice/constraint.h"
#include "text/chat/chat.h"
#include "text/tokenizer/tokenizer.h"

namespace sluice {

// tools, tool_choice and parallel_tool_calls. Tools are on offer unless tool_choice is "none".
void read_tools(RequestFields& fields, ChatCompletionRequest& out);

// Returns the markup of calls in the model's answers; null: it has no encoding, or calls nothing.
const CallMarkup* call_markup(const ChatEncoding* chat);

// Returns whether an answer may call. If not, text that looks like a call is content.
bool may_call(const ChatCompletionRequest& request);
// The tokens with which a model begins a call, where it may not though it knows of tools: "none" was chosen, or the
// conversation has calls.
std::vector<std::int32_t> banned_call_tokens(const Tokenizer& tokenizer, const ChatEncoding& chat,
                                             const ChatCompletionRequest& request);

// Null: the request has no tools, or nothing that could be enforced. A schema of the answer (options.constraint) binds
// an answer that does not call. `reasoning_open`: of the prompt. `continued`: the text that the answer goes on with.
// Compiles, which may take milliseconds. An error: what cannot be enforced, though the request says `strict`. Schemas
// of other tools that cannot be enforced are named in `ignored`, and what of a schema binds nothing.
ApiResult<std::shared_ptr<const TokenConstraint>> make_tool_constraint(GrammarCache& grammars, const ChatEncoding& chat,
                                                                       const ChatCompletionRequest& request,
                                                                       bool reasoning_open,
                                                                       const std::string& continued,
                                                                       std::vector<std::string>& ignored);

// The constraint of an answer whose reasoning has a budget, over `inner`, which may be null; else `inner`.
std::shared_ptr<const TokenConstraint> bound_reasoning(GrammarCache& grammars, const ChatEncoding& chat,
                                                       const GenerationOptions& options, bool reasoning_open,
                                                       std::shared_ptr<const TokenConstraint> inner);

}  // namespace sluice
