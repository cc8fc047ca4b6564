// Used by api_document.cc and request_fields.h.
#include "serve/api/field_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "serve/api/openai/openai_request.h"

namespace sluice {
namespace {

using enum FieldType;
constexpr double kMostTokens = std::numeric_limits<std::int32_t>::max();

constexpr Field read(std::string_view name, unsigned places, FieldType type, std::string_view preset,
                     std::string_view text, double low = 0, double high = 0) {
  return {name, places, FieldUse::kRead, type, low, high, preset, text};
}
constexpr Field only(std::string_view name, std::string_view value, unsigned places = kInBoth,
                     std::string_view hint = "") {
  return {name, places, FieldUse::kOnly, kAny, 0, 0, hint, value};
}
constexpr Field ignored(std::string_view name, unsigned places = kInBoth) {
  return {name, places, FieldUse::kIgnored};
}

constexpr unsigned kMessagesCalls = kInMessages | kInCount, kAnswers = kInResponses | kMessagesCalls;

// clang-format off
constexpr Field kFields[] = {
    read("model", kInBoth, kString, "the model that is served", "its served name; another one is a 404"),
    read("messages", kInChat | kInTokenize, kArray, "", "the conversation, at least one message; required without `prompt_token_ids`"),
    read("prompt_token_ids", kInChat, kTokenIds, "", "the whole prompt as token ids, instead of messages", 0, kMaxPromptIds),
    read("messages[].role", kInChat | kInTokenize, kString, "", "`system`, `developer`, `user`, `assistant`, `tool`, `latest_reminder`; required"),
    read("messages[].content", kInChat | kInTokenize, kAny, "", "a text, or an array of parts; `null` where an assistant's message has something else"),
    read("messages[].content[].type", kInChat | kInTokenize, kString, "", "`text`; in a message of role `tool` any, and what is not text is named in the prompt"),
    read("messages[].content[].text", kInChat | kInTokenize, kString, "", "the text"),
    ignored("messages[].content[].cache_control", kInChat | kInTokenize),
    ignored("messages[].content[].annotations", kInChat | kInTokenize),
    read("messages[].name", kInChat | kInTokenize, kString, "", "who speaks, where the model's encoding has a place for it"),
    read("messages[].reasoning_content", kInChat | kInTokenize, kString, "", "the reasoning of an answer that is sent back"),
    read("messages[].reasoning", kInChat | kInTokenize, kString, "", "the same, by another name"),
    read("messages[].tool_calls", kInChat | kInTokenize, kArray, "", "the calls of an assistant's message"),
    read("messages[].tool_call_id", kInChat | kInTokenize, kString, "", "which call a message of role `tool` answers"),
    read("messages[].task", kInChat | kInTokenize, kString, "", "DeepSeek-V4's [quick tasks](chat.md)"),
    read("messages[].wo_eos", kInChat | kInTokenize, kBoolean, "false", "an assistant's message without its end token"),
    read("messages[].prefix", kInChat | kInTokenize, kBoolean, "false", "the last message, an assistant's, is [continued](chat.md#continuing-a-message)"),
    read("messages[].tools", kInChat | kInTokenize, kArray, "", "tools that are on offer from this system or developer message on"),
    read("messages[].response_format", kInChat | kInTokenize, kObject, "", "written into this system or developer message"),
    ignored("messages[].refusal", kInChat | kInTokenize),
    ignored("messages[].index", kInChat | kInTokenize),
    ignored("messages[].mask", kInChat | kInTokenize),
    ignored("messages[].annotations", kInChat | kInTokenize),
    ignored("messages[].id", kInChat | kInTokenize),
    ignored("messages[].cache_control", kInChat | kInTokenize),
    only("messages[].audio", "null", kInChat | kInTokenize),
    only("messages[].function_call", "null", kInChat | kInTokenize, "use tool_calls"),
    read("prompt", kInCompletion, kAny, "", "a text, an array of token ids, or an array of up to 128 of either; required"),
    read("max_tokens", kInBoth, kInteger, "what fits (chat), 16 (completions)", "the longest answer; 0: none, and nothing is computed but what `prompt_logprobs` or `echo` with `logprobs` ask for", 0, kMostTokens),
    read("max_completion_tokens", kInBoth, kInteger, "`max_tokens`", "the same", 0, kMostTokens),
    read("temperature", kInBoth | kAnswers, kNumber, "the model's, else 1", "0 is greedy", kTemperatures.low, kMaxApiTemperature),
    read("top_p", kInBoth | kAnswers, kNumber, "the model's, else 1", "the likeliest tokens with this probability in all; 0: the likeliest one", 0, kTopPs.high),
    read("top_k", kInBoth | kAnswers, kInteger, "the model's, else 0", "so many tokens at most; 0 and -1: all", kTopKs.low, kTopKs.high),
    read("min_p", kInBoth | kAnswers, kNumber, "the model's, else 0", "tokens with at least this share of the best one's probability", kMinPs.low, kMinPs.high),
    read("seed", kInBoth | kAnswers, kBits64, "drawn for each prompt", "one seed gives one answer, whatever else runs"),
    read("presence_penalty", kInBoth | kAnswers, kNumber, "the model's, else 0", "taken from the logit of each token that the answer has", kPenalties.low, kPenalties.high),
    read("frequency_penalty", kInBoth | kAnswers, kNumber, "the model's, else 0", "the same, times how often the answer has it", kPenalties.low, kPenalties.high),
    read("repetition_penalty", kInBoth | kAnswers, kNumber, "the model's, else 1", "logits of tokens of prompt and answer are divided by it if positive, else multiplied", kRepetitionPenalties.low, kRepetitionPenalties.high),
    read("logit_bias", kInBoth | kAnswers, kObject, "", "`{\"ID\": bias}`, up to 1,024 token ids and -100…100, added to their logits"),
    read("min_tokens", kInBoth | kAnswers, kInteger, "0", "before so many no end token and none of `stop_token_ids` is drawn; stop strings still end the answer. Not with a constraint", 0, kMostTokens),
    read("bad_words", kInBoth | kAnswers, kStrings, "", "texts whose tokens, as they are or behind a space, the answer does not have in a row", 0, kMaxBadWords),
    read("allowed_token_ids", kInBoth | kAnswers, kTokenIds, "", "no other tokens are drawn; the answer ends by itself only if an end token is among them", 0, kMaxAllowedTokenIds),
    read("n", kInBoth, kInteger, "1", "choices of each prompt, which is computed once; choice i samples with a seed made of the request's and i", 1, kMaxApiChoices),
    read("best_of", kInBoth, kInteger, "`n`", "so many choices are made, and the `n` likeliest are the answer; at least `n`, with `stream` equal to it", 1, kMaxApiChoices),
    read("priority", kInBoth | kAnswers | kInScore, kInteger, "0", "lower goes first; with `--scheduling-policy priority` only", -kMaxPriority, kMaxPriority),
    read("cache_salt", kInBoth | kAnswers | kInScore, kString, "", "up to 256 bytes; cached prompts are shared with requests of the same salt only"),
    read("stop", kInBoth | kInResponses, kStrings, "", "the answer ends before any of these texts, in its content or its reasoning; calls are not searched", 0, kMaxStopStrings),
    read("stop_token_ids", kInBoth | kAnswers, kTokenIds, "", "the answer ends with any of these tokens", 0, kMaxStopTokenIds),
    read("include_stop_str_in_output", kInBoth | kAnswers, kBoolean, "false", "the stop string that ends the answer is part of it"),
    read("skip_special_tokens", kInBoth, kBoolean, "true", "special tokens are not part of the text, but where a chat's parser reads them; the end token never is"),
    read("ignore_eos", kInBoth | kAnswers, kBoolean, "false", "end tokens do not end the answer"),
    read("stream", kInBoth, kBoolean, "false", "server-sent events"),
    read("stream_options", kInBoth, kObject, "", "with `stream` only"),
    read("stream_options.include_usage", kInBoth, kBoolean, "false", "a last event with the usage"),
    read("stream_options.continuous_usage_stats", kInBoth, kBoolean, "false", "with `include_usage`: the usage so far in every event"),
    ignored("stream_options.include_obfuscation"),
    read("logprobs", kInChat, kBoolean, "false", "log-softmax of the raw logits of every generated token, reasoning and end token included"),
    read("top_logprobs", kInChat, kInteger, "0", "of so many of the best tokens, too; with `logprobs` only", 0, kMaxTopLogprobs),
    read("logprobs", kInCompletion, kInteger, "", "log-softmax of the raw logits of every generated token and of so many of the best", 0, kMaxTopLogprobs),
    read("logprob_token_ids", kInBoth, kTokenIds, "", "with every generated token also the log-probabilities of these, behind the best; they are given without `logprobs`, too", 0, kMaxLogprobIds),
    read("logprobs_mode", kInBoth, kString, "`raw`", "`raw`: of the raw logits; `processed`: [those at which tokens are drawn](server.md#scores-and-token-ids), after penalties, constraint, temperature and filters"),
    read("echo", kInCompletion, kBoolean, "false", "the prompt before the answer, and with `logprobs` its tokens before the answer's"),
    read("suffix", kInCompletion, kString, "", "the text behind the answer, where the tokenizer has tokens for [filling in](server.md#fields-of-a-request); not with `echo` or a prompt of ids"),
    read("prompt_logprobs", kInBoth, kInteger, "", "log-softmax of the raw logits of every token of the prompt and of so many of the best, in the answer's `prompt_logprobs`; not with `stream`", 0, kMaxTopLogprobs),
    read("prompt_logprobs_start", kInBoth, kInteger, "0", "only of tokens from this position on; what lies before may come from the prefix cache, the rest is computed again", 0, kMostTokens),
    read("return_token_ids", kInBoth, kBoolean, "false", "the ids of the prompt (`prompt_token_ids`) and of the answer (`token_ids`), whole and in the events of a stream"),
    read("return_routed_experts", kInBoth | kInScore, kBoolean, "false", "the [experts](server.md#scores-and-token-ids) that each position went to, cached ones too"),
    read("return_sparse_indices", kInBoth | kInScore, kBoolean, "false", "the compressed entries that each position's indexers chose; tens of kilobytes a token in long contexts"),
    read("tools", kInChat | kInTokenize, kArray, "", "functions that the model may call"),
    read("tool_choice", kInChat | kInTokenize, kAny, "`auto`", "`auto`, `none`, `required`, the function to call as `{\"type\": \"function\", \"function\": {\"name\": …}}`, or `allowed_tools`; [what is enforced](structured_outputs.md#calls-of-tools)"),
    read("parallel_tool_calls", kInChat | kAnswers, kBoolean, "true", "`false`: one call at most"),
    read("reasoning_effort", kInChat | kInTokenize, kString, "the model's", "`none`, or a [level](chat.md#reasoning) of the model's, which turns reasoning on"),
    read("thinking", kInChat | kInTokenize, kObject, "the model's", "reasoning on or off"),
    read("thinking.type", kInChat | kInTokenize, kString, "", "`enabled` or `disabled`"),
    read("thinking_token_budget", kInChat | kAnswers, kInteger, "", "after so many tokens of reasoning its end is all that may come", 0, kMostTokens),
    read("chat_template_kwargs", kInChat | kAnswers | kInTokenize, kObject, "", "also variables of the model's [chat template](chat.md); others are refused for a model with an encoding of its own"),
    read("chat_template_kwargs.thinking", kInChat | kAnswers | kInTokenize, kBoolean, "the model's", "reasoning on or off"),
    read("chat_template_kwargs.enable_thinking", kInChat | kAnswers | kInTokenize, kBoolean, "the model's", "the same"),
    read("chat_template_kwargs.drop_thinking", kInChat | kAnswers | kInTokenize, kBoolean, "true", "reasoning of earlier turns is left out of the prompt"),
    read("chat_template_kwargs.reasoning_effort", kInChat | kAnswers | kInTokenize, kString, "the model's", "as `reasoning_effort`"),
    read("continue_final_message", kInChat | kInTokenize, kBoolean, "false", "the last message, an assistant's, is continued"),
    read("add_generation_prompt", kInChat | kInTokenize, kBoolean, "not `continue_final_message`", "that value only"),
    read("prediction", kInChat, kObject, "", "`{\"type\": \"content\", \"content\": …}`: what the answer may say; [drafted](speculation.md), and changes its time only"),
    read("response_format", kInBoth | kInTokenize, kObject, "`{\"type\": \"text\"}`", "what the answer [is bound to](structured_outputs.md)"),
    read("response_format.type", kInBoth | kInTokenize, kString, "", "`text`, `json_object` or `json_schema`"),
    read("response_format.json_schema", kInBoth | kInTokenize, kObject, "", "with the type `json_schema`"),
    read("response_format.json_schema.schema", kInBoth | kInTokenize, kObject, "", "a [JSON Schema](structured_outputs.md#json-schema-2020-12)"),
    read("response_format.json_schema.strict", kInBoth | kInTokenize, kBoolean, "", "the schema is enforced either way"),
    ignored("response_format.json_schema.name", kInBoth | kInTokenize),
    ignored("response_format.json_schema.description", kInBoth | kInTokenize),
    read("structured_outputs", kInBoth | kAnswers, kObject, "", "one of the following"),
    read("structured_outputs.json", kInBoth | kAnswers, kAny, "", "a JSON Schema, or its text"),
    read("structured_outputs.regex", kInBoth | kAnswers, kString, "", "a [regular expression](structured_outputs.md#regular-expressions)"),
    read("structured_outputs.choice", kInBoth | kAnswers, kArray, "", "texts"),
    read("structured_outputs.grammar", kInBoth | kAnswers, kString, "", "a [grammar](structured_outputs.md#grammars)"),
    read("structured_outputs.json_object", kInBoth | kAnswers, kBoolean, "false", "any JSON object"),
    read("structured_outputs.disable_any_whitespace", kInBoth | kAnswers, kBoolean, "false", "JSON without white space"),
    only("structured_outputs.disable_fallback", "false", kInBoth | kAnswers),
    only("structured_outputs.disable_additional_properties", "false", kInBoth | kAnswers),
    only("structured_outputs.whitespace_pattern", "null", kInBoth | kAnswers),
    only("structured_outputs.structural_tag", "null", kInBoth | kAnswers),
    read("guided_json", kInBoth, kAny, "", "as `structured_outputs.json`"),
    read("guided_regex", kInBoth, kString, "", "as `structured_outputs.regex`"),
    read("guided_choice", kInBoth, kArray, "", "as `structured_outputs.choice`"),
    read("guided_grammar", kInBoth, kString, "", "as `structured_outputs.grammar`"),
    ignored("guided_decoding_backend"),
    only("guided_whitespace_pattern", "null"),
    ignored("user", kInBoth | kAnswers),
    ignored("metadata"),
    ignored("store"),
    ignored("service_tier", kInBoth | kAnswers),
    ignored("safety_identifier", kInBoth | kAnswers),
    ignored("prompt_cache_key", kInBoth | kAnswers),
    ignored("prompt_cache_retention", kInBoth | kAnswers),
    ignored("verbosity", kInChat),
    only("repeat_penalty", "1"),
    only("length_penalty", "1"),
    only("use_beam_search", "false"),
    only("early_stopping", "false"),
    only("spaces_between_special_tokens", "true"),
    only("no_stop_trim", "false"),
    only("stop_regex", "null"),
    only("detokenize", "true"),
    only("return_tokens_as_token_ids", "false"),
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

    // POST /v1/responses
    read("model", kInResponses, kString, "the model that is served", "its served name; another one is a 404"),
    read("input", kInResponses, kAny, "", "a text, or the items of the conversation; required"),
    read("input[].type", kInResponses, kString, "`message`", "`message`, `function_call`, `function_call_output`, `custom_tool_call`, `custom_tool_call_output` or `reasoning`; items of other types are left out and named"),
    read("input[].role", kInResponses, kString, "", "of a message: `system`, `developer`, `user` or `assistant`"),
    read("input[].content", kInResponses, kAny, "", "of a message: a text or an array of parts; of reasoning: parts of type `reasoning_text`"),
    read("input[].content[].type", kInResponses, kString, "", "`input_text`, `output_text`, `refusal` or `reasoning_text`"),
    read("input[].content[].text", kInResponses, kString, "", "the text"),
    read("input[].content[].refusal", kInResponses, kString, "", "the text of a `refusal`"),
    read("input[].call_id", kInResponses, kString, "", "which call it is, or which one this output answers"),
    read("input[].name", kInResponses, kString, "", "of the function that was called"),
    read("input[].arguments", kInResponses, kAny, "", "of the call, as JSON text"),
    read("input[].output", kInResponses, kAny, "", "of a function: a text or an array of `input_text` parts"),
    read("input[].output[].type", kInResponses, kString, "", "`input_text`, or another one, which the prompt names"),
    read("input[].output[].text", kInResponses, kString, "", "the text"),
    read("input[].encrypted_content", kInResponses, kString, "", "reasoning as this server gave it; changed text is refused"),
    read("input[].summary", kInResponses, kArray, "", "of reasoning, taken where there is nothing else of it"),
    read("input[].summary[].type", kInResponses, kString, "", "`summary_text`"),
    read("input[].summary[].text", kInResponses, kString, "", "the text"),
    read("input[].namespace", kInResponses, kString, "", "of the function that was called, if it has one"),
    read("input[].input", kInResponses, kString, "", "of a call of a custom tool, its text"),
    ignored("input[].id", kInResponses),
    ignored("input[].status", kInResponses),
    ignored("input[].phase", kInResponses),
    ignored("input[].content[].annotations", kInResponses),
    ignored("input[].content[].logprobs", kInResponses),
    read("instructions", kInResponses, kString, "", "a system message before the input"),
    read("max_output_tokens", kInResponses, kInteger, "what fits", "the longest answer, reasoning included", 0, kMostTokens),
    read("stream", kInResponses, kBoolean, "false", "server-sent events"),
    ignored("stream_options", kInResponses),
    read("tools", kInResponses, kArray, "", "functions, namespaces of functions and custom tools that the model may call; tools of other types are left out and named"),
    read("tools[].type", kInResponses, kString, "", "`function`, `namespace` or `custom`"),
    read("tools[].name", kInResponses, kString, "", "the function's name, or the namespace's"),
    read("tools[].tools", kInResponses, kArray, "", "of a namespace: its functions and custom tools"),
    read("tools[].tools[].type", kInResponses, kString, "", "`function` or `custom`"),
    read("tools[].tools[].name", kInResponses, kString, "", "its name within the namespace"),
    read("tools[].tools[].description", kInResponses, kString, "", "what it does"),
    read("tools[].tools[].parameters", kInResponses, kObject, "", "the JSON Schema of its arguments"),
    read("tools[].tools[].strict", kInResponses, kBoolean, "false", "as in chat"),
    read("tools[].tools[].format", kInResponses, kObject, "`{\"type\": \"text\"}`", "as `tools[].format`"),
    read("tools[].tools[].format.type", kInResponses, kString, "", "`text` or `grammar`"),
    read("tools[].tools[].format.syntax", kInResponses, kString, "", "`lark` or `regex`"),
    read("tools[].tools[].format.definition", kInResponses, kString, "", "the grammar"),
    read("tools[].format", kInResponses, kObject, "`{\"type\": \"text\"}`", "of a custom tool: the model is told of its grammar, which is not enforced"),
    read("tools[].format.type", kInResponses, kString, "", "`text` or `grammar`"),
    read("tools[].format.syntax", kInResponses, kString, "", "`lark` or `regex`"),
    read("tools[].format.definition", kInResponses, kString, "", "the grammar"),
    read("tools[].description", kInResponses, kString, "", "what it does"),
    read("tools[].parameters", kInResponses, kObject, "", "the JSON Schema of its arguments"),
    read("tools[].strict", kInResponses, kBoolean, "false", "as in chat"),
    read("tool_choice", kInResponses, kAny, "`auto`", "as in chat; `{\"type\": \"function\", \"name\": …}` names one, and `{\"type\": \"allowed_tools\", …}` leaves some on offer"),
    read("tool_choice.type", kInResponses, kString, "", "`function`, `custom` or `allowed_tools`"),
    read("tool_choice.name", kInResponses, kString, "", "of the function"),
    read("tool_choice.namespace", kInResponses, kString, "", "of the function, if it has one"),
    read("tool_choice.mode", kInResponses, kString, "`auto`", "of `allowed_tools`: `auto` or `required`"),
    read("tool_choice.tools", kInResponses, kArray, "", "of `allowed_tools`: `{\"type\": \"function\", \"name\": …}`"),
    read("tool_choice.tools[].type", kInResponses, kString, "", "`function`"),
    read("tool_choice.tools[].name", kInResponses, kString, "", "of the function"),
    read("tool_choice.tools[].namespace", kInResponses, kString, "", "of the function, if it has one"),
    read("reasoning", kInResponses, kObject, "", "how much is reasoned"),
    read("reasoning.effort", kInResponses, kString, "the model's", "as `reasoning_effort` in chat"),
    ignored("reasoning.summary", kInResponses),
    ignored("reasoning.generate_summary", kInResponses),
    read("text", kInResponses, kObject, "", "of what form the answer is"),
    read("text.format", kInResponses, kObject, "`{\"type\": \"text\"}`", "what the answer [is bound to](structured_outputs.md)"),
    read("text.format.type", kInResponses, kString, "", "`text`, `json_object` or `json_schema`"),
    read("text.format.schema", kInResponses, kObject, "", "a JSON Schema"),
    read("text.format.strict", kInResponses, kBoolean, "", "the schema is enforced either way"),
    read("text.format.name", kInResponses, kString, "", "the answer repeats it"),
    ignored("text.format.description", kInResponses),
    ignored("text.verbosity", kInResponses),
    read("include", kInResponses, kArray, "", "`reasoning.encrypted_content`: reasoning comes with its text sealed, to be sent back; `message.output_text.logprobs`: log-probabilities of the answer's text; others are ignored and named"),
    read("metadata", kInResponses, kObject, "", "the answer repeats it"),
    only("previous_response_id", "null", kInResponses, "no answer is kept here: send the conversation as `input`"),
    only("conversation", "null", kInResponses, "no conversation is kept here: send it as `input`"),
    only("prompt", "null", kInResponses, "no prompt is kept here: send it as `input`"),
    only("background", "false", kInResponses),
    read("truncation", kInResponses, kString, "`disabled`", "`auto` or `disabled`; an input that is too long is a 400 either way"),
    read("top_logprobs", kInResponses, kInteger, "0", "log-probabilities of the answer's text, and so many of the best at each token", 0, kMaxTopLogprobs),
    ignored("store", kInResponses),
    ignored("max_tool_calls", kInResponses),
    ignored("client_metadata", kInResponses),

    // POST /v1/messages and /v1/messages/count_tokens
    read("model", kMessagesCalls, kString, "the model that is served", "its served name; another one is a 404"),
    read("messages", kMessagesCalls, kArray, "", "the conversation, at least one message; if the last one is the assistant's, the answer continues it; required"),
    read("messages[].role", kMessagesCalls, kString, "", "`user`, `assistant` or `system`; required"),
    read("messages[].content", kMessagesCalls, kAny, "", "a text, or an array of blocks"),
    read("messages[].content[].type", kMessagesCalls, kString, "", "`text`; of the user: `tool_result`; of the assistant: `thinking`, `tool_use`"),
    read("messages[].content[].text", kMessagesCalls, kString, "", "the text"),
    read("messages[].content[].thinking", kMessagesCalls, kString, "", "the reasoning of an answer that is sent back"),
    read("messages[].content[].signature", kMessagesCalls, kString, "", "as the answer had it; changed reasoning is refused"),
    read("messages[].content[].id", kMessagesCalls, kString, "", "of the call"),
    read("messages[].content[].name", kMessagesCalls, kString, "", "of the tool that was called"),
    read("messages[].content[].input", kMessagesCalls, kObject, "", "of the call"),
    read("messages[].content[].tool_use_id", kMessagesCalls, kString, "", "which call this result answers"),
    read("messages[].content[].content", kMessagesCalls, kAny, "", "of the result: a text or an array of blocks"),
    read("messages[].content[].content[].type", kMessagesCalls, kString, "", "`text`, or another one, which the prompt names"),
    read("messages[].content[].content[].text", kMessagesCalls, kString, "", "the text"),
    read("messages[].content[].is_error", kMessagesCalls, kBoolean, "false", "`Error:` is written before the result"),
    ignored("messages[].content[].content[].cache_control", kMessagesCalls),
    ignored("messages[].content[].content[].citations", kMessagesCalls),
    ignored("messages[].content[].cache_control", kMessagesCalls),
    ignored("messages[].content[].citations", kMessagesCalls),
    ignored("messages[].content[].caller", kMessagesCalls),
    read("system", kMessagesCalls, kAny, "", "a text, or an array of text blocks; a block that begins with `x-anthropic-billing-header:` is left out"),
    read("system[].type", kMessagesCalls, kString, "", "`text`"),
    read("system[].text", kMessagesCalls, kString, "", "the text"),
    ignored("system[].cache_control", kMessagesCalls),
    ignored("system[].citations", kMessagesCalls),
    read("max_tokens", kInMessages, kInteger, "", "the longest answer, reasoning included; one that the context has no room for is what it has room for; required", 0, kMostTokens),
    read("stop_sequences", kInMessages, kStrings, "", "the answer ends before any of these texts, in its content or its reasoning; calls are not searched", 0, kMaxStopStrings),
    read("stream", kInMessages, kBoolean, "false", "server-sent events"),
    read("tools", kMessagesCalls, kArray, "", "that the model may call; tools of the maker's own types are left out and named"),
    read("tools[].type", kMessagesCalls, kString, "`custom`", "`custom`"),
    read("tools[].name", kMessagesCalls, kString, "", "the tool's name"),
    read("tools[].description", kMessagesCalls, kString, "", "what it does"),
    read("tools[].input_schema", kMessagesCalls, kObject, "", "the JSON Schema of its input"),
    read("tools[].strict", kMessagesCalls, kBoolean, "false", "as in chat"),
    ignored("tools[].cache_control", kMessagesCalls),
    ignored("tools[].input_examples", kMessagesCalls),
    ignored("tools[].eager_input_streaming", kMessagesCalls),
    ignored("tools[].defer_loading", kMessagesCalls),
    ignored("tools[].allowed_callers", kMessagesCalls),
    read("tool_choice", kMessagesCalls, kObject, "`{\"type\": \"auto\"}`", "as in chat"),
    read("tool_choice.type", kMessagesCalls, kString, "", "`auto`, `any`, `tool` or `none`"),
    read("tool_choice.name", kMessagesCalls, kString, "", "with `tool`"),
    read("tool_choice.disable_parallel_tool_use", kMessagesCalls, kBoolean, "false", "as `parallel_tool_calls` false in chat"),
    read("thinking", kMessagesCalls, kObject, "the model's", "reasoning on or off"),
    read("thinking.type", kMessagesCalls, kString, "", "`disabled`, or `enabled`, `adaptive`, `between_tools`, which all turn it on"),
    read("thinking.budget_tokens", kMessagesCalls, kInteger, "", "as `thinking_token_budget` in chat, where that has an effect", 1, kMostTokens),
    ignored("thinking.display", kMessagesCalls),
    read("output_config", kMessagesCalls, kObject, "", "of what form the answer is"),
    read("output_config.effort", kMessagesCalls, kString, "the model's", "as `reasoning_effort` in chat, where reasoning is on"),
    read("output_config.format", kMessagesCalls, kObject, "", "what the answer [is bound to](structured_outputs.md)"),
    read("output_config.format.type", kMessagesCalls, kString, "", "`json_schema`"),
    read("output_config.format.schema", kMessagesCalls, kObject, "", "a JSON Schema"),
    read("output_format", kMessagesCalls, kObject, "", "as `output_config.format`"),
    read("output_format.type", kMessagesCalls, kString, "", "`json_schema`"),
    read("output_format.schema", kMessagesCalls, kObject, "", "a JSON Schema"),
    only("stop", "null", kMessagesCalls, "use stop_sequences"),
    only("container", "null", kMessagesCalls),
    only("mcp_servers", "[]", kMessagesCalls),
    ignored("metadata", kMessagesCalls),
    ignored("cache_control", kMessagesCalls),
    ignored("context_management", kMessagesCalls),
    ignored("speed", kMessagesCalls),
    ignored("inference_geo", kMessagesCalls),
    ignored("betas", kMessagesCalls),

    // POST /tokenize and /detokenize
    read("model", kInTokenize | kInDetokenize, kString, "the model that is served", "its served name; another one is a 404"),
    read("prompt", kInTokenize, kString, "", "the text; or `messages`, with what belongs to them in chat"),
    read("add_special_tokens", kInTokenize, kBoolean, "true", "what the tokenizer puts around a `prompt` by itself, such as BOS"),
    read("return_token_strs", kInTokenize, kBoolean, "false", "the text of each token, too"),
    read("tokens", kInDetokenize, kTokenIds, "", "the ids; required", 0, kMaxDetokenized),
    read("skip_special_tokens", kInDetokenize, kBoolean, "false", "special tokens are not part of the text"),

    // POST /v1/score
    read("model", kInScore, kString, "the model that is served", "its served name; another one is a 404"),
    read("prompt", kInScore, kAny, "", "a text, an array of token ids, or an array of up to 128 of either; required"),
    read("start", kInScore, kInteger, "1", "the first position that is scored; what lies before may come from the prefix cache", 0, kMostTokens),
    read("top", kInScore, kInteger, "0", "also the likeliest tokens at each position", 0, kMaxTopLogprobs),
    read("distributions", kInScore, kBoolean, "false", "also the log-probabilities of all tokens, at most 64 MiB of them"),
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

std::vector<const Field*> fields_of(FieldPlaces place) {
  std::vector<const Field*> out;
  for (const Field& field : kFields) {
    if ((field.places & place) != 0) out.push_back(&field);
  }
  return out;
}

const Field* find_field(FieldPlaces place, std::string_view path) {
  static const auto kByName = [] {
    std::map<std::pair<unsigned, std::string_view>, const Field*> known;
    for (const Field& field : kFields) {
      for (unsigned in = 1; in <= field.places; in <<= 1) {
        if ((field.places & in) != 0) known.emplace(std::pair{in, field.name}, &field);
      }
    }
    return known;
  }();
  const std::string name = without_numbers(path);
  const auto found = kByName.find({place, name});
  return found == kByName.end() ? nullptr : found->second;
}

bool Field::empty_counts() const {
  constexpr std::string_view kTexts[] = {"messages", "prompt", "input", "tokens"};
  return name.find_first_of(".[") != std::string_view::npos || std::ranges::find(kTexts, name) != std::end(kTexts);
}

std::string Field::range() const {
  if (type == kStrings) return fmt::format("up to {}", high);
  if (type == kTokenIds) return fmt::format("up to {}", high);
  if (low == high) return "";
  const auto shown = [&](double bound) -> std::string {
    if (bound == kMostTokens) return "2^31-1";
    return type == kInteger ? fmt::format("{:.0f}", bound) : fmt::format("{}", static_cast<float>(bound));
  };
  return fmt::format("{}…{}", shown(low), shown(high));
}

std::string Field::expected() const {
  switch (type) {
    case kNumber:
      return fmt::format("a number from {} to {}", static_cast<float>(low), static_cast<float>(high));
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
