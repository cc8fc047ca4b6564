#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/progress.h"
#include "base/storage/mapped_file.h"
#include "base/threads/machine.h"
#include "cli/commands/model_commands.h"
#include "cli/exit_code.h"
#include "cli/model_path.h"
#include "config/model_config.h"
#include "engine/engine_options.h"
#include "engine/runner/runner.h"
#include "engine/step/sampler.h"
#include "files/safetensors_writer.h"

namespace sluice {

namespace {

// Reads token ids: decimal numbers from 0 to below 2^31, split by commas or white space, at least one. `what` names the
// text in messages ("--ids").
Result<std::vector<std::int32_t>> parse_numbers(std::string_view text, std::string_view what) {
  constexpr std::string_view kSeparators = ", \t\r\n";
  constexpr std::size_t kShown = 32;
  std::vector<std::int32_t> numbers;
  std::size_t at = 0;
  while ((at = text.find_first_not_of(kSeparators, at)) != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(kSeparators, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    std::int32_t number = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc{} || stop != word.data() + word.size() || number < 0) {
      return invalid_argument(
          fmt::format("{}: expected decimal numbers from 0, split by commas or white space, found "
                      "'{}' as number {}",
                      what, word.substr(0, kShown), numbers.size()));
    }
    numbers.push_back(number);
    at = end;
  }
  if (numbers.empty()) return invalid_argument(fmt::format("{}: expected at least one number, found none", what));
  return numbers;
}

struct Task {
  std::vector<TokenId> ids;
  std::vector<std::int32_t> positions;  // ascending
};

Result<Task> read_task(const LogitsOptions& options) {
  Task task;
  if (options.ids.empty() == options.ids_file.empty()) {
    return invalid_argument("the tokens: expected one of --ids and --ids-file");
  }
  if (options.greedy < 0) {
    return invalid_argument(fmt::format("--greedy: expected 0 or more tokens, found {}", options.greedy));
  }
  std::string text = options.ids;
  if (!options.ids_file.empty()) {
    SLUICE_ASSIGN_OR_RETURN(text, read_text_file(options.ids_file));
  }
  SLUICE_ASSIGN_OR_RETURN(task.ids, parse_numbers(text, options.ids_file.empty() ? "--ids" : options.ids_file));
  if (options.positions.empty()) {
    task.positions.resize(task.ids.size());
    std::iota(task.positions.begin(), task.positions.end(), 0);
    return task;
  }
  SLUICE_ASSIGN_OR_RETURN(task.positions, parse_numbers(options.positions, "--positions"));
  std::ranges::sort(task.positions);
  if (const auto twice = std::ranges::adjacent_find(task.positions); twice != task.positions.end()) {
    return invalid_argument(fmt::format("--positions: {} is there twice", *twice));
  }
  if (static_cast<std::size_t>(task.positions.back()) >= task.ids.size()) {
    return invalid_argument(fmt::format("--positions: expected positions in [0, {}), one for each id, found {}",
                                        task.ids.size(), task.positions.back()));
  }
  return task;
}

Status check_size(const Runner& runner, const Task& task, int greedy) {
  const std::size_t tokens = task.ids.size() + static_cast<std::size_t>(std::max(greedy - 1, 0));
  const auto limit = static_cast<std::size_t>(runner.limits().max_model_len);
  if (tokens > limit) {
    return invalid_argument(
        fmt::format("{} ids and {} greedy ones: expected at most {} tokens to compute (--max-model-len), found {}",
                    task.ids.size(), greedy, limit, tokens));
  }
  const std::size_t bytes = task.positions.size() * runner.limits().vocab_size * sizeof(float);
  if (bytes <= usable_memory() / 2) return {};
  return resource_exhausted(
      fmt::format("the logits of {} positions take {}, more than half of the memory: ask for "
                  "fewer --positions at a time",
                  task.positions.size(), format_bytes(static_cast<double>(bytes))));
}

// LongRoPE's factors follow from the longest sequence: the one that there is, unless --max-model-len says more.
Status choose_longest(const Task& task, int greedy, ModelOptions& model) {
  if (model.max_model_len > 0) return {};
  SLUICE_ASSIGN_OR_RETURN(const ModelConfig config, load_model_config(model.folder));
  const std::size_t tokens = task.ids.size() + static_cast<std::size_t>(std::max(greedy - 1, 0));
  if (config.rope.longrope() && tokens <= static_cast<std::size_t>(config.max_position_embeddings)) {
    model.max_model_len = static_cast<int>(tokens);
  }
  return {};
}

// Appends the logits of task.positions to `out`, in chunks of at most `chunk` rows. With `last` set, the runner then
// has the logits of the last id.
Status compute(Runner& runner, StateSlot sequence, const Task& task, int chunk, bool last, std::vector<float>& out) {
  out.reserve(task.positions.size() * runner.limits().vocab_size);
  ProgressBar bar("computing", ProgressBar::Unit::kItems);
  std::size_t next = 0;  // index into task.positions
  std::vector<int> rows;
  for (std::size_t begin = 0; begin < task.ids.size();) {
    const std::size_t count = std::min(static_cast<std::size_t>(chunk), task.ids.size() - begin);
    const std::size_t end = begin + count;
    rows.clear();
    for (; next < task.positions.size() && static_cast<std::size_t>(task.positions[next]) < end; ++next) {
      rows.push_back(task.positions[next] - static_cast<int>(begin));
    }
    const std::size_t wanted = rows.size();
    const int last_row = static_cast<int>(count) - 1;
    if (last && end == task.ids.size() && (rows.empty() || rows.back() != last_row)) rows.push_back(last_row);
    const StepSpan span{.sequence = sequence, .ids = {task.ids.data() + begin, count}, .logit_rows = rows};
    SLUICE_RETURN_IF_ERROR(runner.run_step({&span, 1}));
    const std::span<const float> logits = runner.logits().all().first(wanted * runner.limits().vocab_size);
    SLUICE_RETURN_IF_ERROR(runner.exec().device->status());
    out.insert(out.end(), logits.begin(), logits.end());
    begin = end;
    bar.update(end, task.ids.size());
  }
  return {};
}

// Continues after the runner's last row. End tokens do not end the text here.
Result<std::vector<std::int64_t>> continue_greedily(Runner& runner, StateSlot sequence, int count) {
  std::vector<std::int64_t> tokens;
  ProgressBar bar("continuing", ProgressBar::Unit::kItems);
  const SamplingParams greedy{.temperature = 0.0F};
  std::span<const float> logits = runner.logits().all();
  logits = logits.last(runner.limits().vocab_size);
  while (true) {
    Sampled sampled;
    SLUICE_RETURN_IF_ERROR(sample_one(runner.exec(), logits, greedy, runner.sequences().position(sequence), &sampled));
    tokens.push_back(sampled.token);
    bar.update(tokens.size(), static_cast<std::size_t>(count));
    if (static_cast<int>(tokens.size()) == count) return tokens;
    const int row = 0;
    const StepSpan span{.sequence = sequence, .ids = {&sampled.token, 1}, .logit_rows = {&row, 1}};
    SLUICE_RETURN_IF_ERROR(runner.run_step({&span, 1}));
    logits = runner.logits().all();
    SLUICE_RETURN_IF_ERROR(runner.exec().device->status());
  }
}

template <class T>
TensorSource source(const char* name, DType dtype, std::vector<std::int64_t> shape, const std::vector<T>& values) {
  TensorSource tensor;
  tensor.name = name;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.data = std::as_bytes(std::span(values));
  return tensor;
}

Status compute_logits(const LogitsOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const Task task, read_task(options));
  EngineSetup engine = options.engine;
  SLUICE_ASSIGN_OR_RETURN(engine.model.folder, resolve_model(options.engine.model));
  engine.scheduler.max_num_seqs = 1;
  engine.scheduler.max_num_batched_tokens = resolve_step_rows(engine);  // no caller waits for the end of a step
  SLUICE_RETURN_IF_ERROR(choose_longest(task, options.greedy, engine.model));
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<Runner> runner, Runner::load(engine));
  SLUICE_RETURN_IF_ERROR(check_size(*runner, task, options.greedy));
  SLUICE_ASSIGN_OR_RETURN(const StateSlot sequence, runner->sequences().open());

  std::vector<float> logits;
  SLUICE_RETURN_IF_ERROR(
      compute(*runner, sequence, task, engine.scheduler.max_num_batched_tokens, options.greedy > 0, logits));
  std::vector<std::int64_t> greedy;
  if (options.greedy > 0) {
    SLUICE_ASSIGN_OR_RETURN(greedy, continue_greedily(*runner, sequence, options.greedy));
  }
  runner->sequences().close(sequence);

  const std::vector<std::int64_t> positions(task.positions.begin(), task.positions.end());
  const auto count = static_cast<std::int64_t>(positions.size());
  std::vector<TensorSource> tensors{
      source("logits", DType::kF32, {count, static_cast<std::int64_t>(runner->limits().vocab_size)}, logits),
      source("positions", DType::kI64, {count}, positions)};
  if (options.greedy > 0) tensors.push_back(source("greedy", DType::kI64, {options.greedy}, greedy));
  SLUICE_RETURN_IF_ERROR(write_safetensors(options.out, tensors, {{"profile", runner->model().profile().text()}}));
  log_info("wrote {}: logits [{}, {}], {}", options.out, count, runner->limits().vocab_size,
           runner->model().profile().text());
  return {};
}

}  // namespace

int run_logits(const LogitsOptions& options) {
  return report(compute_logits(options));
}

}  // namespace sluice
