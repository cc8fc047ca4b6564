// The command `sluice score`: writes a model's scores for the tokens of given texts to a safetensors file.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <cstdint>
#include <deque>
#include <memory>
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
#include "files/json.h"
#include "files/safetensors_writer.h"
#include "text/tokenizer/tokenizer.h"

namespace sluice {
namespace {

namespace json = boost::json;

struct Item {
  std::vector<TokenId> ids;
  int start = 1;  // the first position that is scored
};

// The memory that one item's tensors point to.
struct Scores {
  std::vector<std::int32_t> ids, ranks, top_ids, entry_counts, entries, indices;
  std::vector<float> logprobs, top_logprobs, distributions;
  std::vector<std::uint16_t> experts;
  std::vector<int> expert_layers, entry_layers;
  int slots = 0, tokens_per_entry = 0;
};

// Reads a line: {"prompt": a text or token ids, "start": the first position that is scored}.
Result<Item> read_item(std::string_view line, const std::string& what, const Tokenizer* tokenizer, int vocab) {
  SLUICE_ASSIGN_OR_RETURN(const json::value value, parse_json(line, what));
  const json::object* object = value.if_object();
  const json::value* prompt = object != nullptr ? object->if_contains("prompt") : nullptr;
  Item item;
  if (prompt != nullptr && prompt->is_string()) {
    if (tokenizer == nullptr) {
      return invalid_argument(what + ": expected token ids, as the model has no tokenizer, found a text");
    }
    SLUICE_ASSIGN_OR_RETURN(item.ids, tokenizer->encode(std::string_view(prompt->get_string()),
                                                        {.add_special_tokens = true, .parse_special = true}));
  } else if (prompt != nullptr && prompt->is_array()) {
    for (const json::value& id : prompt->get_array()) {
      if (!id.is_int64() || id.get_int64() < 0 || id.get_int64() >= vocab) {
        return invalid_argument(
            fmt::format("{}: prompt: expected token ids in [0, {}), found {}", what, vocab, describe_json(&id)));
      }
      item.ids.push_back(static_cast<TokenId>(id.get_int64()));
    }
  } else {
    return invalid_argument(fmt::format(R"({}: expected {{"prompt": a text or an array of token ids}}, found {})", what,
                                        describe_json(&value)));
  }
  if (item.ids.empty()) return invalid_argument(what + ": prompt: expected at least one token, found none");
  if (const json::value* start = object->if_contains("start"); start != nullptr) {
    if (!start->is_int64() || start->get_int64() < 0 ||
        start->get_int64() > static_cast<std::int64_t>(item.ids.size())) {
      return invalid_argument(fmt::format("{}: start: expected a position in [0, {}], found {}", what, item.ids.size(),
                                          describe_json(start)));
    }
    item.start = std::max(1, static_cast<int>(start->get_int64()));
  }
  return item;
}

Result<std::vector<Item>> read_items(const std::string& path, const Tokenizer* tokenizer, int vocab) {
  SLUICE_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
  std::vector<Item> items;
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line(text.data() + at, end - at);
    at = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    SLUICE_ASSIGN_OR_RETURN(Item item, read_item(line, fmt::format("{}: line {}", path, number), tokenizer, vocab));
    items.push_back(std::move(item));
  }
  if (items.empty()) return invalid_argument(path + ": expected a line of JSON for each text, found none");
  return items;
}

Status check_sizes(const Runner& runner, const std::vector<Item>& items, const ScoreOptions& options) {
  std::size_t rows = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].ids.size() > static_cast<std::size_t>(runner.limits().max_model_len)) {
      return invalid_argument(fmt::format("text {}: expected at most {} tokens (--max-model-len), found {}", i,
                                          runner.limits().max_model_len, items[i].ids.size()));
    }
    rows += items[i].ids.size();
  }
  const std::size_t bytes = options.distributions ? rows * runner.limits().vocab_size * sizeof(float) : 0;
  if (bytes <= usable_memory() / 2) return {};
  return resource_exhausted(fmt::format(
      "--distributions: those of {} tokens take {}, more than half of the memory: score fewer texts at a time", rows,
      format_bytes(static_cast<double>(bytes))));
}

void take_scores(Runner& runner, Scores& to) {
  for (RowScore& score : runner.results().scores()) {
    const bool numbers = score.logprobs.status == SampleStatus::kOk;
    to.logprobs.push_back(numbers ? score.logprobs.logprob : std::nanf(""));
    to.ranks.push_back(score.rank);
    const auto top = static_cast<std::ptrdiff_t>(score.logprobs.top_count);
    to.top_ids.insert(to.top_ids.end(), score.logprobs.top_ids.begin(), score.logprobs.top_ids.begin() + top);
    to.top_logprobs.insert(to.top_logprobs.end(), score.logprobs.top_logprobs.begin(),
                           score.logprobs.top_logprobs.begin() + top);
    const std::vector<float> distribution = std::move(score.distribution);
    to.distributions.insert(to.distributions.end(), distribution.begin(), distribution.end());
  }
}

// Appends the exports of the first `rows` rows of the step, which begin at position `first`.
void take_exports(const StepResults& results, Position first, int rows, Scores& to) {
  to.expert_layers.clear();
  to.entry_layers.clear();
  for (const ExportedLayer& layer : results.exported_experts()) {
    to.expert_layers.push_back(layer.layer);
    to.slots = layer.width;
  }
  for (const ExportedLayer& layer : results.exported_entries()) {
    to.entry_layers.push_back(layer.layer);
    to.tokens_per_entry = layer.tokens_per_row;
  }
  for (int row = 0; row < rows; ++row) {
    for (const ExportedLayer& layer : results.exported_experts()) {
      const std::int32_t* ids = &layer.values[static_cast<std::size_t>(row * layer.width)];
      for (int slot = 0; slot < layer.width; ++slot) to.experts.push_back(static_cast<std::uint16_t>(ids[slot]));
    }
    for (const ExportedLayer& layer : results.exported_entries()) {
      const std::int32_t count =
          layer.all ? (first + row + 1) / layer.tokens_per_row : layer.counts[static_cast<std::size_t>(row)];
      to.entry_counts.push_back(count);
      for (std::int32_t i = 0; i < count; ++i) {
        to.entries.push_back(layer.all ? i : layer.values[static_cast<std::size_t>(row * layer.width + i)]);
      }
    }
  }
}

// Scores the item in chunks of at most `chunk` rows.
Status score(Runner& runner, const Item& item, const ScoreOptions& options, int chunk, Scores& to) {
  SLUICE_ASSIGN_OR_RETURN(const StateSlot sequence, runner.sequences().open());
  const auto tokens = static_cast<Position>(item.ids.size());
  to.ids.assign(item.ids.begin(), item.ids.end());
  Status status;
  std::vector<ScoreRequest> requests;
  const RequestOptions asked{.return_routed_experts = options.experts, .return_sparse_indices = options.indices};
  for (Position begin = 0; begin < tokens && status.ok(); begin += chunk) {
    const int rows = std::min(chunk, tokens - begin);
    requests.clear();
    for (Position p = std::max(begin, item.start - 1); p < std::min(begin + rows, tokens - 1); ++p) {
      requests.push_back({p - begin, item.ids[static_cast<std::size_t>(p) + 1], options.top, options.distributions});
    }
    const StepSpan span{
        .sequence = sequence,
        .ids = std::span(item.ids).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(rows)),
        .logit_rows = {},
        .scores = requests,
        .options = &asked};
    status = runner.run_step({&span, 1});
    if (!status.ok()) break;
    take_scores(runner, to);
    take_exports(runner.results(), begin, std::min(rows, tokens - 1 - begin), to);
    status = runner.exec().device->status();
  }
  runner.sequences().close(sequence);
  return status;
}

template <class T>
void add(std::vector<TensorSource>& tensors, std::string name, DType dtype, std::vector<std::int64_t> shape,
         const std::vector<T>& values) {
  tensors.push_back({.name = std::move(name),
                     .dtype = dtype,
                     .shape = std::move(shape),
                     .data = std::as_bytes(std::span(values)),
                     .produce = nullptr});
}

// Pads the entries of each row with -1.
void pad_entries(Scores& scores) {
  const std::int32_t width = scores.entry_counts.empty() ? 0 : *std::ranges::max_element(scores.entry_counts);
  std::size_t at = 0;
  for (const std::int32_t count : scores.entry_counts) {
    for (std::int32_t i = 0; i < width; ++i) scores.indices.push_back(i < count ? scores.entries[at++] : -1);
  }
}

void add_tensors(std::vector<TensorSource>& tensors, std::size_t number, Scores& scores, const ScoreOptions& options,
                 std::size_t vocab) {
  const auto size = [](std::size_t n) { return static_cast<std::int64_t>(n); };
  const std::string at = fmt::format("{}.", number);
  const std::int64_t rows = size(scores.logprobs.size()), all = size(scores.ids.size()) - 1;
  add(tensors, at + "token_ids", DType::kI32, {size(scores.ids.size())}, scores.ids);
  add(tensors, at + "logprobs", DType::kF32, {rows}, scores.logprobs);
  add(tensors, at + "ranks", DType::kI32, {rows}, scores.ranks);
  if (options.top > 0) {
    add(tensors, at + "top_ids", DType::kI32, {rows, options.top}, scores.top_ids);
    add(tensors, at + "top_logprobs", DType::kF32, {rows, options.top}, scores.top_logprobs);
  }
  if (options.distributions) {
    add(tensors, at + "distributions", DType::kF32, {rows, size(vocab)}, scores.distributions);
  }
  if (options.experts) {
    add(tensors, at + "routed_experts", DType::kU16, {all, size(scores.expert_layers.size()), scores.slots},
        scores.experts);
  }
  if (!options.indices) return;
  pad_entries(scores);
  const std::int64_t layers = size(scores.entry_layers.size());
  const std::int64_t width = all * layers > 0 ? size(scores.indices.size()) / (all * layers) : 0;
  add(tensors, at + "sparse_indices", DType::kI32, {all, layers, width}, scores.indices);
}

Status run(const ScoreOptions& options) {
  if (options.top < 0 || options.top > kSampledTop) {
    return invalid_argument(fmt::format("--top: expected 0 to {}, found {}", kSampledTop, options.top));
  }
  EngineSetup engine = options.engine;
  SLUICE_ASSIGN_OR_RETURN(engine.model.folder, resolve_model(options.engine.model));
  SLUICE_ASSIGN_OR_RETURN(const ModelConfig config, load_model_config(engine.model.folder));
  auto tokenizer = Tokenizer::load(engine.model.folder);
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Item> items,
                          read_items(options.in, tokenizer.ok() ? &**tokenizer : nullptr, config.vocab_size));
  engine.scheduler.max_num_seqs = 1;
  engine.scheduler.max_num_batched_tokens = resolve_step_rows(engine);
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<Runner> runner, Runner::load(engine));
  const auto vocab = runner->limits().vocab_size;
  SLUICE_RETURN_IF_ERROR(check_sizes(*runner, items, options));

  std::deque<Scores> scores;
  std::size_t done = 0, total = 0;
  for (const Item& item : items) total += item.ids.size();
  {
    ProgressBar bar("scoring", ProgressBar::Unit::kItems);
    for (const Item& item : items) {
      SLUICE_RETURN_IF_ERROR(
          score(*runner, item, options, engine.scheduler.max_num_batched_tokens, scores.emplace_back()));
      bar.update(done += item.ids.size(), total);
    }
  }
  std::vector<TensorSource> tensors;
  for (std::size_t i = 0; i < items.size(); ++i) add_tensors(tensors, i, scores[i], options, vocab);
  Metadata metadata{{"profile", runner->model().profile().text()},
                    {"weights_version", runner->load_report().weights_version}};
  if (options.experts) metadata["expert_layers"] = fmt::format("{}", fmt::join(scores[0].expert_layers, ","));
  if (options.indices) {
    metadata["index_layers"] = fmt::format("{}", fmt::join(scores[0].entry_layers, ","));
    metadata["tokens_per_entry"] = std::to_string(scores[0].tokens_per_entry);
  }
  SLUICE_RETURN_IF_ERROR(write_safetensors(options.out, tensors, metadata));
  log_info("wrote {}: {} texts, {} tokens, {}", options.out, items.size(), total, runner->model().profile().text());
  return {};
}

}  // namespace

int run_score(const ScoreOptions& options) {
  return report(run(options));
}

}  // namespace sluice
