#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "serve/api/request_fields.h"

namespace sluice {
namespace {

namespace json = boost::json;

void read_sampling(RequestFields& fields, const SamplingDefaults& defaults, GenerationOptions& options) {
  std::optional<double> temperature, top_p, min_p;
  std::optional<std::int64_t> top_k;
  fields.read("temperature", temperature);
  fields.read("top_p", top_p);
  fields.read("top_k", top_k);
  fields.read("min_p", min_p);
  fields.read_seed("seed", options.seed);
  SamplingParams& out = options.engine.sampling;
  out.temperature = temperature ? static_cast<float>(*temperature) : defaults.temperature;
  // 0 keeps one token, the likeliest, as the smallest share above 0 does.
  out.top_p = top_p ? std::max(static_cast<float>(*top_p), kTopPs.low) : defaults.top_p;
  out.top_k = top_k ? static_cast<int>(*top_k) : defaults.top_k;
  out.min_p = min_p ? static_cast<float>(*min_p) : defaults.min_p;
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
  std::optional<double> presence, frequency, repetition;
  std::optional<std::int64_t> min_tokens;
  fields.read("presence_penalty", presence);
  fields.read("frequency_penalty", frequency);
  fields.read("repetition_penalty", repetition);
  fields.read("min_tokens", min_tokens);
  fields.read_strings("bad_words", out.bad_words);
  fields.read_token_ids("allowed_token_ids", out.rules.allowed_token_ids);
  read_logit_bias(fields, out.rules);
  const auto given = [](const std::optional<double>& value, float absent) {
    return value ? static_cast<float>(*value) : absent;
  };
  out.rules.presence_penalty = given(presence, defaults.presence_penalty);
  out.rules.frequency_penalty = given(frequency, defaults.frequency_penalty);
  out.rules.repetition_penalty = given(repetition, defaults.repetition_penalty);
  out.rules.min_tokens = static_cast<int>(min_tokens.value_or(0));
  if (out.max_tokens && out.rules.min_tokens > *out.max_tokens) {
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
  std::optional<bool> ignore_eos;
  fields.read("ignore_eos", ignore_eos);
  out.ignore_eos = ignore_eos.value_or(false);
  std::optional<bool> shows_stop, skips_special;
  fields.read("include_stop_str_in_output", shows_stop);
  out.shown.stop_string = shows_stop.value_or(false);
  fields.read("skip_special_tokens", skips_special);
  out.shown.special_tokens = !skips_special.value_or(true);
}

void read_streaming(RequestFields& fields, GenerationOptions& out) {
  std::optional<bool> stream;
  fields.read("stream", stream);
  out.stream = stream.value_or(false);
  const json::object* object = fields.read_object("stream_options");
  if (object == nullptr) return;
  if (!out.stream) return fields.refuse("stream_options", "stream_options: only allowed when stream is true");
  RequestFields options(fields, "stream_options", *object);
  std::optional<bool> include_usage, continuous_usage;
  options.read("include_usage", include_usage);
  options.read("continuous_usage_stats", continuous_usage);
  options.finish();
  out.include_usage = include_usage.value_or(false);
  out.continuous_usage = out.include_usage && continuous_usage.value_or(false);
}

// After read_streaming.
void read_choices(RequestFields& fields, GenerationOptions& out) {
  std::optional<std::int64_t> n, best_of;
  fields.read("n", n);
  fields.read("best_of", best_of);
  out.n = static_cast<int>(n.value_or(1));
  out.best_of = static_cast<int>(best_of.value_or(out.n));
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
  std::optional<std::int64_t> prompt_logprobs, start;
  std::optional<bool> token_ids;
  fields.read("prompt_logprobs", prompt_logprobs);
  fields.read("prompt_logprobs_start", start);
  fields.read("return_token_ids", token_ids);
  if (prompt_logprobs && out.stream) {
    fields.refuse("prompt_logprobs", "prompt_logprobs: not supported with stream", "unsupported_value");
  }
  out.engine.prompt_logprobs = static_cast<int>(prompt_logprobs.value_or(-1));
  out.engine.prompt_logprobs_start = static_cast<int>(start.value_or(0));
  out.return_token_ids = token_ids.value_or(false);
  read_exports(fields, out);
}

// Of the answer, after read_sampling; how many of the best is up to each call.
void read_logprob_kind(RequestFields& fields, SamplingParams& out) {
  std::optional<std::string> mode;
  fields.read_token_ids("logprob_token_ids", out.logprob_ids);
  fields.read("logprobs_mode", mode);
  if (mode && mode != "raw" && mode != "processed") fields.fail("logprobs_mode", "\"raw\" or \"processed\"");
  out.processed_logprobs = mode == "processed";
  if (!out.logprob_ids.empty()) out.top_logprobs = 0;
}

}  // namespace

void read_exports(RequestFields& fields, GenerationOptions& out) {
  std::optional<bool> experts, indices;
  fields.read("return_routed_experts", experts);
  fields.read("return_sparse_indices", indices);
  out.engine.return_routed_experts = experts.value_or(false);
  out.engine.return_sparse_indices = indices.value_or(false);
}

void read_scheduling(RequestFields& fields, GenerationOptions& out) {
  std::optional<std::int64_t> priority;
  std::optional<std::string> cache_salt;
  fields.read("priority", priority);
  out.engine.priority = static_cast<int>(priority.value_or(0));
  fields.read("cache_salt", cache_salt);
  if (cache_salt && cache_salt->size() > kMaxCacheSaltBytes) {
    fields.refuse("cache_salt",
                  fmt::format("cache_salt: expected a string of at most {} bytes, found one of {}", kMaxCacheSaltBytes,
                              cache_salt->size()),
                  "invalid_value");
  }
  out.engine.cache_salt = std::move(cache_salt).value_or("");
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
