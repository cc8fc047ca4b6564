// /v1/chat/completions and /v1/completions: from the body to a GenerationJob.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <random>
#include <utility>

#include "serve/answer_constraint.h"
#include "serve/best_of_writer.h"
#include "serve/endpoints.h"
#include "serve/generation_job.h"

namespace sluice {
namespace {

// For `prompts` prompts; the indices of their choices go prompt by prompt.
AnswerForm make_form(const ApiContext& context, std::string_view id_prefix, const GenerationOptions& options,
                     std::size_t prompts) {
  AnswerForm form;
  form.choices = static_cast<int>(prompts) * options.n;
  form.head = {random_id(id_prefix), static_cast<std::int64_t>(std::time(nullptr)), context.model_name,
               context.engine.profile_name()};
  form.logprobs = options.sampling.top_logprobs >= 0;
  form.include_usage = options.include_usage;
  form.continuous_usage = options.continuous_usage;
  form.token_text = [&tokenizer = context.tokenizer](std::int32_t id) {
    return std::string(tokenizer.token_bytes(id));
  };
  return form;
}

using MakeWriter = std::unique_ptr<AnswerWriter> (*)(AnswerForm, bool stream);

ApiError field_error(const Status& status, std::string param) {
  ApiError error = to_api_error(status);
  error.param = std::move(param);
  return error;
}

// The field of a request that an error of its encoding is about: the word that it begins with, if that is one.
ApiError chat_error(const Status& status) {
  for (const std::string_view field : {"tools", "response_format", "reasoning_effort", "chat_template_kwargs"}) {
    if (std::string_view(status.message()).starts_with(field)) return field_error(status, std::string(field));
  }
  return field_error(status, "messages");
}

// Below 2^53, so that a client may send it back as a JSON number whatever it parses numbers with.
std::uint64_t draw_seed() {
  std::random_device random;
  return ((std::uint64_t{random()} << 32) | random()) >> 11;
}

void finish_plan(GenerationPlan& plan, AnswerForm form, MakeWriter make_writer, GenerationOptions& options) {
  plan.id = form.head.id;
  for (PromptTokens& prompt : plan.prompts) {
    prompt.seed = options.seed ? *options.seed : draw_seed();
    if (!options.seed && options.sampling.temperature > 0) form.head.seeds.push_back(prompt.seed);
  }
  plan.writer = make_writer(std::move(form), options.stream);
  if (options.ranks()) {
    plan.writer =
        make_best_of_writer(std::move(plan.writer), static_cast<int>(plan.prompts.size()), options.n, options.best_of);
  }
  plan.options = std::move(options);
}

// What the client expects the answer to say; special tokens in it are plain text.
ApiResult<std::vector<std::int32_t>> prediction_ids(const ApiContext& context, const std::string& text) {
  auto ids = context.tokenizer.encode(text, {.parse_special = false});
  if (!ids.ok()) return field_error(ids.status(), "prediction");
  const auto most = static_cast<std::size_t>(context.engine.max_model_len());
  if (ids->size() > most) {
    return ApiError{
        400,
        fmt::format("prediction: expected at most {} tokens, the context of this model, found {}", most, ids->size()),
        "prediction", "invalid_value"};
  }
  return std::move(ids).value();
}

// The endpoints' slow part. A value or the error to answer with.
// Words become sequences of tokens: as they are, and as they are behind a space.
ApiResult<std::shared_ptr<const TokenRules>> make_rules(const ApiContext& context, GenerationOptions& options) {
  TokenRules& rules = options.rules;
  for (const std::string& word : options.bad_words) {
    for (const std::string& text : {word, " " + word}) {
      auto ids = context.tokenizer.encode(text, {.parse_special = false});
      if (!ids.ok()) return field_error(ids.status(), "bad_words");
      if (!ids->empty() && std::ranges::find(rules.bad_words, *ids) == rules.bad_words.end()) {
        rules.bad_words.push_back(std::move(ids).value());
      }
    }
  }
  if (!rules.any()) return std::shared_ptr<const TokenRules>();
  if (const Status status = validate(rules, context.engine.vocab_size()); !status.ok()) {
    const std::string& message = status.message();
    return field_error(status, message.substr(0, message.find(':')));
  }
  return std::shared_ptr<const TokenRules>(std::make_shared<TokenRules>(rules));
}

ApiResult<GenerationPlan> plan_chat(ApiContext& context, std::string_view body) {
  if (context.chat == nullptr) {
    return ApiError{400, fmt::format("the model '{}' has no chat encoding; use /v1/completions", context.model_name),
                    "", "unsupported_value"};
  }
  auto parsed = parse_chat_completion_request(body, context.rules);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  auto& request = std::get<ChatCompletionRequest>(parsed);
  if (auto error = check_model(context, request.model)) return *std::move(error);
  auto prompt = context.chat->render(request.chat);
  if (!prompt.ok()) return chat_error(prompt.status());
  auto encoded = context.tokenizer.encode(prompt->text, prompt->messages);
  if (!encoded.ok()) return field_error(encoded.status(), "messages");
  if (auto error = check_length(context, encoded->ids.size(), request.options.max_tokens, "messages")) {
    return *std::move(error);
  }
  auto constraint = make_constraint(context.grammars, request.options,
                                    prompt->reasoning_open ? std::string(kReasoningEnd) : std::string());
  if (auto* error = std::get_if<ApiError>(&constraint)) return std::move(*error);
  GenerationPlan plan;
  auto prediction = prediction_ids(context, request.options.prediction);
  if (auto* error = std::get_if<ApiError>(&prediction)) return std::move(*error);
  plan.prompts.push_back({std::move(encoded->ids), std::move(encoded->places),
                          std::move(std::get<std::vector<std::int32_t>>(prediction))});
  plan.constraint = std::move(std::get<0>(constraint));
  auto rules = make_rules(context, request.options);
  if (auto* error = std::get_if<ApiError>(&rules)) return std::move(*error);
  plan.rules = std::move(std::get<0>(rules));
  plan.make_parser = [chat = context.chat, open = prompt->reasoning_open, has_tools = !request.chat.tools.empty()] {
    return chat->make_parser(open, has_tools);
  };
  finish_plan(plan, make_form(context, "chatcmpl-", request.options, 1), make_chat_writer, request.options);
  return plan;
}

ApiResult<std::vector<std::int32_t>> prompt_ids(const ApiContext& context, const CompletionRequest& request,
                                                std::size_t index) {
  const auto& prompt = request.prompts[index];
  std::vector<std::int32_t> ids;
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    auto encoded = context.tokenizer.encode(*text, {.add_special_tokens = true, .parse_special = true});
    if (!encoded.ok()) return field_error(encoded.status(), "prompt");
    ids = std::move(encoded).value();
  } else {
    ids = std::get<std::vector<std::int32_t>>(prompt);
  }
  if (ids.empty()) return ApiError{400, "prompt: expected at least one token, found none", "prompt", "invalid_value"};
  for (const std::int32_t id : ids) {
    if (id >= context.engine.vocab_size()) {
      return ApiError{400,
                      fmt::format("prompt: expected token ids below {}, found {}", context.engine.vocab_size(), id),
                      "prompt", "invalid_value"};
    }
  }
  if (auto error = check_length(context, ids.size(), request.options.max_tokens, "prompt")) return *std::move(error);
  return ids;
}

ApiResult<GenerationPlan> plan_completion(ApiContext& context, std::string_view body) {
  auto parsed = parse_completion_request(body, context.rules);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  auto& request = std::get<CompletionRequest>(parsed);
  if (auto error = check_model(context, request.model)) return *std::move(error);
  auto constraint = make_constraint(context.grammars, request.options, "");
  if (auto* error = std::get_if<ApiError>(&constraint)) return std::move(*error);
  AnswerForm form = make_form(context, "cmpl-", request.options, request.prompts.size());
  GenerationPlan plan;
  plan.constraint = std::move(std::get<0>(constraint));
  auto rules = make_rules(context, request.options);
  if (auto* error = std::get_if<ApiError>(&rules)) return std::move(*error);
  plan.rules = std::move(std::get<0>(rules));
  for (std::size_t i = 0; i < request.prompts.size(); ++i) {
    auto ids = prompt_ids(context, request, i);
    if (auto* error = std::get_if<ApiError>(&ids)) return std::move(*error);
    auto& prompt = std::get<std::vector<std::int32_t>>(ids);
    if (request.echo) {
      const auto* text = std::get_if<std::string>(&request.prompts[i]);
      form.echo.insert(form.echo.end(), static_cast<std::size_t>(request.options.n),
                       text != nullptr ? *text : context.tokenizer.decode(prompt, /*skip_special=*/false));
    }
    std::vector<std::int32_t> starts = context.message_starts.find(prompt);
    plan.prompts.push_back({std::move(prompt), std::move(starts)});
  }
  finish_plan(plan, std::move(form), make_completion_writer, request.options);
  return plan;
}

constexpr std::size_t kLargeBody = 256 << 10;  // takes tens of milliseconds to read

ApiError busy(std::string_view what) {
  return {429, fmt::format("too many {} wait for an answer; try again", what), "", "too_many_waiting"};
}

// Names of fields come from outside: what a header cannot hold is percent-encoded, and they are not many.
void name_ignored(ApiContext& context, const HttpExchangePtr& exchange, const std::vector<std::string>& fields) {
  if (fields.empty()) return;
  constexpr std::size_t kMostNamed = 20;
  std::string names;
  for (std::size_t i = 0; i < std::min(fields.size(), kMostNamed); ++i) {
    if (i > 0) names += ", ";
    for (const char c : fields[i]) {
      if (c > ' ' && c <= '~' && c != ',' && c != '%') {
        names += c;
      } else {
        names += fmt::format("%{:02X}", static_cast<unsigned char>(c));
      }
    }
  }
  if (fields.size() > kMostNamed) names += fmt::format(", and {} more", fields.size() - kMostNamed);
  exchange->request().ignored_fields = std::move(names);
  context.metrics.ignored_fields.add(static_cast<double>(fields.size()));
}

using Planner = ApiResult<GenerationPlan> (*)(ApiContext&, std::string_view);

void generate(ApiContext& context, const HttpExchangePtr& exchange, Planner planner) {
  std::shared_ptr<Waiting::Place> place = context.waiting->enter();
  if (place == nullptr) return exchange->respond(error_response(busy("requests")));
  TaskQueue& workers = exchange->request().body.size() > kLargeBody ? context.large_workers : context.workers;
  workers.run([&context, exchange, planner, place = std::move(place)]() mutable {
    auto planned = planner(context, exchange->request().body);
    exchange->request().body = {};  // up to megabytes that nobody needs any more
    if (const auto* error = std::get_if<ApiError>(&planned)) return exchange->respond(error_response(*error));
    name_ignored(context, exchange, std::get<GenerationPlan>(planned).options.ignored);
    auto& plan = std::get<GenerationPlan>(planned);
    std::int64_t tokens = 0;
    for (const PromptTokens& prompt : plan.prompts) tokens += static_cast<std::int64_t>(prompt.ids.size());
    if (!place->add_tokens(tokens)) return exchange->respond(error_response(busy("tokens of prompts")));
    plan.place = std::move(place);
    GenerationJob::start(context, exchange, std::move(plan));
  });
}

}  // namespace

void chat_completions(ApiContext& context, const HttpExchangePtr& exchange) {
  generate(context, exchange, plan_chat);
}

void completions(ApiContext& context, const HttpExchangePtr& exchange) {
  generate(context, exchange, plan_completion);
}

std::optional<ApiError> check_model(const ApiContext& context, const std::optional<std::string>& name) {
  if (!name || *name == context.model_name) return std::nullopt;
  return ApiError{404,
                  fmt::format("the model '{}' does not exist here; this server serves '{}'", *name, context.model_name),
                  "model", "model_not_found"};
}

std::optional<ApiError> check_length(const ApiContext& context, std::size_t prompt_tokens,
                                     const std::optional<int>& max_tokens, std::string_view prompt_field) {
  const auto context_tokens = static_cast<std::size_t>(context.engine.max_model_len());
  const std::string has = fmt::format("the context of this model holds {} tokens", context_tokens);
  if (prompt_tokens >= context_tokens) {
    return ApiError{400, fmt::format("{}; the prompt has {} and leaves no room for an answer", has, prompt_tokens),
                    std::string(prompt_field), "context_length_exceeded"};
  }
  if (max_tokens && prompt_tokens + static_cast<std::size_t>(*max_tokens) > context_tokens) {
    return ApiError{400,
                    fmt::format("{}; the prompt has {} and max_tokens asks for {} more, at most {} fit", has,
                                prompt_tokens, *max_tokens, context_tokens - prompt_tokens),
                    "max_tokens", "context_length_exceeded"};
  }
  return std::nullopt;
}

}  // namespace sluice
