#include "cli/perplexity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <span>
#include <vector>

#include "base/mapped_file.h"
#include "base/progress.h"
#include "cli/model_path.h"
#include "engine/engine_options.h"
#include "engine/runner.h"
#include "formats/tokenizer.h"

namespace sluice {
namespace {

constexpr int kMinWindow = 4;

struct Score {
  std::size_t windows = 0, scored = 0;
  double nll = 0;  // sum

  double mean() const { return nll / static_cast<double>(scored); }
};

// -log softmax(logits)[target], in double.
double negative_log_likelihood(std::span<const float> logits, TokenId target) {
  const float max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - static_cast<double>(max));
  const auto chosen = static_cast<double>(logits[static_cast<std::size_t>(target)]);
  return std::log(sum) + static_cast<double>(max) - chosen;
}

// One window, in steps of at most `chunk` rows.
Status score_window(Runner& runner, std::span<const TokenId> ids, int chunk, Score* score) {
  SLUICE_ASSIGN_OR_RETURN(const StateSlot slot, runner.open());
  const int window = static_cast<int>(ids.size());
  std::vector<int> rows;
  Status status;
  for (int begin = 0; begin < window && status.ok(); begin += chunk) {
    const int count = std::min(chunk, window - begin);
    rows.clear();
    for (int row = std::max(begin, window / 2); row < std::min(begin + count, window - 1); ++row) {
      rows.push_back(row - begin);
    }
    const StepSpan span{.sequence = slot,
                        .ids = ids.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count)),
                        .logit_rows = rows};
    status = runner.run_step({&span, 1});
    for (std::size_t i = 0; i < rows.size() && status.ok(); ++i, ++score->scored) {
      const auto target = static_cast<std::size_t>(begin + rows[i]) + 1;
      score->nll += negative_log_likelihood(runner.logits(i), ids[target]);
    }
  }
  runner.close(slot);
  ++score->windows;
  return status;
}

Status write(const Score& score, int window, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  file << fmt::format("{{\"windows\": {}, \"window\": {}, \"scored\": {}, \"nll\": {}, \"perplexity\": {}}}\n",
                      score.windows, window, score.scored, score.mean(), std::exp(score.mean()));
  file.close();
  return file ? Status() : invalid_argument(fmt::format("--json {}: cannot be written", path));
}

}  // namespace

Status measure_perplexity(const EngineOptions& given, const std::string& path, int window, const std::string& json) {
  if (window < kMinWindow) {
    return invalid_argument(fmt::format("--window: expected at least {}, found {}", kMinWindow, window));
  }
  SLUICE_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
  EngineOptions options = given;
  SLUICE_ASSIGN_OR_RETURN(options.model_folder, resolve_model_folder(given.model_folder));
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, Tokenizer::load(options.model_folder));
  EncodeOptions encoding;
  encoding.parse_special = false;
  SLUICE_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, tokenizer->encode(text, encoding));
  const std::size_t size = static_cast<std::size_t>(window), windows = ids.size() / size;
  if (windows == 0) {
    return invalid_argument(
        fmt::format("--perplexity {}: expected at least one window of {} tokens, found {}", path, window, ids.size()));
  }
  options.max_num_seqs = 1;
  options.max_num_batched_tokens = most_step_rows(options);  // nobody waits for the end of a step
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<Runner> runner, Runner::load(options));
  if (window > runner->max_model_len()) {
    return invalid_argument(fmt::format("--window: expected at most {} tokens (--max-model-len), found {}",
                                        runner->max_model_len(), window));
  }
  Score score;
  {
    ProgressBar bar("windows", ProgressBar::Unit::kItems);
    for (std::size_t i = 0; i < windows; ++i) {
      SLUICE_RETURN_IF_ERROR(
          score_window(*runner, std::span(ids).subspan(i * size, size), options.max_num_batched_tokens, &score));
      bar.update(i + 1, windows);
    }
  }
  fmt::print("perplexity {:.4f} over {} windows of {} tokens ({} scored)\n", std::exp(score.mean()), score.windows,
             window, score.scored);
  return json.empty() ? Status() : write(score, window, json);
}

}  // namespace sluice
