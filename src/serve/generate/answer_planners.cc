// /v1/chat/completions and /v1/completions: from the body to a GenerationJob.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <random>
#include <utility>

#include "base/log.h"
#include "serve/api/endpoints.h"
#include "serve/generate/answer_constraint.h"
#include "serve/generate/answer_job.h"
#include "serve/generate/answer_plan.h"
#include "serve/generate/best_of_writer.h"
#include "serve/generate/tool_constraint.h"
#include "serve/guard/request_admission.h"
#include "text/chat/fill_in_middle.h"

namespace sluice {
namespace {

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

// Returns the tokens of the text that the client expects in the answer; special tokens in it are plain text.
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

std::optional<ApiError> check_ids(const ApiContext& context, const std::vector<std::int32_t>& ids,
                                  const std::string& field) {
  for (const std::int32_t id : ids) {
    if (id < context.engine.vocab_size()) continue;
    return ApiError{400,
                    fmt::format("{}: expected token ids below {}, found {}", field, context.engine.vocab_size(), id),
                    field, "invalid_value"};
  }
  return std::nullopt;
}

std::optional<ApiError> check_chat(const ApiContext& context, const ChatCompletionRequest& request) {
  if (context.chat == nullptr) {
    return ApiError{400, fmt::format("the model '{}' has no chat encoding; use /v1/completions", context.model_name),
                    "", "unsupported_value"};
  }
  return check_model(context, request.model);
}

struct PromptOfChat {
  std::vector<std::int32_t> ids, places;
  bool reasoning_open = false;
};

ApiResult<PromptOfChat> chat_prompt(const ApiContext& context, ChatCompletionRequest& request) {
  if (request.prompt_ids.empty()) {
    auto rendered = render_chat(context, request);
    if (auto* error = std::get_if<ApiError>(&rendered)) return std::move(*error);
    auto& [prompt, encoded] = std::get<RenderedChat>(rendered);
    return PromptOfChat{std::move(encoded.ids), std::move(encoded.places), prompt.reasoning_open};
  }
  if (auto error = check_chat(context, request)) return *std::move(error);
  if (auto error = check_ids(context, request.prompt_ids, "prompt_token_ids")) return *std::move(error);
  PromptOfChat prompt{std::move(request.prompt_ids), {}};
  prompt.places = context.message_starts.find(prompt.ids);
  // Whether the answer begins with reasoning is in the last tokens.
  constexpr std::size_t kLast = 4;
  const auto last = std::span(prompt.ids).last(std::min(kLast, prompt.ids.size()));
  std::string text = context.tokenizer.decode(last, /*skip_special=*/false);
  text.resize(text.find_last_not_of("\n ") + 1);
  prompt.reasoning_open = text.ends_with("<think>");
  return prompt;
}

}  // namespace

AnswerForm make_form(const ApiContext& context, std::string_view id_prefix, const GenerationOptions& options,
                     std::size_t prompts) {
  AnswerForm form;
  form.choices = static_cast<int>(prompts) * options.n;
  form.head = {random_id(id_prefix), static_cast<std::int64_t>(std::time(nullptr)), context.model_name,
               context.engine.profile_name()};
  form.logprobs = options.engine.sampling.top_logprobs >= 0;
  form.top_logprobs = options.engine.sampling.top_logprobs;
  form.prompt_logprobs = options.engine.prompt_logprobs;
  form.token_ids = options.return_token_ids;
  form.experts = options.engine.return_routed_experts;
  form.indices = options.engine.return_sparse_indices;
  form.include_usage = options.include_usage;
  form.continuous_usage = options.continuous_usage;
  form.token_text = [&tokenizer = context.tokenizer](std::int32_t id) {
    return std::string(tokenizer.token_bytes(id));
  };
  form.is_special = [&tokenizer = context.tokenizer](std::int32_t id) { return tokenizer.is_special(id); };
  form.shows_special = options.shown.special_tokens;
  form.stop_token_ids = options.engine.stop_token_ids;
  return form;
}

void finish_plan(GenerationPlan& plan, AnswerForm form, const MakeWriter& make_writer, GenerationOptions& options) {
  plan.id = form.head.id;
  for (PromptTokens& prompt : plan.prompts) {
    prompt.seed = options.seed ? *options.seed : draw_seed();
    if (!options.seed && options.engine.sampling.temperature > 0) form.head.seeds.push_back(prompt.seed);
  }
  plan.writer = make_writer(std::move(form), options.stream);
  if (options.ranks()) {
    plan.writer =
        make_best_of_writer(std::move(plan.writer), static_cast<int>(plan.prompts.size()), options.n, options.best_of);
  }
  plan.options = std::move(options);
}

ApiResult<RenderedChat> render_chat(const ApiContext& context, const ChatCompletionRequest& request) {
  if (auto error = check_chat(context, request)) return *std::move(error);
  auto prompt = context.chat->render(request.chat);
  if (!prompt.ok()) return chat_error(prompt.status());
  auto encoded = context.tokenizer.encode(prompt->text, prompt->messages);
  if (!encoded.ok()) return field_error(encoded.status(), "messages");
  return RenderedChat{std::move(prompt).value(), std::move(encoded).value()};
}

namespace {

// The text of the message that the answer goes on with, as far as the answer's own text continues it.
std::string continued_text(const ChatRequest& chat) {
  const auto message = continued_message(chat);
  if (!message.ok() || *message == nullptr || ends_in_reasoning(**message)) return "";
  return join_content((*message)->content, "");
}

ApiResult<std::shared_ptr<const TokenConstraint>> constrain_chat(ApiContext& context, ChatCompletionRequest& request,
                                                                 bool reasoning_open) {
  const std::string continued = continued_text(request.chat);
  const bool calls = may_call(request) && call_markup(context.chat) != nullptr;
  if (!request.options.constraint || calls) {
    return make_tool_constraint(context.call_grammars, *context.chat, request, reasoning_open, continued,
                                request.options.ignored);
  }
  return make_constraint(context.grammars, request.options, reasoning_open ? std::string(kReasoningEnd) : "",
                         continued);
}

}  // namespace

ApiResult<GenerationPlan> plan_chat(ApiContext& context, ChatCompletionRequest request, std::string_view id_prefix,
                                    const MakeWriter& make_writer) {
  if (auto error = check_ids(context, request.options.engine.sampling.logprob_ids, "logprob_token_ids")) {
    return *std::move(error);
  }
  auto read = chat_prompt(context, request);
  if (auto* error = std::get_if<ApiError>(&read)) return std::move(*error);
  auto* const prompt = &std::get<PromptOfChat>(read);
  prompt->reasoning_open = prompt->reasoning_open && context.chat->answer_markup().reads_reasoning;
  if (request.options.shortens_to_context && request.options.max_tokens) {
    const int room = context.engine.most_tokens(static_cast<int>(prompt->ids.size()));
    if (room > 0) request.options.max_tokens = std::min(*request.options.max_tokens, room);
  }
  if (auto error = check_length(context, prompt->ids.size(), request.options.max_tokens, "messages")) {
    return *std::move(error);
  }
  auto constraint = constrain_chat(context, request, prompt->reasoning_open);
  if (auto* error = std::get_if<ApiError>(&constraint)) return std::move(*error);
  GenerationPlan plan;
  AnswerForm form = make_form(context, id_prefix, request.options, 1);
  if (form.wants_prompts()) form.prompts.push_back(prompt->ids);
  auto prediction = prediction_ids(context, request.options.prediction);
  if (auto* error = std::get_if<ApiError>(&prediction)) return std::move(*error);
  plan.prompts.push_back(
      {std::move(prompt->ids), std::move(prompt->places), std::move(std::get<std::vector<std::int32_t>>(prediction))});
  plan.constraint = bound_reasoning(context.call_grammars, *context.chat, request.options, prompt->reasoning_open,
                                    std::move(std::get<0>(constraint)));
  for (const std::int32_t id : banned_call_tokens(context.tokenizer, *context.chat, request)) {
    request.options.rules.bad_words.push_back({id});
  }
  auto rules = make_rules(context, request.options);
  if (auto* error = std::get_if<ApiError>(&rules)) return std::move(*error);
  plan.rules = std::move(std::get<0>(rules));
  request.options.shown.markup = context.chat->answer_markup();
  plan.make_parser = [chat = context.chat, open = prompt->reasoning_open, has_tools = may_call(request)] {
    return chat->make_parser(open, has_tools);
  };
  finish_plan(plan, std::move(form), make_writer, request.options);
  return plan;
}

namespace {

ApiResult<GenerationPlan> plan_chat_body(ApiContext& context, std::string_view body) {
  auto parsed = parse_chat_completion_request(body, context.rules);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  return plan_chat(context, std::move(std::get<ChatCompletionRequest>(parsed)), "chatcmpl-", make_chat_writer);
}

}  // namespace

ApiResult<std::vector<std::int32_t>> prompt_ids(const ApiContext& context, const CompletionRequest& request,
                                                std::size_t index) {
  const auto& prompt = request.prompts[index];
  std::vector<std::int32_t> ids;
  const auto* text = std::get_if<std::string>(&prompt);
  if (request.suffix) {
    const auto fill = FillInMiddle::of(context.tokenizer);
    if (!fill || text == nullptr) {
      return ApiError{400,
                      fill ? "suffix: expected a prompt that is a text"
                           : "suffix: the tokenizer of this model has no tokens for filling in",
                      "suffix", "unsupported_value"};
    }
    auto encoded = fill->encode(*text, *request.suffix);
    if (!encoded.ok()) return field_error(encoded.status(), "suffix");
    ids = std::move(encoded).value();
  } else if (text != nullptr) {
    auto encoded = context.tokenizer.encode(*text, {.add_special_tokens = true, .parse_special = true});
    if (!encoded.ok()) return field_error(encoded.status(), "prompt");
    ids = std::move(encoded).value();
  } else {
    ids = std::get<std::vector<std::int32_t>>(prompt);
  }
  if (ids.empty()) return ApiError{400, "prompt: expected at least one token, found none", "prompt", "invalid_value"};
  if (auto error = check_ids(context, ids, "prompt")) return *std::move(error);
  if (auto error = check_length(context, ids.size(), request.options.max_tokens, "prompt")) return *std::move(error);
  return ids;
}

namespace {

ApiResult<GenerationPlan> plan_completion(ApiContext& context, std::string_view body) {
  auto parsed = parse_completion_request(body, context.rules);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  auto& request = std::get<CompletionRequest>(parsed);
  if (auto error = check_model(context, request.model)) return *std::move(error);
  if (auto error = check_ids(context, request.options.engine.sampling.logprob_ids, "logprob_token_ids")) {
    return *std::move(error);
  }
  auto constraint = make_constraint(context.grammars, request.options, "");
  if (auto* error = std::get_if<ApiError>(&constraint)) return std::move(*error);
  AnswerForm form = make_form(context, "cmpl-", request.options, request.prompts.size());
  form.echo_logprobs = request.echo && form.logprobs;
  if (form.echo_logprobs) {
    request.options.engine.prompt_logprobs = std::max(request.options.engine.prompt_logprobs, form.top_logprobs);
  }
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
    if (form.wants_prompts()) form.prompts.push_back(prompt);
    std::vector<std::int32_t> starts = context.message_starts.find(prompt);
    plan.prompts.push_back({std::move(prompt), std::move(starts)});
  }
  finish_plan(plan, std::move(form), make_completion_writer, request.options);
  return plan;
}

}  // namespace

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

namespace {

// Whatever a request makes the reading of it throw (memory that there is not) ends that request, and no other.
ApiResult<GenerationPlan> guarded(const Planner& planner, ApiContext& context, const HttpRequest& request) {
  try {
    return planner(context, request.body);
  } catch (const std::exception& failure) {
    log_error("request {} could not be read: {}", request.record.id, failure.what());
    return ApiError{500, "the request could not be processed", "", "internal_error"};
  }
}

}  // namespace

void generate(ApiContext& context, const HttpExchangePtr& exchange, Planner planner) {
  auto admitted = admit(context, exchange->request());
  if (const auto* error = std::get_if<ApiError>(&admitted)) return exchange->respond(error_response(*error));
  auto& place = std::get<0>(admitted);
  TaskQueue& workers = exchange->request().body.size() > kLargeBody ? context.large_workers : context.workers;
  workers.run([&context, exchange, planner, place = std::move(place)]() mutable {
    auto planned = guarded(planner, context, exchange->request());
    exchange->request().body = {};  // up to megabytes that are not needed any more
    if (const auto* error = std::get_if<ApiError>(&planned)) return exchange->respond(error_response(*error));
    name_ignored(context, exchange, std::get<GenerationPlan>(planned).options.ignored);
    auto& plan = std::get<GenerationPlan>(planned);
    std::int64_t tokens = 0;
    for (const PromptTokens& prompt : plan.prompts) tokens += static_cast<std::int64_t>(prompt.ids.size());
    if (const auto error = admit_tokens(context, exchange->request(), *place, tokens)) {
      return exchange->respond(error_response(*error));
    }
    plan.place = std::move(place);
    GenerationJob::start(context, exchange, std::move(plan));
  });
}

void chat_completions(ApiContext& context, const HttpExchangePtr& exchange) {
  generate(context, exchange, plan_chat_body);
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
  const bool only_scored = max_tokens && *max_tokens == 0;
  if (prompt_tokens > context_tokens || (prompt_tokens == context_tokens && !only_scored)) {
    return ApiError{400,
                    fmt::format("{}; the prompt has {}{}", has, prompt_tokens,
                                only_scored ? "" : " and leaves no room for an answer"),
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
