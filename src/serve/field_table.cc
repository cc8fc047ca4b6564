#include "serve/field_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "serve/openai_request.h"

namespace sluice {
namespace {

using enum FieldType;
constexpr double kMostTokens = std::numeric_limits<std::int32_t>::max();

constexpr Field read(std::string_view name, unsigned places, FieldType type, std::string_view preset,
                     std::string_view text, double low = 0, double high = 0) {
  return {name, places, FieldUse::kRead, type, low, high, preset, text};
}
constexpr Field above(Field field) {
  field.above_low = true;
  return field;
}
constexpr Field only(std::string_view name, std::string_view value, unsigned places = kInBoth,
                     std::string_view hint = "") {
  return {name, places, FieldUse::kOnly, kAny, 0, 0, hint, value};
}
constexpr Field ignored(std::string_view name, unsigned places = kInBoth) {
  return {name, places, FieldUse::kIgnored};
}

// clang-format off
constexpr Field kFields[] = {
    read("model", kInBoth, kString, "the model that is served", "its served name; another one is a 404"),
    read("messages", kInChat, kArray, "", "the conversation, at least one message; required"),
    read("messages[].role", kInChat, kString, "", "`system`, `developer`, `user`, `assistant`, `tool`, `latest_reminder`; required"),
    read("messages[].content", kInChat, kAny, "", "a text, or an array of parts; `null` where an assistant's message has something else"),
    read("messages[].content[].type", kInChat, kString, "", "`text`; in a message of role `tool` any, and what is not text is named in the prompt"),
    read("messages[].content[].text", kInChat, kString, "", "the text"),
    ignored("messages[].content[].cache_control", kInChat),
    ignored("messages[].content[].annotations", kInChat),
    read("messages[].name", kInChat, kString, "", "who speaks, where the model's encoding has a place for it"),
    read("messages[].reasoning_content", kInChat, kString, "", "the reasoning of an answer that is sent back"),
    read("messages[].reasoning", kInChat, kString, "", "the same, by another name"),
    read("messages[].tool_calls", kInChat, kArray, "", "the calls of an assistant's message"),
    read("messages[].tool_call_id", kInChat, kString, "", "which call a message of role `tool` answers"),
    read("messages[].task", kInChat, kString, "", "DeepSeek-V4's [quick tasks](chat.md)"),
    read("messages[].wo_eos", kInChat, kBoolean, "false", "an assistant's message without its end token"),
    read("messages[].prefix", kInChat, kBoolean, "false", "the last message, an assistant's, is [continued](chat.md#continuing-a-message)"),
    read("messages[].tools", kInChat, kArray, "", "tools that are on offer from this system or developer message on"),
    read("messages[].response_format", kInChat, kObject, "", "written into this system or developer message"),
    ignored("messages[].refusal", kInChat),
    ignored("messages[].index", kInChat),
    ignored("messages[].mask", kInChat),
    ignored("messages[].annotations", kInChat),
    ignored("messages[].id", kInChat),
    ignored("messages[].cache_control", kInChat),
    only("messages[].audio", "null", kInChat),
    only("messages[].function_call", "null", kInChat, "use tool_calls"),
    read("prompt", kInCompletion, kAny, "", "a text, an array of token ids, or an array of up to 128 of either; required"),
    read("max_tokens", kInBoth, kInteger, "what fits (chat), 16 (completions)", "the longest answer; 0: the prompt is checked, and nothing is computed", 0, kMostTokens),
    read("max_completion_tokens", kInBoth, kInteger, "`max_tokens`", "the same", 0, kMostTokens),
    read("temperature", kInBoth, kNumber, "the model's, else 1", "0 is greedy", kTemperatures.low, kMaxApiTemperature),
    above(read("top_p", kInBoth, kNumber, "the model's, else 1", "the likeliest tokens with this probability in all", 0, kTopPs.high)),
    read("top_k", kInBoth, kInteger, "the model's, else 0", "so many tokens at most; 0 and -1: all", kTopKs.low, kTopKs.high),
    read("min_p", kInBoth, kNumber, "0", "tokens with at least this share of the best one's probability", kMinPs.low, kMinPs.high),
    read("seed", kInBoth, kBits64, "drawn for each prompt", "one seed gives one answer, whatever else runs"),
    read("presence_penalty", kInBoth, kNumber, "0", "taken from the logit of each token that the answer has", kPenalties.low, kPenalties.high),
    read("frequency_penalty", kInBoth, kNumber, "0", "the same, times how often the answer has it", kPenalties.low, kPenalties.high),
    read("repetition_penalty", kInBoth, kNumber, "1", "logits of tokens of prompt and answer are divided by it if positive, else multiplied", kRepetitionPenalties.low, kRepetitionPenalties.high),
    read("logit_bias", kInBoth, kObject, "", "`{\"ID\": bias}`, up to 1,024 token ids and -100…100, added to their logits"),
    read("min_tokens", kInBoth, kInteger, "0", "before so many no end token and none of `stop_token_ids` is drawn; stop strings still end the answer. Not with a constraint", 0, kMostTokens),
    read("bad_words", kInBoth, kStrings, "", "texts whose tokens, as they are or behind a space, the answer does not have in a row", 0, kMaxBadWords),
    read("allowed_token_ids", kInBoth, kTokenIds, "", "no other tokens are drawn; the answer ends by itself only if an end token is among them", 0, kMaxAllowedTokenIds),
    read("n", kInBoth, kInteger, "1", "choices of each prompt, which is computed once; choice i samples with a seed made of the request's and i", 1, kMaxApiChoices),
    read("best_of", kInBoth, kInteger, "`n`", "so many choices are made, and the `n` likeliest are the answer; at least `n`, with `stream` equal to it", 1, kMaxApiChoices),
    read("priority", kInBoth, kInteger, "0", "lower goes first; with `--scheduling-policy priority` only", -kMaxPriority, kMaxPriority),
    read("cache_salt", kInBoth, kString, "", "up to 256 bytes; cached prompts are shared with requests of the same salt only"),
    read("stop", kInBoth, kStrings, "", "the answer ends before any of these texts, also in its reasoning", 0, kMaxStopStrings),
    read("stop_token_ids", kInBoth, kTokenIds, "", "the answer ends with any of these tokens", 0, kMaxStopTokenIds),
    read("include_stop_str_in_output", kInBoth, kBoolean, "false", "the stop string that ends the answer is part of it"),
    read("skip_special_tokens", kInCompletion, kBoolean, "true", "special tokens are not part of the text; the end token never is"),
    read("ignore_eos", kInBoth, kBoolean, "false", "end tokens do not end the answer"),
    read("stream", kInBoth, kBoolean, "false", "server-sent events"),
    read("stream_options", kInBoth, kObject, "", "with `stream` only"),
    read("stream_options.include_usage", kInBoth, kBoolean, "false", "a last event with the usage"),
    read("stream_options.continuous_usage_stats", kInBoth, kBoolean, "false", "with `include_usage`: the usage so far in every event"),
    ignored("stream_options.include_obfuscation"),
    read("logprobs", kInChat, kBoolean, "false", "log-softmax of the raw logits of every generated token, reasoning and end token included"),
    read("top_logprobs", kInChat, kInteger, "0", "of so many of the best tokens, too; with `logprobs` only", 0, kMaxTopLogprobs),
    read("logprobs", kInCompletion, kInteger, "", "log-softmax of the raw logits of every generated token and of so many of the best", 0, kMaxTopLogprobs),
    read("echo", kInCompletion, kBoolean, "false", "the prompt before the answer; not with `logprobs`"),
    read("tools", kInChat, kArray, "", "functions that the model may call"),
    read("tool_choice", kInChat, kAny, "`auto`", "`auto` or `none`; a forced call is refused"),
    read("parallel_tool_calls", kInChat, kBoolean, "true", "with tools `true` only"),
    read("reasoning_effort", kInChat, kString, "the model's", "`none`, or a [level](chat.md#reasoning) of the model's, which turns reasoning on"),
    read("thinking", kInChat, kObject, "the model's", "reasoning on or off"),
    read("thinking.type", kInChat, kString, "", "`enabled` or `disabled`"),
    read("chat_template_kwargs", kInChat, kObject, "", "also variables of the model's [chat template](chat.md); others are refused for a model with an encoding of its own"),
    read("chat_template_kwargs.thinking", kInChat, kBoolean, "the model's", "reasoning on or off"),
    read("chat_template_kwargs.enable_thinking", kInChat, kBoolean, "the model's", "the same"),
    read("chat_template_kwargs.drop_thinking", kInChat, kBoolean, "true", "reasoning of earlier turns is left out of the prompt"),
    read("chat_template_kwargs.reasoning_effort", kInChat, kString, "the model's", "as `reasoning_effort`"),
    read("continue_final_message", kInChat, kBoolean, "false", "the last message, an assistant's, is continued"),
    read("add_generation_prompt", kInChat, kBoolean, "not `continue_final_message`", "that value only"),
    read("prediction", kInChat, kObject, "", "`{\"type\": \"content\", \"content\": …}`: what the answer may say; [drafted](speculation.md), and changes its time only"),
    read("response_format", kInBoth, kObject, "`{\"type\": \"text\"}`", "what the answer [is bound to](structured_outputs.md)"),
    read("response_format.type", kInBoth, kString, "", "`text`, `json_object` or `json_schema`"),
    read("response_format.json_schema", kInBoth, kObject, "", "with the type `json_schema`"),
    read("response_format.json_schema.schema", kInBoth, kObject, "", "a [JSON Schema](structured_outputs.md#json-schema-2020-12)"),
    read("response_format.json_schema.strict", kInBoth, kBoolean, "", "the schema is enforced either way"),
    ignored("response_format.json_schema.name"),
    ignored("response_format.json_schema.description"),
    read("structured_outputs", kInBoth, kObject, "", "one of the following"),
    read("structured_outputs.json", kInBoth, kAny, "", "a JSON Schema, or its text"),
    read("structured_outputs.regex", kInBoth, kString, "", "a [regular expression](structured_outputs.md#regular-expressions)"),
    read("structured_outputs.choice", kInBoth, kArray, "", "texts"),
    read("structured_outputs.grammar", kInBoth, kString, "", "a [grammar](structured_outputs.md#grammars)"),
    read("structured_outputs.json_object", kInBoth, kBoolean, "false", "any JSON object"),
    read("structured_outputs.disable_any_whitespace", kInBoth, kBoolean, "false", "JSON without white space"),
    only("structured_outputs.disable_fallback", "false"),
    only("structured_outputs.disable_additional_properties", "false"),
    only("structured_outputs.whitespace_pattern", "null"),
    only("structured_outputs.structural_tag", "null"),
    read("guided_json", kInBoth, kAny, "", "as `structured_outputs.json`"),
    read("guided_regex", kInBoth, kString, "", "as `structured_outputs.regex`"),
    read("guided_choice", kInBoth, kArray, "", "as `structured_outputs.choice`"),
    read("guided_grammar", kInBoth, kString, "", "as `structured_outputs.grammar`"),
    ignored("guided_decoding_backend"),
    only("guided_whitespace_pattern", "null"),
    ignored("user"),
    ignored("metadata"),
    ignored("store"),
    ignored("service_tier"),
    ignored("safety_identifier"),
    ignored("prompt_cache_key"),
    ignored("prompt_cache_retention"),
    ignored("verbosity", kInChat),
    only("repeat_penalty", "1"),
    only("length_penalty", "1"),
    only("logprob_token_ids", "[]"),
    only("logprobs_mode", R"("raw")"),
    only("thinking_token_budget", "null", kInChat),
    only("use_beam_search", "false"),
    only("early_stopping", "false"),
    only("skip_special_tokens", "true", kInChat),
    only("spaces_between_special_tokens", "true"),
    only("no_stop_trim", "false"),
    only("stop_regex", "null"),
    only("detokenize", "true"),
    only("return_token_ids", "false"),
    only("return_tokens_as_token_ids", "false"),
    only("prompt_logprobs", "null"),
    only("prompt_logprobs_start", "null"),
    only("return_routed_experts", "false"),
    only("return_sparse_indices", "false"),
    only("return_hidden_states", "false"),
    only("truncate_prompt_tokens", "null"),
    only("typical_p", "1"),
    only("top_a", "0"),
    only("top_n_sigma", "0"),
    only("mirostat", "0"),
    only("dry_multiplier", "0"),
    only("xtc_probability", "0"),
    only("logits_processors", "null"),
    only("custom_logit_processor", "null"),
    only("grammar", "null"),
    only("json_schema", "null"),
    only("ebnf", "null"),
    only("regex", "null"),
    only("lora_path", "null"),
    only("suffix", "null", kInCompletion),
    only("add_special_tokens", "true", kInCompletion),
    only("add_special_tokens", "false", kInChat),
    only("echo", "false", kInChat),
    only("modalities", R"(["text"])", kInChat),
    only("audio", "null", kInChat),
    only("web_search_options", "null", kInChat),
    only("documents", "null", kInChat),
    only("chat_template", "null", kInChat),
    only("mm_processor_kwargs", "null", kInChat),
    only("separate_reasoning", "true", kInChat),
    only("include_reasoning", "true", kInChat),
    only("functions", "[]", kInChat, "use tools"),
    only("function_call", R"("none")", kInChat, "use tool_choice"),
};
// clang-format on

std::string without_numbers(std::string_view path) {
  std::string out;
  bool inside = false;
  for (const char c : path) {
    if (c == ']') inside = false;
    if (!inside) out += c;
    if (c == '[') inside = true;
  }
  return out;
}

}  // namespace

std::span<const Field> request_fields() {
  return kFields;
}

const Field* find_field(FieldPlaces place, std::string_view path) {
  static const auto kByName = [] {
    std::map<std::pair<unsigned, std::string_view>, const Field*> known;
    for (const Field& field : kFields) {
      for (const unsigned in : {kInChat, kInCompletion}) {
        if ((field.places & in) != 0) known.emplace(std::pair{in, field.name}, &field);
      }
    }
    return known;
  }();
  const std::string name = without_numbers(path);
  const auto found = kByName.find({place, name});
  return found == kByName.end() ? nullptr : found->second;
}

std::string Field::range() const {
  if (type == kStrings) return fmt::format("up to {}", high);
  if (type == kTokenIds) return fmt::format("up to {}", high);
  if (low == high) return "";
  const auto shown = [&](double bound) -> std::string {
    if (bound == kMostTokens) return "2^31-1";
    return type == kInteger ? fmt::format("{:.0f}", bound) : fmt::format("{}", static_cast<float>(bound));
  };
  return fmt::format("{}{}…{}", above_low ? "above " : "", shown(low), shown(high));
}

std::string Field::expected() const {
  switch (type) {
    case kNumber:
      return above_low
                 ? fmt::format("a number above {} and at most {}", static_cast<float>(low), static_cast<float>(high))
                 : fmt::format("a number from {} to {}", static_cast<float>(low), static_cast<float>(high));
    case kInteger:
      return fmt::format("an integer from {:.0f} to {:.0f}", low, high);
    case kBits64:
      return "an integer of 64 bits";
    case kBoolean:
      return "true or false";
    case kString:
      return "a string";
    case kStrings:
      return fmt::format("a string or an array of at most {:.0f} non-empty strings", high);
    case kTokenIds:
      return fmt::format("an array of at most {:.0f} token ids", high);
    case kObject:
      return "an object";
    case kArray:
      return "an array";
    case kAny:
      break;
  }
  return "a value";
}

}  // namespace sluice
