// The endpoints of the API. Each answers its exchange, at once or later, on any thread.
// Used by serve, serve/api, serve/generate and serve/observe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "serve/api/api_context.h"
#include "serve/http/http.h"

namespace sluice {

void chat_completions(ApiContext& context, const HttpExchangePtr& exchange);    // POST /v1/chat/completions
void completions(ApiContext& context, const HttpExchangePtr& exchange);         // POST /v1/completions
void score(ApiContext& context, const HttpExchangePtr& exchange);               // POST /v1/score
void responses(ApiContext& context, const HttpExchangePtr& exchange);           // POST /v1/responses
void messages(ApiContext& context, const HttpExchangePtr& exchange);            // POST /v1/messages
void count_input_tokens(ApiContext& context, const HttpExchangePtr& exchange);  // POST /v1/responses/input_tokens
void count_tokens(ApiContext& context, const HttpExchangePtr& exchange);        // POST /v1/messages/count_tokens
void render_prompt(ApiContext& context, const HttpExchangePtr& exchange);       // POST /v1/chat/completions/render
void tokenize(ApiContext& context, const HttpExchangePtr& exchange);            // POST /tokenize
void detokenize(ApiContext& context, const HttpExchangePtr& exchange);          // POST /detokenize
void show_tokenizer(ApiContext& context, const HttpExchangePtr& exchange);      // GET /tokenizer_info
void list_models(ApiContext& context, const HttpExchangePtr& exchange);         // GET /v1/models
void show_model(ApiContext& context, const HttpExchangePtr& exchange);          // GET /v1/models/{id}
void show_metrics(ApiContext& context, const HttpExchangePtr& exchange);        // GET /metrics
void show_openapi(ApiContext& context, const HttpExchangePtr& exchange);
void show_index(ApiContext& context, const HttpExchangePtr& exchange);       // GET /
void show_cache(ApiContext& context, const HttpExchangePtr& exchange);       // GET /debug/cache
void reload_weights(ApiContext& context, const HttpExchangePtr& exchange);   // POST /v1/weights/reload
void reset_cache(ApiContext& context, const HttpExchangePtr& exchange);      // POST /debug/cache/reset
void stream_engine(ApiContext& context, const HttpExchangePtr& exchange);    // GET /debug/engine/stream
void export_trace(ApiContext& context, const HttpExchangePtr& exchange);     // GET /debug/engine/trace
void export_perfetto(ApiContext& context, const HttpExchangePtr& exchange);  // GET /debug/engine/perfetto

void show_page(ApiContext& context, const HttpExchangePtr& exchange);  // GET / of browsers, GET /page/*
bool wants_page(const HttpRequest& request);

// Returns whether /debug is open for this request; answers 403 itself when it is not.
bool is_open(const ApiContext& context, const HttpExchangePtr& exchange);

// 404 if the request names another model than the one served.
std::optional<ApiError> check_model(const ApiContext& context, const std::optional<std::string>& name);

// The context has no room for the prompt and max_tokens (or one token): 400 with the numbers.
std::optional<ApiError> check_length(const ApiContext& context, std::size_t prompt_tokens,
                                     const std::optional<int>& max_tokens, std::string_view prompt_field);

}  // namespace sluice
