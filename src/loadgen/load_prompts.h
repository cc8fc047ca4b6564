// The requests that a load generator sends: the content of each body; the trace says when it is sent.
//
// A trace (sim/trace.h) has lengths and block ids, no text. Its prompts are made of 4,096 invented words of two
// syllables, or of token ids. Equal block ids give equal text at equal places, so prefix caches see the trace's hits.
// The tokens of a word depend on the server's tokenizer, so they are measured (WordScale); the server's usage then
// tells how long prompts really were. Conversations are a file of JSON lines: {"messages": [{"role", "content"}, ...]},
// or ShareGPT's {"conversations":
// [{"from", "value"}, ...]}. Each user's message is a request; what the server answered stands in the next one.
// Thread safety: one thread at a time.
// Used by conversations_file.cc and load_run.h.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <memory>
#include <string>
#include <vector>

#include "sim/trace.h"
#include "sluice/status.h"

namespace sluice {

enum class LoadEndpoint {
  kChat,         // POST /v1/chat/completions
  kCompletions,  // POST /v1/completions with text
  kIds,          // the same with token ids: lengths are exact; vLLM, SGLang and this server take them
};
Result<LoadEndpoint> parse_load_endpoint(const std::string& name);  // chat, completions, ids
const char* endpoint_path(LoadEndpoint endpoint);

// The options that all bodies of a run have in common.
struct BodyOptions {
  LoadEndpoint endpoint = LoadEndpoint::kChat;
  std::string model;
  bool stream = true, logprobs = false, ignore_eos = true;
  double temperature = 0;
  std::uint64_t seed = 0;     // request i has seed + i, where temperature is above 0
  boost::json::object extra;  // goes over everything else
};

// Tokens of a prompt of w words: base + w * per_word.
struct WordScale {
  double base = 0, per_word = 1.5;
  int words(int tokens) const;  // at least 1
};

class LoadPrompts {
 public:
  virtual ~LoadPrompts() = default;
  // Adds "messages" or "prompt".
  virtual void add_prompt(std::size_t request, boost::json::object& body) const = 0;
  virtual void answered(std::size_t request, const std::string& text);  // by default nothing
};

struct LoadPlan {
  Trace trace;
  std::unique_ptr<LoadPrompts> prompts;
};

// Invented text of `words` words, the w-th of which stands for the position w * tokens / words of the trace's request.
std::string trace_text(const Trace& trace, std::size_t request, int words);

// `salt`: plans of different salts have no text in common, so that a run finds nothing that an earlier one left in a
// server's cache. Within a plan the trace's common blocks stay common.
LoadPlan plan_of_trace(Trace trace, LoadEndpoint endpoint, WordScale scale, std::uint64_t salt);

struct ConversationOptions {
  int output = 128;        // tokens an answer
  double think_ms = 0;     // between an answer and the next message
  double rate = 0;         // conversations that begin a second, a Poisson process; 0: all are there at once
  int most = 1 << 20;      // conversations
  std::uint64_t seed = 0;  // the process's seed
};
// Errors name the line. Conversations without a user's message are left out.
Result<LoadPlan> plan_of_conversations(const std::string& path, const ConversationOptions& options);

// The whole body of a request.
std::string request_body(const LoadPlan& plan, std::size_t request, const BodyOptions& options);

}  // namespace sluice
