#include "cli/commands/perplexity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/progress.h"
#include "base/storage/mapped_file.h"
#include "bench/prediction.h"
#include "cli/loaded_model.h"
#include "cli/model_path.h"
#include "engine/engine_options.h"
#include "engine/runner/runner.h"
#include "sim/percentiles.h"
#include "text/tokenizer/tokenizer.h"

namespace sluice {
namespace {

constexpr int kMinWindow = 4;

// A profile and how well it predicts.
struct Side {
  std::unique_ptr<Runner> runner;
  StateSlot sequence;  // the window that is scored
  double nll = 0;      // sum of the negative log-likelihoods of its targets

  std::string profile() const { return runner->model().profile().text(); }
};

struct Score {
  std::vector<Side> sides;  // the flags' own profile; then the one that it is compared with, if any
  int window = 0;
  std::size_t windows = 0, scored = 0, same_best = 0;
  std::vector<double> divergences;  // one for each scored position if there are two sides

  double nll(const Side& side) const { return side.nll / static_cast<double>(scored); }
  double same_best_part() const { return static_cast<double>(same_best) / static_cast<double>(scored); }
};

// Scores the targets, one for each row of logits of the step that all sides have just run.
Status score_targets(std::span<const TokenId> targets, Score* score) {
  for (std::size_t i = 0; i < targets.size(); ++i, ++score->scored) {
    std::vector<Prediction> predictions;
    for (Side& side : score->sides) {
      predictions.emplace_back(side.runner->logits().at_row(i));
      const double nll = predictions.back().negative_log_likelihood(targets[i]);
      if (!std::isfinite(nll)) return internal_error("a logit is not a finite number; the weights may be damaged");
      side.nll += nll;
    }
    if (predictions.size() < 2) continue;
    score->divergences.push_back(predictions[1].divergence_from(predictions[0]));
    if (predictions[0].best() == predictions[1].best()) ++score->same_best;
  }
  return {};
}

// Scores one window, whose sequences are open, in steps of at most `chunk` rows.
Status run_window(std::span<const TokenId> ids, int chunk, Score* score) {
  const int window = static_cast<int>(ids.size());
  std::vector<int> rows;
  for (int begin = 0; begin < window; begin += chunk) {
    const int count = std::min(chunk, window - begin);
    const int first = std::max(begin, window / 2);
    rows.clear();
    for (int row = first; row < std::min(begin + count, window - 1); ++row) rows.push_back(row - begin);
    for (const Side& side : score->sides) {
      const StepSpan span{.sequence = side.sequence,
                          .ids = ids.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count)),
                          .logit_rows = rows};
      SLUICE_RETURN_IF_ERROR(side.runner->run_step({&span, 1}));
    }
    if (rows.empty()) continue;
    SLUICE_RETURN_IF_ERROR(score_targets(ids.subspan(static_cast<std::size_t>(first) + 1, rows.size()), score));
    for (const Side& side : score->sides) SLUICE_RETURN_IF_ERROR(side.runner->exec().device->status());
  }
  return {};
}

Status score_window(std::span<const TokenId> ids, int chunk, Score* score) {
  for (Side& side : score->sides) {
    SLUICE_ASSIGN_OR_RETURN(side.sequence, side.runner->sequences().open());
  }
  const Status status = run_window(ids, chunk, score);
  for (const Side& side : score->sides) side.runner->sequences().close(side.sequence);
  ++score->windows;
  return status;
}

Status write(const Score& score, const std::string& path) {
  const auto prediction = [&](const Side& side) {
    return fmt::format("\"nll\": {}, \"perplexity\": {}", score.nll(side), std::exp(score.nll(side)));
  };
  std::string json =
      fmt::format("{{\"profile\": \"{}\", \"windows\": {}, \"window\": {}, \"scored\": {}, {}",
                  score.sides[0].profile(), score.windows, score.window, score.scored, prediction(score.sides[0]));
  if (score.sides.size() > 1) {
    const Percentiles kl = percentiles_of(score.divergences);
    json +=
        fmt::format(", \"against\": {{\"profile\": \"{}\", {}, \"kl_mean\": {}, \"kl_p99\": {}, \"same_best\": {}}}",
                    score.sides[1].profile(), prediction(score.sides[1]), kl.mean, kl.p99, score.same_best_part());
  }
  std::ofstream file(path, std::ios::binary);
  file << json << "}\n";
  file.close();
  return file ? Status() : invalid_argument(fmt::format("--json {}: cannot be written", path));
}

void print(const Score& score) {
  const auto perplexity = [&](const Side& side) { return std::exp(score.nll(side)); };
  fmt::print("perplexity {:.4f} over {} windows of {} tokens ({} scored)\n", perplexity(score.sides[0]), score.windows,
             score.window, score.scored);
  if (score.sides.size() < 2) return;
  const Percentiles kl = percentiles_of(score.divergences);
  fmt::print(
      "of {}\nagainst {}: perplexity {:.4f}, KL divergence {:.3g} nats in the mean, {:.3g} at the 99th percentile, "
      "the same best token at {:.2f} %\n",
      score.sides[0].profile(), score.sides[1].profile(), perplexity(score.sides[1]), kl.mean, kl.p99,
      100 * score.same_best_part());
}

// Returns the options with this profile and its own types; all other options stay as given.
EngineSetup with_profile(EngineSetup options, const std::string& profile) {
  const EngineSetup defaults;
  options.numerics.profile = profile;
  options.numerics.compute_dtype = defaults.numerics.compute_dtype;
  options.numerics.expert_dtype = defaults.numerics.expert_dtype;
  options.numerics.kv_cache_dtype = defaults.numerics.kv_cache_dtype;
  options.numerics.index_cache_dtype = defaults.numerics.index_cache_dtype;
  options.numerics.mla_prefill = defaults.numerics.mla_prefill;
  options.numerics.attn_prefill_chunk_size = defaults.numerics.attn_prefill_chunk_size;
  return options;
}

Result<std::vector<Side>> load_sides(const EngineSetup& options, const std::string& against) {
  std::vector<Side> sides;
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Runner> own, Runner::load(options));
  sides.push_back({.runner = std::move(own), .sequence = {}});
  if (!against.empty()) {
    SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Runner> other, Runner::load(with_profile(options, against)));
    sides.push_back({.runner = std::move(other), .sequence = {}});
  }
  return sides;
}

}  // namespace

Status measure_perplexity(const PerplexityOptions& given) {
  if (given.window < kMinWindow) {
    return invalid_argument(fmt::format("--window: expected at least {}, found {}", kMinWindow, given.window));
  }
  SLUICE_ASSIGN_OR_RETURN(const std::string text, read_text_file(given.text));
  EngineSetup options = given.engine;
  SLUICE_ASSIGN_OR_RETURN(options.model.folder, resolve_model(given.engine.model));
  SLUICE_ASSIGN_OR_RETURN(const ModelConfig config, load_model_config(options.model.folder));
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, load_tokenizer(options.model, config));
  EncodeOptions encoding;
  encoding.parse_special = false;
  SLUICE_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, tokenizer->encode(text, encoding));
  const std::size_t size = static_cast<std::size_t>(given.window), windows = ids.size() / size;
  if (windows == 0) {
    return invalid_argument(fmt::format("--perplexity {}: expected at least one window of {} tokens, found {}",
                                        given.text, given.window, ids.size()));
  }
  options.scheduler.max_num_seqs = 1;
  options.scheduler.max_num_batched_tokens = resolve_step_rows(options);  // no caller waits for the end of a step
  Score score;
  score.window = given.window;
  SLUICE_ASSIGN_OR_RETURN(score.sides, load_sides(options, given.against));
  if (const int longest = score.sides[0].runner->limits().max_model_len; given.window > longest) {
    return invalid_argument(
        fmt::format("--window: expected at most {} tokens (--max-model-len), found {}", longest, given.window));
  }
  {
    ProgressBar bar("windows", ProgressBar::Unit::kItems);
    for (std::size_t i = 0; i < windows; ++i) {
      SLUICE_RETURN_IF_ERROR(
          score_window(std::span(ids).subspan(i * size, size), options.scheduler.max_num_batched_tokens, &score));
      bar.update(i + 1, windows);
    }
  }
  print(score);
  return given.json.empty() ? Status() : write(score, given.json);
}

}  // namespace sluice
