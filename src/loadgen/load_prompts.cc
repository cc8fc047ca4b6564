// Used by conversations_file.cc and load_run.h.
#include "loadgen/load_prompts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "files/json.h"

namespace sluice {
namespace {

namespace json = boost::json;

// 64 syllables; two make one of 4,096 words.
std::string word_of(TokenId token) {
  constexpr std::string_view kConsonants = "bdfghjklmnprstvz", kVowels = "aeiou";
  const auto syllable = [&](int index) {
    const auto i = static_cast<std::size_t>(index);
    return std::string{kConsonants[i % 16], kVowels[i / 16]};
  };
  return syllable(token % 64) + syllable(token / 64 % 64);
}

class TracePrompts : public LoadPrompts {
 public:
  TracePrompts(Trace trace, LoadEndpoint endpoint, WordScale scale)
      : trace_(std::move(trace)), endpoint_(endpoint), scale_(scale) {}

  void add_prompt(std::size_t request, json::object& body) const override {
    if (endpoint_ == LoadEndpoint::kIds) {
      body["prompt"] = ids(request);
      return;
    }
    const std::string text = trace_text(trace_, request, scale_.words(trace_.requests[request].input_length));
    if (endpoint_ == LoadEndpoint::kCompletions) {
      body["prompt"] = text;
    } else {
      body["messages"] = json::array{json::object{{"role", "user"}, {"content", text}}};
    }
  }

 private:
  // Returns ids from 256 on, as the first ids of most vocabularies are special or single bytes.
  json::array ids(std::size_t request) const {
    json::array ids;
    for (const TokenId token : trace_prompt(trace_, request)) ids.push_back(256 + token * 15 / 16);
    return ids;
  }

  Trace trace_;
  LoadEndpoint endpoint_;
  WordScale scale_;
};

// A hash, so that sums of small numbers do not meet (the finaliser of SplitMix64).
std::int64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return static_cast<std::int64_t>(x ^ (x >> 31));
}

// Every block of the prompts gets an id that depends on the salt.
void name_blocks(Trace& trace, std::uint64_t salt) {
  const std::uint64_t key = static_cast<std::uint64_t>(mixed(salt + 1));
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    TraceRequest& request = trace.requests[i];
    for (std::int64_t& id : request.hash_ids) id = mixed(static_cast<std::uint64_t>(id) + key);
    const auto blocks = static_cast<std::size_t>(request.input_length / trace.hash_block_tokens + 1);
    const std::uint64_t own = static_cast<std::uint64_t>(mixed(key ^ (i + 1)));
    while (request.hash_ids.size() < blocks) request.hash_ids.push_back(mixed(own + request.hash_ids.size()));
  }
}

}  // namespace

Result<LoadEndpoint> parse_load_endpoint(const std::string& name) {
  if (name == "chat") return LoadEndpoint::kChat;
  if (name == "completions") return LoadEndpoint::kCompletions;
  if (name == "ids") return LoadEndpoint::kIds;
  return invalid_argument(fmt::format("expected chat, completions or ids, found '{}'", name));
}

const char* endpoint_path(LoadEndpoint endpoint) {
  return endpoint == LoadEndpoint::kChat ? "/v1/chat/completions" : "/v1/completions";
}

int WordScale::words(int tokens) const {
  return std::max(1, static_cast<int>(std::lround((tokens - base) / per_word)));
}

void LoadPrompts::answered(std::size_t /*request*/, const std::string& /*text*/) {}

std::string trace_text(const Trace& trace, std::size_t request, int words) {
  const double tokens = trace.requests[request].input_length;
  std::string text;
  for (int word = 0; word < words; ++word) {
    if (word > 0) text += ' ';
    text += word_of(trace_token(trace, request, static_cast<Position>(word * tokens / words)));
  }
  return text;
}

LoadPlan plan_of_trace(Trace trace, LoadEndpoint endpoint, WordScale scale, std::uint64_t salt) {
  LoadPlan plan;
  name_blocks(trace, salt);
  plan.trace = trace;
  plan.prompts = std::make_unique<TracePrompts>(std::move(trace), endpoint, scale);
  return plan;
}

std::string request_body(const LoadPlan& plan, std::size_t request, const BodyOptions& options) {
  json::object body{{"model", options.model}};
  plan.prompts->add_prompt(request, body);
  body["max_tokens"] = plan.trace.requests[request].output_length;
  body["temperature"] = options.temperature;
  if (options.temperature > 0) body["seed"] = (options.seed + request) & 0x7fffffff;
  if (options.ignore_eos) body["ignore_eos"] = true;
  if (options.logprobs) {
    if (options.endpoint == LoadEndpoint::kChat) {
      body["logprobs"] = true;
    } else {
      body["logprobs"] = 1;
    }
  }
  if (options.stream) {
    body["stream"] = true;
    body["stream_options"] = json::object{{"include_usage", true}};
  }
  for (const auto& [key, value] : options.extra) body[key] = value;
  return dump_json(body);
}

}  // namespace sluice
