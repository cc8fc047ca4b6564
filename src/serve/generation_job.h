// GenerationJob: one generating request, from the engine's first token to the answer's last byte.
//
// Each choice of the answer is a request to the engine. Its outputs arrive on the engine's thread and are only queued
// there; the network thread makes text of them and sends it. A client that leaves, an error and a stop string cancel
// what still runs. Ownership: the engine's callbacks and the exchange's tasks keep the job alive.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "serve/api_context.h"
#include "serve/generation_stream.h"
#include "serve/http.h"
#include "serve/openai_response.h"

namespace sluice {

struct GenerationChoice {
  std::vector<std::int32_t> prompt;
  std::unique_ptr<ChatOutputParser> parser;  // null: raw text
};

struct GenerationPlan {
  GenerationOptions options;
  std::vector<GenerationChoice> choices;
  std::unique_ptr<AnswerWriter> writer;
};

class GenerationJob final : public Cancellable, public std::enable_shared_from_this<GenerationJob> {
 public:
  // Submits every choice and answers the exchange, now or later. `context` must outlive the network thread.
  static void start(ApiContext& context, HttpExchangePtr exchange, GenerationPlan plan);

  void cancel() override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Choice {
    GenerationStream stream;
    RequestId id = 0;
    int prompt_tokens = 0;
    bool done = false;
    Clock::time_point last_token;
  };
  struct Event {
    std::size_t choice;
    Output output;
    Clock::time_point at;
  };

  GenerationJob(ApiContext& context, HttpExchangePtr exchange, GenerationPlan& plan);
  Status submit_all(std::vector<GenerationChoice>& choices);
  Result<RequestId> submit(std::size_t choice, std::vector<std::int32_t> prompt);
  void on_output(std::size_t choice, Output output);
  void open();
  void pump();
  void take(Event& event, std::string& text);
  void fail(const ApiError& error, std::string text);
  void complete(std::string text);
  Usage usage() const;

  ApiContext& context_;
  const HttpExchangePtr exchange_;
  const GenerationOptions options_;
  const Clock::time_point started_ = Clock::now();

  // On the network thread only, once the job is open.
  std::unique_ptr<AnswerWriter> writer_;
  std::vector<Choice> choices_;
  std::size_t open_choices_;
  bool ended_ = false;

  std::mutex mutex_;
  std::vector<Event> events_;
  std::vector<RequestId> submitted_;
  bool is_open_ = false;  // events may be pumped
  bool cancelled_ = false;
};

}  // namespace sluice
