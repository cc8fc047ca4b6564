#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/progress.h"
#include "base/utf8.h"
#include "cli/commands/eval_task.h"
#include "cli/commands/model_commands.h"
#include "cli/commands/perplexity.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/loaded_model.h"
#include "cli/local_answer.h"
#include "cli/model_path.h"
#include "files/json.h"
#include "text/generation_stream.h"

namespace sluice {
namespace {

// An item of the task that runs, and its result.
struct Run {
  std::unique_ptr<GenerationStream> stream;  // null unless the item runs
  RequestId request = 0;
  EvalAnswer answer;
  std::vector<std::int32_t> output_ids;
  double logprob = 0;  // the sum over the whole answer: differs where a greedy choice may still be the same
  bool correct = false;

  void take(const ChatDelta& delta) {
    using Kind = ChatDelta::Kind;
    if (delta.kind == Kind::kContent) answer.content += delta.text;
    if (delta.kind == Kind::kToolCall) answer.calls.push_back({.id = "", .name = delta.text, .arguments = ""});
    if (delta.kind == Kind::kToolCallArguments) answer.calls.back().arguments += delta.text;
  }
};

class Evaluation {
 public:
  Evaluation(const LoadedModel& model, const ChatEncoding& chat, const EvalOptions& options,
             const std::vector<EvalItem>& items)
      : model_(model), chat_(chat), options_(options), items_(items), runs_(items.size()) {}

  // Seconds of the last run(), from the first request to the end of the last, and the processor time of all threads.
  double seconds() const { return seconds_; }
  double processor_seconds() const { return processor_seconds_; }

  Status run() {
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t processor_start = std::clock();
    const Status status = run_all();
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    processor_seconds_ = static_cast<double>(std::clock() - processor_start) / CLOCKS_PER_SEC;
    return status;
  }

  const std::vector<Run>& runs() const { return runs_; }

 private:
  Status run_all() {
    ProgressBar bar("items", ProgressBar::Unit::kItems);
    const auto in_flight = static_cast<std::size_t>(options_.concurrency);
    Status status;
    std::size_t submitted = 0, done = 0;
    while (done < submitted || (status.ok() && done < items_.size())) {
      while (status.ok() && submitted < items_.size() && submitted - done < in_flight) {
        status = submit(submitted);
        if (status.ok()) ++submitted;
      }
      if (done == submitted) break;
      if (status.ok() && take_interrupt()) status = {StatusCode::kCancelled, "interrupted"};
      if (!status.ok()) cancel_all();  // items that run still report their end
      if (const auto item = queue_.pop(std::chrono::milliseconds(50))) {
        Status failure;
        if (take(item->key, item->output, failure)) ++done;
        if (status.ok()) status = failure;
      }
      bar.update(done, items_.size());
    }
    return status;
  }

  Status submit(std::size_t index) {
    const EvalItem& item = items_[index];
    const Status status = try_submit(index);
    return status.with_context(fmt::format("item {}", item.id));
  }

  Status try_submit(std::size_t index) {
    GenerationRequest request;
    SLUICE_RETURN_IF_ERROR(request.set_conversation(*model_.tokenizer, chat_, items_[index].request));
    SLUICE_ASSIGN_OR_RETURN(const int max_tokens,
                            answer_budget(*model_.engine, request.prompt.size(), options_.max_tokens));
    runs_[index].stream = std::make_unique<GenerationStream>(*model_.tokenizer, std::vector<std::string>(),
                                                             /*logprobs=*/false, std::move(request.parser));
    SLUICE_ASSIGN_OR_RETURN(runs_[index].request,
                            model_.engine->submit({{.max_tokens = max_tokens,
                                                    .stop_token_ids = model_.engine->end_token_ids(),
                                                    .sampling = {.temperature = 0.0F, .top_logprobs = 0},
                                                    .message_starts = std::move(request.message_starts)},
                                                   std::move(request.prompt),
                                                   [this, index](Output o) { queue_.push(index, std::move(o)); }}));
    return {};
  }

  // Returns true when the item is done.
  bool take(std::size_t index, const Output& output, Status& failure) {
    Run& run = runs_[index];
    if (output.token) {
      run.output_ids.push_back(*output.token);
      run.logprob += static_cast<double>(output.logprob);
    }
    const GenerationDelta delta = run.stream->push(output);
    for (const ChatDelta& text : delta.text) run.take(text);
    if (!output.finished) return false;
    if (!delta.failure.ok()) failure = delta.failure.with_context(fmt::format("item {}", items_[index].id));
    run.correct = items_[index].accepts(run.answer);
    run.stream.reset();
    if (!run.correct) log_debug("{}: wrong: {}", items_[index].id, run.answer.content);
    return true;
  }

  void cancel_all() {
    for (const Run& run : runs_) {
      if (run.stream != nullptr) model_.engine->cancel(run.request);
    }
  }

  const LoadedModel& model_;
  const ChatEncoding& chat_;
  const EvalOptions& options_;
  const std::vector<EvalItem>& items_;
  std::vector<Run> runs_;
  OutputQueue queue_;
  double seconds_ = 0, processor_seconds_ = 0;
};

// `stats`: what happened on the way.
std::string results_json(const std::vector<EvalItem>& items, const Evaluation& evaluation, std::size_t correct,
                         const EngineStats& stats) {
  const std::vector<Run>& runs = evaluation.runs();
  std::string json = fmt::format(
      "{{\"n\": {}, \"correct\": {}, \"seconds\": {:.4f}, \"processor_seconds\": {:.4f}, \"steps\": {}, "
      "\"preemptions\": {}, \"resumed_tokens\": {}, "
      "\"drafted_by_depth\": [{}], \"accepted_by_depth\": [{}], \"items\": [",
      items.size(), correct, evaluation.seconds(), evaluation.processor_seconds(), stats.steps,
      stats.preemptions_recompute + stats.preemptions_swap, stats.cache.resumed_tokens,
      fmt::join(stats.drafts.drafted_by_depth, ", "), fmt::join(stats.drafts.accepted_by_depth, ", "));
  for (std::size_t i = 0; i < items.size(); ++i) {
    json += i == 0 ? "\n  {\"id\": " : ",\n  {\"id\": ";
    append_json_string(json, items[i].id);
    fmt::format_to(std::back_inserter(json), ", \"correct\": {}, \"logprob\": {}, \"output_ids\": [{}]}}",
                   runs[i].correct, runs[i].logprob, fmt::join(runs[i].output_ids, ", "));
  }
  return json + "\n]}\n";
}

Status write_results(const std::string& path, const std::string& json) {
  std::ofstream file(path, std::ios::binary);
  file << json;
  file.close();
  return file ? Status() : invalid_argument(fmt::format("--json {}: cannot be written", path));
}

Status evaluate(const EvalOptions& options) {
  if (options.task.empty() == options.perplexity.empty()) {
    return invalid_argument("what to evaluate: expected one of --task and --perplexity");
  }
  if (!options.perplexity.empty()) {
    return measure_perplexity({.engine = options.engine,
                               .text = options.perplexity,
                               .window = options.window,
                               .against = options.against,
                               .json = options.json});
  }
  constexpr int kMaxConcurrency = 1 << 16;
  if (options.concurrency < 1 || options.concurrency > kMaxConcurrency) {
    return invalid_argument(
        fmt::format("--concurrency: expected 1 to {}, found {}", kMaxConcurrency, options.concurrency));
  }
  if (options.max_tokens < 1) {
    return invalid_argument(fmt::format("--max-tokens: expected at least 1, found {}", options.max_tokens));
  }
  if (options.limit < 0) {
    return invalid_argument(fmt::format("--limit: expected at least 0 (0: all items), found {}", options.limit));
  }
  SLUICE_ASSIGN_OR_RETURN(std::vector<EvalItem> items, load_eval_task(options.task));
  if (options.limit > 0) items.resize(std::min(items.size(), static_cast<std::size_t>(options.limit)));
  EngineSetup engine = options.engine;
  SLUICE_ASSIGN_OR_RETURN(engine.model.folder, resolve_model(options.engine.model));
  SLUICE_ASSIGN_OR_RETURN(const LoadedModel model, load_model_for_text(engine, options.chat));
  SLUICE_ASSIGN_OR_RETURN(const ChatEncoding* chat, model.require_chat());

  catch_interrupts();
  Evaluation evaluation(model, *chat, options, items);
  SLUICE_RETURN_IF_ERROR(evaluation.run());
  const auto correct =
      static_cast<std::size_t>(std::ranges::count_if(evaluation.runs(), [](const Run& run) { return run.correct; }));
  if (!options.json.empty()) {
    SLUICE_RETURN_IF_ERROR(
        write_results(options.json, results_json(items, evaluation, correct, model.engine->stats())));
  }
  fmt::print("{:<24} {:>6} {:>8} {:>8}\n", "task", "n", "correct", "%");
  fmt::print("{:<24} {:>6} {:>8} {:>8.2f}\n", to_valid_utf8(std::filesystem::path(options.task).stem().string()),
             items.size(), correct, 100.0 * static_cast<double>(correct) / static_cast<double>(items.size()));
  return {};
}

}  // namespace

int run_eval(const EvalOptions& options) {
  return report(evaluate(options));
}

}  // namespace sluice
