// Generation: one answer of the engine, received on the caller's thread while it is generated.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/threads/mutex.h"
#include "cli/loaded_model.h"
#include "sluice/engine.h"
#include "sluice/sampling.h"
#include "sluice/status.h"
#include "text/chat/chat.h"

namespace sluice {

// The outputs of several requests, from the engine's thread to the one that waits for them. Must outlive the engine's
// last callback: declare it before the engine's requests are submitted and drain or cancel them.
class OutputQueue {
 public:
  struct Item {
    std::size_t key;
    Output output;
  };

  void push(std::size_t key, Output output);
  // No value if none came within `timeout`.
  std::optional<Item> pop(std::chrono::milliseconds timeout);

 private:
  Mutex mutex_;
  Condition ready_;
  std::deque<Item> items_ SLUICE_GUARDED_BY(mutex_);
};

struct GenerationRequest {
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> message_starts = {};  // see Request::message_starts
  std::unique_ptr<ChatOutputParser> parser;       // null: raw text
  SamplingParams sampling;
  std::shared_ptr<const TokenRules> rules = {};  // null: none
  int max_tokens = 0;                            // cut to what the context still holds

  // The prompt, its message starts and the parser of a conversation's next answer.
  Status set_conversation(const Tokenizer& tokenizer, const ChatEncoding& chat, const ChatRequest& conversation);
};

struct GenerationStats {
  int prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
  double first_token_seconds = 0, seconds = 0;
  bool interrupted = false;   // SIGINT ended the answer
  std::string finish_reason;  // "stop", "length", "tool_calls"; "" when interrupted
  std::string text() const;   // a line for the log
};

// Returns how many tokens may follow the prompt: `wanted`, or fewer up to max_model_len; an error if not even one.
Result<int> answer_budget(const Engine& engine, std::size_t prompt_tokens, int wanted);

// Runs the request to its end, or until SIGINT (see interrupt.h), which cancels it.
Result<GenerationStats> generate(const LoadedModel& model, GenerationRequest request,
                                 const std::function<void(const ChatDelta&)>& on_text);

}  // namespace sluice
