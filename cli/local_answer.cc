#include "cli/local_answer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/threads/mutex.h"
#include "cli/interrupt.h"
#include "text/generation_stream.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

// While no token comes, Ctrl-C is noticed within this time.
constexpr std::chrono::milliseconds kInterruptPoll{50};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

void OutputQueue::push(std::size_t key, Output output) {
  const MutexLock lock(mutex_);
  items_.push_back({key, std::move(output)});
  ready_.notify_one();
}

std::optional<OutputQueue::Item> OutputQueue::pop(std::chrono::milliseconds timeout) {
  MutexLock lock(mutex_);
  if (!ready_.wait_for(lock, timeout, [this]() SLUICE_REQUIRES(mutex_) { return !items_.empty(); }))
    return std::nullopt;
  Item item = std::move(items_.front());
  items_.pop_front();
  return item;
}

std::string GenerationStats::text() const {
  const double decode_seconds = seconds - first_token_seconds;
  std::string text = fmt::format("prompt {} tokens, first token after {:.3f} s ({:.0f} tokens/s)", prompt_tokens,
                                 first_token_seconds, prompt_tokens / std::max(first_token_seconds, 1e-9));
  text += fmt::format("; answer {} tokens", generated_tokens);
  if (generated_tokens > 1) {
    text += fmt::format(", {:.0f} tokens/s", (generated_tokens - 1) / std::max(decode_seconds, 1e-9));
  }
  return text + (interrupted ? "; interrupted" : fmt::format("; {}", finish_reason));
}

Status GenerationRequest::set_conversation(const Tokenizer& tokenizer, const ChatEncoding& chat,
                                           const ChatRequest& conversation) {
  SLUICE_ASSIGN_OR_RETURN(const ChatPrompt rendered, chat.render(conversation));
  SLUICE_ASSIGN_OR_RETURN(EncodedText encoded, tokenizer.encode(rendered.text, rendered.messages));
  prompt = std::move(encoded.ids);
  message_starts = std::move(encoded.places);
  parser = chat.make_parser(rendered.reasoning_open, offers_tools(conversation));
  return {};
}

Result<int> answer_budget(const Engine& engine, std::size_t prompt_tokens, int wanted) {
  const auto limit = static_cast<std::size_t>(engine.max_model_len());
  if (prompt_tokens < limit) return static_cast<int>(std::min(static_cast<std::size_t>(wanted), limit - prompt_tokens));
  return invalid_argument(
      fmt::format("the prompt: expected fewer tokens than the longest sequence of {}, found {}", limit, prompt_tokens));
}

Result<GenerationStats> generate(const LoadedModel& model, GenerationRequest request,
                                 const std::function<void(const ChatDelta&)>& on_text) {
  GenerationStats stats;
  stats.prompt_tokens = static_cast<int>(request.prompt.size());
  SLUICE_ASSIGN_OR_RETURN(const int max_tokens,
                          answer_budget(*model.engine, request.prompt.size(), request.max_tokens));
  GenerationStream stream(*model.tokenizer, {}, /*logprobs=*/false, std::move(request.parser));
  OutputQueue queue;
  const auto start = Clock::now();
  SLUICE_ASSIGN_OR_RETURN(const RequestId id, model.engine->submit({
                                                  {.max_tokens = max_tokens,
                                                   .stop_token_ids = model.engine->end_token_ids(),
                                                   .sampling = request.sampling,
                                                   .rules = std::move(request.rules),
                                                   .message_starts = std::move(request.message_starts)},
                                                  std::move(request.prompt),
                                                  [&queue](Output o) { queue.push(0, std::move(o)); },
                                              }));
  while (true) {
    const std::optional<OutputQueue::Item> item = queue.pop(kInterruptPoll);
    if (!stats.interrupted && take_interrupt()) {
      stats.interrupted = true;
      model.engine->cancel(id);  // the engine still sends the last output
    }
    if (!item) continue;
    const GenerationDelta delta = stream.push(item->output);
    if (stats.first_token_seconds == 0 && item->output.token) stats.first_token_seconds = seconds_since(start);
    for (const ChatDelta& text : delta.text) on_text(text);
    if (!item->output.finished) continue;
    stats.cached_tokens = stream.cached_tokens();
    stats.generated_tokens = stream.completion_tokens();
    stats.seconds = seconds_since(start);
    stats.finish_reason = delta.finish_reason;
    if (!stats.interrupted) SLUICE_RETURN_IF_ERROR(delta.failure);
    return stats;
  }
}

}  // namespace sluice
