// GenerationJob: one generating request, from the engine's first token to the answer's last byte.
//
// Each prompt is one request to the engine, for all its choices. Their outputs arrive on the engine's thread and are
// only queued there; the network thread turns them into text and sends it. A stop string cancels the rest of its
// choice; an error, or a client that leaves, cancels everything. However the request ends, it does so in end(), which
// is where the metrics hear of it. Ownership: the engine's callbacks and the exchange's tasks keep the job alive.
// Used by answer_plan.h and answer_planners.cc.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/threads/mutex.h"
#include "serve/api/api_context.h"
#include "serve/api/openai/openai_response.h"
#include "serve/http/http.h"
#include "text/generation_stream.h"

namespace sluice {

struct PromptTokens {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> message_starts;
  std::vector<std::int32_t> prediction = {};  // the answer that the client expects
  std::uint64_t seed = 0;                     // the request's, or drawn
};

struct GenerationPlan {
  std::string id;  // the answer's id, for the log
  GenerationOptions options;
  std::vector<PromptTokens> prompts;
  std::shared_ptr<const TokenConstraint> constraint;               // binds every choice
  std::shared_ptr<const TokenRules> rules;                         // null: none
  std::function<std::unique_ptr<ChatOutputParser>()> make_parser;  // one for each choice; none: raw text
  std::shared_ptr<Waiting::Place> place;                           // released at the first token
  std::unique_ptr<AnswerWriter> writer;  // writes prompts.size() * options.best_of choices, prompt by prompt
};

class GenerationJob final : public Cancellable, public std::enable_shared_from_this<GenerationJob> {
 public:
  // Submits every prompt and answers the exchange, now or later. `context` must outlive the network thread.
  static void start(ApiContext& context, HttpExchangePtr exchange, GenerationPlan plan);

  void cancel() override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Prompt {
    RequestId id = 0;
    int tokens = 0, predicted = 0;  // tokens of the prompt, and of the prediction
  };
  struct Choice {
    GenerationStream stream;
    Clock::time_point last_token;
    std::string_view finish_reason = {};  // "": it goes on
    int accepted_prediction = 0;          // tokens
  };
  struct Event {
    std::size_t prompt;
    Output output;
    Clock::time_point at;
  };

  GenerationJob(ApiContext& context, HttpExchangePtr exchange, GenerationPlan& plan);
  Status submit_all(std::vector<PromptTokens>& prompts);
  Result<RequestId> submit(std::size_t index, PromptTokens prompt);
  void on_output(std::size_t prompt, Output output);
  void open();
  void pump();
  void take(Event& event, std::string& text);
  void write(std::string piece);
  bool begin_end(Fate fate);
  void end(Fate fate);
  void fail(Fate fate, const ApiError& error, std::string text);
  void expire();
  void leave();
  void hold(bool is_full);
  void record_token(const Event& event);
  void complete(std::string text);
  Usage usage() const;

  ApiContext& context_;
  const HttpExchangePtr exchange_;
  const std::string id_;
  const GenerationOptions options_;
  const std::shared_ptr<const TokenConstraint> constraint_;
  const std::shared_ptr<const TokenRules> rules_;
  const std::function<Clock::time_point()> now_;  // a copy: outputs may come after the server is gone
  const Clock::time_point started_;
  ServedRequest& record_;  // the exchange's

  // These are used on the network thread only, once the job is open.
  std::shared_ptr<Waiting::Place> place_;
  std::unique_ptr<AnswerWriter> writer_;
  std::string prompt_text_;  // for --log-text
  std::vector<Prompt> prompts_;
  std::vector<Choice> choices_;  // best_of for each prompt
  std::size_t open_choices_;
  std::string weights_version_;
  bool ended_ = false;
  bool is_held_ = false;  // the client has too much left to read
  // When the first token was made of what has yet to be written; unset: none.
  Clock::time_point unwritten_since_{};

  Mutex mutex_;
  std::vector<Event> events_ SLUICE_GUARDED_BY(mutex_);
  std::vector<RequestId> submitted_ SLUICE_GUARDED_BY(mutex_);
  bool is_open_ SLUICE_GUARDED_BY(mutex_) = false;  // events may be pumped
  bool cancelled_ SLUICE_GUARDED_BY(mutex_) = false;
  Fate early_ SLUICE_GUARDED_BY(mutex_) = Fate::kNone;  // it was late, or left, before it was open
};

}  // namespace sluice
