// Used by serve/api/agents, serve/api/openai, serve/generate, serve/http and serve/observe.
#include "serve/api/openai/openai_response.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <random>

#include "base/utf8.h"
#include "files/json.h"

namespace sluice {
namespace {

// {"token":"...","logprob":-0.1,"bytes":[104,105]   without the closing brace
void append_token(std::string& out, const TokenLogprob& token, const AnswerForm& form) {
  const std::string bytes = form.token_text(token.token);
  out += R"({"token":)";
  append_token_text(out, bytes);
  out += R"(,"logprob":)";
  append_logprob(out, token.logprob);
  out += R"(,"bytes":[)";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    fmt::format_to(std::back_inserter(out), "{}{}", i == 0 ? "" : ",", static_cast<unsigned char>(bytes[i]));
  }
  out += ']';
}

}  // namespace

std::string random_id(std::string_view prefix) {
  constexpr std::string_view kAlphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  thread_local std::mt19937_64 random{std::random_device{}()};
  std::uniform_int_distribution<std::size_t> letter(0, kAlphabet.size() - 1);
  std::string id(prefix);
  for (int i = 0; i < 24; ++i) id += kAlphabet[letter(random)];
  return id;
}

void append_event(std::string& out, std::string_view data) {
  out += "data: ";
  out += data;
  out += "\n\n";
}

void AnswerWriter::fail(const ApiError& error, const Usage& /*so_far*/, std::string& out) {
  append_event(out, error_json(error));
  append_event(out, "[DONE]");
}

void append_head(std::string& out, const AnswerHead& head, std::string_view object) {
  out += R"({"id":)";
  append_json_string(out, head.id);
  fmt::format_to(std::back_inserter(out), R"(,"object":"{}","created":{},"model":)", object, head.created);
  append_json_string(out, head.model);
  out += R"(,"system_fingerprint":)";
  append_json_string(out, head.fingerprint);
  if (!head.weights_version.empty()) {
    out += R"(,"weights_version":)";
    append_json_string(out, head.weights_version);
  }
  if (head.seeds.size() == 1) fmt::format_to(std::back_inserter(out), R"(,"seed":{})", head.seeds[0]);
  if (head.seeds.size() > 1) fmt::format_to(std::back_inserter(out), R"(,"seeds":[{}])", fmt::join(head.seeds, ","));
}

void append_usage(std::string& out, const Usage& usage) {
  fmt::format_to(
      std::back_inserter(out),
      R"("usage":{{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},)"
      R"("prompt_tokens_details":{{"cached_tokens":{}}},"completion_tokens_details":{{"reasoning_tokens":{},"accepted_prediction_tokens":{},"rejected_prediction_tokens":{}}}}})",
      usage.prompt_tokens, usage.completion_tokens, usage.prompt_tokens + usage.completion_tokens, usage.cached_tokens,
      usage.reasoning_tokens, usage.accepted_prediction_tokens, usage.rejected_prediction_tokens);
}

void append_stream_end(std::string& out, const AnswerForm& form, std::string_view object, const Usage& usage) {
  if (form.include_usage) {
    std::string chunk;
    append_head(chunk, form.head, object);
    chunk += R"(,"choices":[],)";
    append_usage(chunk, usage);
    chunk += '}';
    append_event(out, chunk);
  }
  append_event(out, "[DONE]");
}

void append_usage_so_far(std::string& out, const Usage& usage, const AnswerForm& form) {
  if (!form.include_usage) return;
  out += ',';
  if (form.continuous_usage) {
    append_usage(out, usage);
  } else {
    out += R"("usage":null)";
  }
}

void append_token_text(std::string& out, std::string_view bytes) {
  std::string text;
  append_lossy_utf8(bytes, text);
  append_json_string(out, text);
}

std::string stop_reason_json(const GenerationDelta& delta, const AnswerForm& form) {
  std::string out;
  if (!delta.stop_string.empty()) {
    append_json_string(out, delta.stop_string);
  } else if (delta.stop_token &&
             std::ranges::find(form.stop_token_ids, *delta.stop_token) != form.stop_token_ids.end()) {
    out = fmt::format("{}", *delta.stop_token);
  }
  return out.empty() ? "null" : out;
}

void append_token_logprobs(std::string& out, const GenerationDelta& delta, const AnswerForm& form) {
  for (std::size_t i = 0; i < delta.chosen.size(); ++i) {
    if (!out.empty()) out += ',';
    append_token(out, delta.chosen[i], form);
    out += R"(,"top_logprobs":[)";
    for (std::size_t k = 0; k < delta.top[i].size(); ++k) {
      if (k > 0) out += ',';
      append_token(out, delta.top[i][k], form);
      out += '}';
    }
    out += "]}";
  }
}

void append_logprob(std::string& out, float logprob) {
  append_json_number(out, std::isfinite(logprob) ? static_cast<double>(logprob) : -9999.0);
}

}  // namespace sluice
