#include "model/checks/recording_testing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "model/checks/cache_testing.h"

namespace sluice {

Recording::Recording(Model& model, const Exec& exec, std::vector<TokenId> ids, int chunk) : ids_(std::move(ids)) {
  const Observer observer = [this](std::string_view name, const float* values, int rows, int columns) {
    Rows& all = shown_[std::string(name)];
    for (int r = 0; r < rows; ++r, values += columns) all.emplace_back(values, values + columns);
  };
  std::vector<int> wanted(ids_.size());
  std::iota(wanted.begin(), wanted.end(), 0);
  const std::vector<float> logits = run_prompt(model, exec, ids_, wanted, chunk, &observer);
  const auto vocab = static_cast<std::ptrdiff_t>(model.config().vocab_size);
  for (auto at = logits.begin(); at != logits.end(); at += vocab) logits_.emplace_back(at, at + vocab);
}

const Recording::Rows& Recording::rows(int layer, const std::string& name) const {
  const auto found = shown_.find(fmt::format("layers.{}.{}", layer, name));
  SLUICE_CHECK(found != shown_.end(), "the model shows what the reference wants");
  return found->second;
}

const Recording::Row* Recording::at(int layer, const std::string& name, int position) const {
  const auto found = shown_.find(fmt::format("layers.{}.{}", layer, name));
  if (found == shown_.end()) return nullptr;
  const int row = position - (tokens() - static_cast<int>(found->second.size()));
  return row < 0 ? nullptr : &found->second[static_cast<std::size_t>(row)];
}

void StageErrors::add(const std::string& stage, const Row& found, const Row& expected) {
  SLUICE_CHECK(found.size() == expected.size(), "rows of one length");
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    difference += (found[i] - expected[i]) * (found[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  const double error = difference == 0 ? 0 : std::sqrt(difference / norm);
  errors_[stage].push_back(std::isnan(error) ? HUGE_VAL : error);
}

void StageErrors::add(const std::string& stage, const Rows& found, const Rows& expected) {
  SLUICE_CHECK(found.size() == expected.size(), "as many rows");
  for (std::size_t i = 0; i < found.size(); ++i) add(stage, found[i], expected[i]);
}

std::vector<std::string> StageErrors::stages() const {
  std::vector<std::string> names;
  for (const auto& [stage, errors] : errors_) names.push_back(stage);
  return names;
}

double StageErrors::quantile(const std::string& stage, double q) const {
  std::vector<double> errors = errors_.at(stage);
  std::sort(errors.begin(), errors.end());
  return errors[static_cast<std::size_t>(std::ceil(q * static_cast<double>(errors.size() - 1)))];
}

}  // namespace sluice
