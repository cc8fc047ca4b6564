// The JSON of the OpenAI API's answers, whole and streamed.
//
// An AnswerWriter turns the deltas of a request's choices into the bytes to send: server-sent events as they come, or
// one JSON object at the end. Thread safety: belongs to one request.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/generation_stream.h"

namespace sluice {

struct AnswerHead {
  std::string id;  // "chatcmpl-...", "cmpl-..."
  std::int64_t created = 0;
  std::string model;
  std::string fingerprint;                // the engine's numerics profile
  std::vector<std::uint64_t> seeds = {};  // of each prompt, where they were drawn; else none
};

struct Usage {
  int prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0, reasoning_tokens = 0;
  // Of the request's prediction, for each choice: that were right when they were drafted, and the others.
  int accepted_prediction_tokens = 0, rejected_prediction_tokens = 0;
};

class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  // What is sent before the first token. `so_far` here and below: what the request has used so far.
  virtual void begin(const Usage& so_far, std::string& out) = 0;
  virtual void delta(int choice, const GenerationDelta& delta, const Usage& so_far, std::string& out) = 0;
  // After the last delta of every choice.
  virtual void end(const Usage& usage, std::string& out) = 0;
};

// Deltas of the `choices` choices are told apart by their index. `token_text` gives the bytes of a token, for
// log-probabilities.
struct AnswerForm {
  AnswerHead head;
  int choices = 1;
  bool logprobs = false;
  bool include_usage = false;     // streams: a last event with the usage
  bool continuous_usage = false;  // and in every event before it the usage so far
  std::vector<std::string> echo;  // completions: the text before each choice, or empty
  std::function<std::string(std::int32_t)> token_text;
};

std::unique_ptr<AnswerWriter> make_chat_writer(AnswerForm form, bool stream);
std::unique_ptr<AnswerWriter> make_completion_writer(AnswerForm form, bool stream);

// "prefix" and 24 random letters and digits.
std::string random_id(std::string_view prefix);
// One server-sent event.
void append_event(std::string& out, std::string_view data);

// Pieces of JSON that the answers of both generating calls share. All append to `out`.

// {"id":...,"object":OBJECT,"created":...,"model":...,"system_fingerprint":...  without the closing brace; behind it
// "seed" of the one prompt or "seeds", where they were drawn
void append_head(std::string& out, const AnswerHead& head, std::string_view object);
// "usage":{...}
void append_usage(std::string& out, const Usage& usage);
// ,"usage":... of an event that is not the last, or nothing: null if the last one will have it, as in OpenAI's API.
void append_usage_so_far(std::string& out, const Usage& usage, const AnswerForm& form);
// A token's bytes as a JSON string; bytes that are not UTF-8 become U+FFFD.
void append_token_text(std::string& out, std::string_view bytes);
// A log-probability; JSON has no infinities, so -inf is written as -9999, as OpenAI does.
void append_logprob(std::string& out, float logprob);

}  // namespace sluice
