#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <limits>
#include <utility>

#include "serve/request_fields.h"

namespace sluice {
namespace {

namespace json = boost::json;

void read_sampling(RequestFields& fields, const SamplingDefaults& defaults, GenerationOptions& options) {
  std::optional<double> temperature, top_p, min_p;
  std::optional<std::int64_t> top_k;
  fields.read("temperature", temperature, kTemperatures.low, kMaxApiTemperature);
  fields.read("top_p", top_p, 0.0, kTopPs.high);
  if (top_p == 0.0) fields.fail("top_p", "a number above 0 and at most 1");
  fields.read("top_k", top_k, kTopKs.low, kTopKs.high);
  fields.read("min_p", min_p, kMinPs.low, kMinPs.high);
  fields.read_seed("seed", options.seed);
  SamplingParams& out = options.sampling;
  out.temperature = temperature ? static_cast<float>(*temperature) : defaults.temperature;
  out.top_p = top_p ? static_cast<float>(*top_p) : defaults.top_p;
  out.top_k = top_k ? static_cast<int>(*top_k) : defaults.top_k;
  out.min_p = static_cast<float>(min_p.value_or(0.0));
}

void read_limits(RequestFields& fields, GenerationOptions& out) {
  std::optional<std::int64_t> max_tokens, max_completion_tokens;
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  fields.read("max_tokens", max_tokens, 1, kMost);
  fields.read("max_completion_tokens", max_completion_tokens, 1, kMost);
  if (max_tokens && max_completion_tokens && *max_tokens != *max_completion_tokens) {
    fields.fail("max_completion_tokens", "no value, or that of max_tokens");
  }
  if (const auto limit = max_completion_tokens ? max_completion_tokens : max_tokens) {
    out.max_tokens = static_cast<int>(*limit);
  }
  fields.read_strings("stop", out.stop, kMaxStopStrings);
  if (const json::value* ids = fields.find("stop_token_ids")) {
    constexpr std::string_view kExpected = "an array of at most 64 token ids";
    if (!ids->is_array() || ids->get_array().size() > 64) return fields.fail("stop_token_ids", kExpected);
    for (const json::value& id : ids->get_array()) {
      if (!id.is_int64() || id.get_int64() < 0 || id.get_int64() > kMost) {
        return fields.fail("stop_token_ids", kExpected);
      }
      out.stop_token_ids.push_back(static_cast<std::int32_t>(id.get_int64()));
    }
  }
  std::optional<bool> ignore_eos;
  fields.read("ignore_eos", ignore_eos);
  out.ignore_eos = ignore_eos.value_or(false);
}

void read_streaming(RequestFields& fields, GenerationOptions& out) {
  std::optional<bool> stream;
  fields.read("stream", stream);
  out.stream = stream.value_or(false);
  const json::object* object = fields.read_object("stream_options");
  if (object == nullptr) return;
  if (!out.stream) return fields.refuse("stream_options", "stream_options: only allowed when stream is true");
  RequestFields options(*object, "stream_options.");
  std::optional<bool> include_usage, continuous_usage;
  options.read("include_usage", include_usage);
  options.read("continuous_usage_stats", continuous_usage);
  options.ignore({"include_obfuscation"});
  options.reject_unknown();
  if (options.error()) fields.refuse_with(*options.error());
  out.include_usage = include_usage.value_or(false);
  out.continuous_usage = out.include_usage && continuous_usage.value_or(false);
}

// After read_streaming.
void read_choices(RequestFields& fields, GenerationOptions& out) {
  std::optional<std::int64_t> n, best_of;
  fields.read("n", n, 1, kMaxApiChoices);
  fields.read("best_of", best_of, 1, kMaxApiChoices);
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

void read_scheduling(RequestFields& fields, GenerationOptions& out) {
  std::optional<std::int64_t> priority;
  std::optional<std::string> cache_salt;
  fields.read("priority", priority, -kMaxPriority, kMaxPriority);
  out.priority = static_cast<int>(priority.value_or(0));
  fields.read("cache_salt", cache_salt);
  if (cache_salt && cache_salt->size() > kMaxCacheSaltBytes) {
    fields.refuse("cache_salt",
                  fmt::format("cache_salt: expected a string of at most {} bytes, found one of {}", kMaxCacheSaltBytes,
                              cache_salt->size()),
                  "invalid_value");
  }
  out.cache_salt = std::move(cache_salt).value_or("");
}

}  // namespace

void read_generation_options(RequestFields& fields, const SamplingDefaults& defaults, GenerationOptions& out) {
  read_sampling(fields, defaults, out);
  read_limits(fields, out);
  read_streaming(fields, out);
  read_choices(fields, out);
  read_scheduling(fields, out);
  fields.only("presence_penalty", 0);
  fields.only("frequency_penalty", 0);
  fields.only("repetition_penalty", 1);
  if (const json::object* bias = fields.read_object("logit_bias"); bias != nullptr && !bias->empty()) {
    fields.refuse("logit_bias", "logit_bias: not supported", "unsupported_value");
  }
  // What other servers know, at the values that ask for nothing.
  fields.neutral({{"min_tokens", "0"},
                  {"length_penalty", "1"},
                  {"use_beam_search", "false"},
                  {"early_stopping", "false"},
                  {"skip_special_tokens", "true"},
                  {"spaces_between_special_tokens", "true"},
                  {"include_stop_str_in_output", "false"},
                  {"detokenize", "true"},
                  {"return_token_ids", "false"},
                  {"return_tokens_as_token_ids", "false"},
                  {"typical_p", "1"},
                  {"top_a", "0"},
                  {"mirostat", "0"}});
  fields.ignore(
      {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"});
}

}  // namespace sluice
