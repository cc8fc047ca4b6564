// Used by serve/api, serve/api/agents, serve/api/openai and serve/generate.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "serve/api/request_fields.h"

namespace sluice {
namespace {

namespace json = boost::json;

void read_sampling(RequestFields& fields, const SamplingDefaults& defaults, GenerationOptions& options) {
  SamplingParams& out = options.engine.sampling;
  out.temperature = fields.value("temperature", defaults.temperature);
  // 0 keeps one token, the likeliest, as the smallest share above 0 does.
  std::optional<double> top_p;
  fields.read("top_p", top_p);
  out.top_p = top_p ? std::max(static_cast<float>(*top_p), kTopPs.low) : defaults.top_p;
  out.top_k = fields.value("top_k", defaults.top_k);
  out.min_p = fields.value("min_p", defaults.min_p);
  fields.read_seed("seed", options.seed);
}

// {"ID": bias}
void read_logit_bias(RequestFields& fields, TokenRules& out) {
  const json::object* biases = fields.read_object("logit_bias");
  if (biases == nullptr) return;
  const std::string expected =
      fmt::format("an object of at most {} token ids, as strings, each with a number from {} to {}", kMaxLogitBiases,
                  kLogitBiases.low, kLogitBiases.high);
  if (biases->size() > kMaxLogitBiases) return fields.fail("logit_bias", expected);
  for (const auto& [key, value] : *biases) {
    const std::string_view text(key.data(), key.size());
    std::int32_t id = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
    boost::system::error_code failure;
    const double bias = value.to_number<double>(failure);
    if (error != std::errc() || end != text.data() + text.size() || id < 0 || failure ||
        !(bias >= kLogitBiases.low && bias <= kLogitBiases.high)) {
      return fields.fail("logit_bias", expected);
    }
    const auto same = [id](const auto& known) { return known.first == id; };
    if (std::ranges::any_of(out.logit_bias, same)) return fields.fail("logit_bias", "each token id once");
    out.logit_bias.emplace_back(id, static_cast<float>(bias));
  }
}

void read_rules(RequestFields& fields, const SamplingDefaults& defaults, GenerationOptions& out) {
  TokenRules& rules = out.rules;
  rules.presence_penalty = fields.value("presence_penalty", defaults.presence_penalty);
  rules.frequency_penalty = fields.value("frequency_penalty", defaults.frequency_penalty);
  rules.repetition_penalty = fields.value("repetition_penalty", defaults.repetition_penalty);
  rules.min_tokens = fields.value("min_tokens", 0);
  fields.read_strings("bad_words", out.bad_words);
  fields.read_token_ids("allowed_token_ids", rules.allowed_token_ids);
  read_logit_bias(fields, rules);
  if (out.max_tokens && rules.min_tokens > *out.max_tokens) {
    fields.fail("min_tokens", fmt::format("at most {} (max_tokens)", *out.max_tokens));
  }
}

void read_limits(RequestFields& fields, GenerationOptions& out) {
  std::optional<std::int64_t> max_tokens, max_completion_tokens;
  fields.read("max_tokens", max_tokens);
  fields.read("max_completion_tokens", max_completion_tokens);
  if (max_tokens && max_completion_tokens && *max_tokens != *max_completion_tokens) {
    fields.fail("max_completion_tokens", "no value, or that of max_tokens");
  }
  if (const auto limit = max_completion_tokens ? max_completion_tokens : max_tokens) {
    out.max_tokens = static_cast<int>(*limit);
  }
  fields.read_strings("stop", out.stop);
  fields.read_token_ids("stop_token_ids", out.engine.stop_token_ids);
  out.ignore_eos = fields.value("ignore_eos", false);
  out.shown.stop_string = fields.value("include_stop_str_in_output", false);
  out.shown.special_tokens = !fields.value("skip_special_tokens", true);
}

void read_streaming(RequestFields& fields, GenerationOptions& out) {
  out.stream = fields.value("stream", false);
  const json::object* object = fields.read_object("stream_options");
  if (object == nullptr) return;
  if (!out.stream) return fields.refuse("stream_options", "stream_options: only allowed when stream is true");
  RequestFields options(fields, "stream_options", *object);
  out.include_usage = options.value("include_usage", false);
  const bool is_continuous = options.value("continuous_usage_stats", false);
  out.continuous_usage = out.include_usage && is_continuous;
  options.finish();
}

// After read_streaming.
void read_choices(RequestFields& fields, GenerationOptions& out) {
  out.n = fields.value("n", 1);
  out.best_of = fields.value("best_of", out.n);
  if (out.best_of < out.n) fields.fail("best_of", fmt::format("an integer from {} (n) to {}", out.n, kMaxApiChoices));
  if (out.stream && out.ranks()) {
    fields.refuse("best_of",
                  fmt::format("best_of: expected {} (n) with stream, as choices are compared when they are complete; "
                              "found {}",
                              out.n, out.best_of),
                  "unsupported_value");
  }
}

// After read_streaming.
void read_reports(RequestFields& fields, GenerationOptions& out) {
  std::optional<std::int64_t> prompt_logprobs;
  fields.read("prompt_logprobs", prompt_logprobs);
  out.engine.prompt_logprobs_start = fields.value("prompt_logprobs_start", 0);
  out.return_token_ids = fields.value("return_token_ids", false);
  if (prompt_logprobs && out.stream) {
    fields.refuse("prompt_logprobs", "prompt_logprobs: not supported with stream", "unsupported_value");
  }
  out.engine.prompt_logprobs = static_cast<int>(prompt_logprobs.value_or(-1));
  read_exports(fields, out);
}

// Reads which log-probabilities the answer has, after read_sampling; each call reads how many of the best by itself.
void read_logprob_kind(RequestFields& fields, SamplingParams& out) {
  fields.read_token_ids("logprob_token_ids", out.logprob_ids);
  const std::string mode = fields.value<std::string>("logprobs_mode", "raw");
  if (mode != "raw" && mode != "processed") fields.fail("logprobs_mode", "\"raw\" or \"processed\"");
  out.processed_logprobs = mode == "processed";
  if (!out.logprob_ids.empty()) out.top_logprobs = 0;
}

}  // namespace

void read_exports(RequestFields& fields, GenerationOptions& out) {
  out.engine.return_routed_experts = fields.value("return_routed_experts", false);
  out.engine.return_sparse_indices = fields.value("return_sparse_indices", false);
}

void read_scheduling(RequestFields& fields, GenerationOptions& out) {
  out.engine.priority = fields.value("priority", 0);
  out.engine.cache_salt = fields.value("cache_salt", std::string());
  if (out.engine.cache_salt.size() > kMaxCacheSaltBytes) {
    fields.refuse("cache_salt",
                  fmt::format("cache_salt: expected a string of at most {} bytes, found one of {}", kMaxCacheSaltBytes,
                              out.engine.cache_salt.size()),
                  "invalid_value");
  }
}

void read_generation_options(RequestFields& fields, const SamplingDefaults& defaults, GenerationOptions& out) {
  read_sampling(fields, defaults, out);
  read_logprob_kind(fields, out.engine.sampling);
  read_limits(fields, out);
  read_rules(fields, defaults, out);
  read_streaming(fields, out);
  read_choices(fields, out);
  read_reports(fields, out);
  read_scheduling(fields, out);
}

}  // namespace sluice
