// The common part of the calls that generate: from a parsed chat request, or any body, to a GenerationJob.
// Used by answer_planners.cc, serve/api/agents/agent_endpoints.cc, serve/api/openai/score_endpoint.cc and
// serve/api/openai/token_endpoints.cc.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api/api_context.h"
#include "serve/api/openai/openai_request.h"
#include "serve/api/openai/openai_response.h"
#include "serve/generate/answer_job.h"
#include "serve/http/http.h"

namespace sluice {

struct RenderedChat {
  ChatPrompt prompt;
  EncodedText encoded;
};

// The prompt of a chat request; checks the model, too.
ApiResult<RenderedChat> render_chat(const ApiContext& context, const ChatCompletionRequest& request);

using MakeWriter = std::function<std::unique_ptr<AnswerWriter>(AnswerForm form, bool stream)>;

// Returns the form of an answer to `prompts` prompts; the indices of their choices go prompt by prompt.
AnswerForm make_form(const ApiContext& context, std::string_view id_prefix, const GenerationOptions& options,
                     std::size_t prompts);
// One prompt of a completion, checked.
ApiResult<std::vector<std::int32_t>> prompt_ids(const ApiContext& context, const CompletionRequest& request,
                                                std::size_t index);
// A plan with its prompts: their seeds, the writer and the options.
void finish_plan(GenerationPlan& plan, AnswerForm form, const MakeWriter& make_writer, GenerationOptions& options);

// Everything between a chat request and the engine, whichever API it came by.
ApiResult<GenerationPlan> plan_chat(ApiContext& context, ChatCompletionRequest request, std::string_view id_prefix,
                                    const MakeWriter& make_writer);

// Plans on a worker, within the limits of the server, and starts the job or answers the error.
using Planner = std::function<ApiResult<GenerationPlan>(ApiContext& context, std::string_view body)>;
void generate(ApiContext& context, const HttpExchangePtr& exchange, Planner planner);

constexpr std::size_t kLargeBody = 256 << 10;  // takes tens of milliseconds to read

// The same for a call that answers with a JSON text at once.
using JsonAnswer = std::function<ApiResult<std::string>(ApiContext& context, const HttpExchangePtr& exchange)>;
void answer_on_worker(ApiContext& context, const HttpExchangePtr& exchange, JsonAnswer answer);

// Counts the unknown fields of a request, and names them in its answer's header.
void name_ignored(ApiContext& context, const HttpExchangePtr& exchange, const std::vector<std::string>& fields);

}  // namespace sluice
