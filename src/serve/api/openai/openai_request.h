// The bodies of the OpenAI API's generating calls, parsed and checked.
//
// The fields are those of field_table.h. Every error names the field, what was expected and what was found. Fields that
// have no effect here (user, metadata, ...) are ignored. Fields whose effect is missing are refused unless they ask for
// nothing. Unknown fields are ignored and named, or refused. Thread safety: plain values, pure functions.
// Used by serve, serve/api, serve/api/agents, serve/api/openai and serve/generate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "grammar/grammar.h"
#include "serve/api/api_error.h"
#include "sluice/request_options.h"
#include "text/chat/chat.h"
#include "text/generation_stream.h"

namespace sluice {

inline constexpr int kMaxStopStrings = 16, kMaxStopTokenIds = 64;
inline constexpr float kMaxApiTemperature = 2.0F;
inline constexpr int kMaxPrompts = 128;
inline constexpr int kMaxApiChoices = 256;  // the most for n and best_of
inline constexpr int kMaxBadWords = 128, kMaxAllowedTokenIds = 16384, kMaxLogitBiases = 1024;
inline constexpr int kMaxPromptIds = 1 << 21;
inline constexpr int kMaxPriority = 1000000;  // and its negative
inline constexpr int kMaxCacheSaltBytes = 256;
inline constexpr int kMaxDetokenized = 1 << 20;

// The sampling parameters of a request that gives none: generation_config.json's.
struct SamplingDefaults {
  float temperature = 1.0F;
  float top_p = 1.0F;
  int top_k = 0;
  float min_p = 0.0F;
  float presence_penalty = 0.0F, frequency_penalty = 0.0F, repetition_penalty = 1.0F;
};

struct RequestRules {
  SamplingDefaults defaults = {};
  bool strict_fields = false;  // unknown fields are refused
};

// The options that both calls share.
struct GenerationOptions {
  // Passed on to the engine as it stands, except for the seed, n, max_tokens and the values that the server makes
  // (prediction, constraint, rules, message_starts; generate/answer_job.cc).
  RequestOptions engine;
  TokenRules rules;  // complete except for bad_words
  std::vector<std::string> bad_words;
  std::optional<std::uint64_t> seed;  // none: every prompt draws its own
  int n = 1;                          // choices of an answer
  int best_of = 1;                    // choices to generate, of which the best n are the answer; >= n
  std::optional<int> max_tokens;      // >= 0
  std::vector<std::string> stop;
  bool ignore_eos = false;
  bool shortens_to_context = false;          // a max_tokens that does not fit is what fits
  std::optional<int> thinking_token_budget;  // the most tokens of the answer's reasoning (chat)
  ShownText shown;
  bool return_token_ids = false;
  std::string prediction;                   // the answer's expected text, to draft from (chat)
  std::optional<GrammarSource> constraint;  // what the answer is bound to
  std::string constraint_field;             // the field that said so
  bool stream = false;
  bool include_usage = false, continuous_usage = false;  // stream_options
  std::vector<std::string> ignored;                      // paths of the unknown fields

  // Choices are compared by their log-probabilities, whether or not the client asked for them.
  bool ranks() const { return best_of > n; }
};

struct ToolChoice {
  bool none = false;                    // "none", though there are tools
  bool forced = false;                  // the answer is a call
  std::vector<std::string> names = {};  // tools that may be called; empty: all
  bool parallel = true;                 // more than one call
  bool strict_by_default = false;       // what does not say `strict` is, where it can be enforced
};

struct ChatCompletionRequest {
  std::optional<std::string> model;
  GenerationOptions options;
  ChatRequest chat;
  ToolChoice tool_choice;
  std::vector<std::int32_t> prompt_ids;  // instead of its messages; empty: none
};

struct CompletionRequest {
  std::optional<std::string> model;
  GenerationOptions options;
  std::vector<std::variant<std::string, std::vector<std::int32_t>>> prompts;  // at least one
  bool echo = false;
  std::optional<std::string> suffix;
};

// A value or the error to answer with.
template <class T>
using ApiResult = std::variant<T, ApiError>;

ApiResult<ChatCompletionRequest> parse_chat_completion_request(std::string_view body, const RequestRules& rules);
ApiResult<ChatCompletionRequest> parse_chat_completion_request(const boost::json::object& body,
                                                               const RequestRules& rules);
ApiResult<CompletionRequest> parse_completion_request(std::string_view body, const RequestRules& rules);
ApiResult<CompletionRequest> parse_score_request(std::string_view body, const RequestRules& rules);

}  // namespace sluice
