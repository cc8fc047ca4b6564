// The JSON of the OpenAI API's answers, whole and streamed.
//
// An AnswerWriter turns the deltas of a request's choices into the bytes to send: server-sent events as they come, or
// one JSON object at the end. Thread safety: belongs to one request.
// Used by serve/api/agents, serve/api/openai, serve/generate, serve/http and serve/observe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api/api_error.h"
#include "text/generation_stream.h"

namespace sluice {

struct AnswerHead {
  std::string id;  // "chatcmpl-...", "cmpl-..."
  std::int64_t created = 0;
  std::string model;
  std::string fingerprint;                // the engine's numerics profile
  std::vector<std::uint64_t> seeds = {};  // one for each prompt, where they were drawn; else none
  std::string weights_version = {};       // once something was computed
};

struct Usage {
  int prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0, reasoning_tokens = 0;
  // Tokens of the request's prediction, over all choices: those that were right when they were drafted, and the others.
  int accepted_prediction_tokens = 0, rejected_prediction_tokens = 0;
};

class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  // Writes the text that is sent before the first token. `so_far` here and below: what the request has used so far.
  virtual void begin(const Usage& so_far, std::string& out) = 0;
  virtual void delta(int choice, const GenerationDelta& delta, const Usage& so_far, std::string& out) = 0;
  // After the last delta of every choice.
  virtual void end(const Usage& usage, std::string& out) = 0;
  // A stream that fails; nothing comes after it.
  virtual void fail(const ApiError& error, const Usage& so_far, std::string& out);
  // A piece that a stream's reader skips, complete with its empty line.
  virtual std::string_view filler() const { return ":\n\n"; }  // a comment
};

// The index of a delta says which of the `choices` choices it belongs to. `token_text` gives the bytes of a token, for
// log-probabilities.
struct AnswerForm {
  AnswerHead head;
  int choices = 1;
  bool logprobs = false;
  bool include_usage = false;     // streams: a last event with the usage
  bool continuous_usage = false;  // and in every event before it the usage so far
  std::vector<std::string> echo;  // completions: the text before each choice, or empty
  bool echo_logprobs = false;     // and its log-probabilities, with this many of the best:
  int top_logprobs = 0;
  int prompt_logprobs = -1;  // k >= 0: those of the prompt and of the k best, apart from the answer's
  bool token_ids = false;    // the ids of prompt and answer
  bool experts = false, indices = false;
  // If any of these is asked for: the ids of each prompt, which has `choices` / prompts choices.
  std::vector<std::vector<std::int32_t>> prompts;

  bool wants_prompts() const { return token_ids || prompt_logprobs >= 0 || echo_logprobs || experts || indices; }
  const std::vector<std::int32_t>& prompt_of(int choice) const {
    return prompts[static_cast<std::size_t>(choice) * prompts.size() / static_cast<std::size_t>(choices)];
  }
  std::function<std::string(std::int32_t)> token_text;
  std::function<bool(std::int32_t)> is_special;
  bool shows_special = false;                // the answer's text shows special tokens
  std::vector<std::int32_t> stop_token_ids;  // the client's

  bool hides(std::int32_t token) const { return !shows_special && is_special(token); }
};

std::unique_ptr<AnswerWriter> make_chat_writer(AnswerForm form, bool stream);
std::unique_ptr<AnswerWriter> make_completion_writer(AnswerForm form, bool stream);

// "prefix" and 24 random letters and digits.
std::string random_id(std::string_view prefix);
// One server-sent event.
void append_event(std::string& out, std::string_view data);

// Pieces of JSON that the answers of both generating calls share. All append to `out`.

// {"id":...,"object":OBJECT,"created":...,"model":...,"system_fingerprint":...  without the closing brace; after it
// "seed" of the one prompt or "seeds", where they were drawn
void append_head(std::string& out, const AnswerHead& head, std::string_view object);
// "usage":{...}
void append_usage(std::string& out, const Usage& usage);
// The last events of a stream: its usage, where that was asked for, and [DONE].
void append_stream_end(std::string& out, const AnswerForm& form, std::string_view object, const Usage& usage);
// ,"usage":... of an event that is not the last, or nothing: null if the last one will have it, as in OpenAI's API.
void append_usage_so_far(std::string& out, const Usage& usage, const AnswerForm& form);
// A token's bytes as a JSON string; bytes that are not UTF-8 become U+FFFD.
void append_token_text(std::string& out, std::string_view bytes);
// ,"NAME":[1,2]
void append_ids(std::string& out, std::string_view name, const std::vector<std::int32_t>& ids);
// ,"prompt_logprobs":[null,{"ID":{"logprob":-0.1,"rank":1,"decoded_token":"..."},...},...]: of each token of `prompt`
// its own, then those of the best; null where there is none. Nothing if they were not asked for.
void append_prompt_logprobs(std::string& out, const std::vector<std::int32_t>& prompt, const PromptLogprobs* logprobs,
                            const AnswerForm& form);
// BASE64 of little-endian numbers.
std::string base64(std::string_view bytes);
// The layers' choices at all positions of a choice, except its last token's.
class ExportReport {
 public:
  void add(const GenerationDelta& delta);
  // ,"routed_experts":{"shape":[tokens - 1, layers, slots],"dtype":"uint8","layers":[...],"data":BASE64} and
  // ,"sparse_indices":{...,"tokens_per_entry":4,...}, -1 after the entries of a row; what was asked for.
  void append(std::string& out, std::size_t prompt_tokens, const AnswerForm& form) const;

 private:
  ExportedRows rows_;
  std::size_t tokens_ = 0;  // the answer's tokens
};
// The items of a list of log-probabilities, of the tokens of `delta`, with a comma before each but the first of `out`:
// {"token":"...","logprob":-0.1,"bytes":[104],"top_logprobs":[...]}
void append_token_logprobs(std::string& out, const GenerationDelta& delta, const AnswerForm& form);
// The reason why an answer stopped, in vLLM's form: the stop string, the id of the client's stop token, or null.
std::string stop_reason_json(const GenerationDelta& delta, const AnswerForm& form);
// A log-probability; JSON has no infinities, so -inf is written as -9999, as OpenAI does.
void append_logprob(std::string& out, float logprob);

}  // namespace sluice
