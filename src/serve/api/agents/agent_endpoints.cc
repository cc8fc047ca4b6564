// /v1/responses, /v1/messages and the calls that count their prompts: chat by other names.
// Used by messages_answer.cc, responses_answer.cc and serve/http/http_answer.cc.
#include <fmt/format.h>

#include <utility>

#include "serve/api/agents/agent_answer.h"
#include "serve/api/agents/agent_request.h"
#include "serve/api/endpoints.h"
#include "serve/generate/answer_plan.h"

namespace sluice {
namespace {

// Makes a plan of a client's body that was read in chat's terms.
ApiResult<GenerationPlan> plan_agent(ApiContext& context, ApiResult<AgentRequest> read, std::string_view id_prefix,
                                     const std::function<MakeWriter(AgentRequest&)>& writer_for) {
  if (auto* error = std::get_if<ApiError>(&read)) return std::move(*error);
  auto& request = std::get<AgentRequest>(read);
  auto chat = as_chat_request(request, context.rules);
  if (auto* error = std::get_if<ApiError>(&chat)) return std::move(*error);
  auto plan = plan_chat(context, std::move(std::get<ChatCompletionRequest>(chat)), id_prefix, writer_for(request));
  if (auto* error = std::get_if<ApiError>(&plan)) return by_client_names(std::move(*error), request);
  for (std::string& name : std::get<GenerationPlan>(plan).options.ignored) {
    const bool is_of_chat = name.starts_with("response_format.") || name.find("].function.") != std::string::npos;
    if (is_of_chat) name = by_client_names({200, name, "", ""}, request).message;
  }
  return plan;
}

ApiResult<GenerationPlan> plan_responses(ApiContext& context, std::string_view body) {
  return plan_agent(context, read_responses_request(body, context.rules), "resp_", [](AgentRequest& request) {
    return MakeWriter([echo = std::move(request.echo), tools = std::move(request.client_tools),
                       seals = request.seals_reasoning](AnswerForm form, bool stream) {
      return make_responses_writer(std::move(form), echo, tools, seals, stream);
    });
  });
}

ApiResult<GenerationPlan> plan_messages(ApiContext& context, std::string_view body) {
  const int context_tokens = context.engine.max_model_len();
  return plan_agent(context, read_messages_request(body, kInMessages, context.rules), "msg_",
                    [context_tokens](AgentRequest& /*request*/) {
                      return MakeWriter([context_tokens](AnswerForm form, bool stream) {
                        return make_messages_writer(std::move(form), context_tokens, stream);
                      });
                    });
}

// Answers with the number of tokens of a body's prompt; the answer begins with `begin`.
ApiResult<std::string> count(ApiContext& context, const HttpExchangePtr& exchange, ApiResult<AgentRequest> read,
                             std::string_view begin) {
  if (auto* error = std::get_if<ApiError>(&read)) return std::move(*error);
  auto& request = std::get<AgentRequest>(read);
  auto chat = as_chat_request(request, context.rules);
  if (auto* error = std::get_if<ApiError>(&chat)) return std::move(*error);
  const auto rendered = render_chat(context, std::get<ChatCompletionRequest>(chat));
  if (const auto* error = std::get_if<ApiError>(&rendered)) return by_client_names(*error, request);
  name_ignored(context, exchange, request.ignored);
  return fmt::format(R"({}"input_tokens":{}}})", begin, std::get<RenderedChat>(rendered).encoded.ids.size());
}

ApiResult<std::string> count_messages(ApiContext& context, const HttpExchangePtr& exchange) {
  return count(context, exchange, read_messages_request(exchange->request().body, kInCount, context.rules), "{");
}

ApiResult<std::string> count_responses(ApiContext& context, const HttpExchangePtr& exchange) {
  return count(context, exchange, read_responses_request(exchange->request().body, context.rules),
               R"({"object":"response.input_tokens",)");
}

}  // namespace

void responses(ApiContext& context, const HttpExchangePtr& exchange) {
  generate(context, exchange, plan_responses);
}

void messages(ApiContext& context, const HttpExchangePtr& exchange) {
  generate(context, exchange, plan_messages);
}

void count_tokens(ApiContext& context, const HttpExchangePtr& exchange) {
  answer_on_worker(context, exchange, count_messages);
}

void count_input_tokens(ApiContext& context, const HttpExchangePtr& exchange) {
  answer_on_worker(context, exchange, count_responses);
}

}  // namespace sluice
