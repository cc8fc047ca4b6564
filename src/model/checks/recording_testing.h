// A recording of the values that a model shows while it computes a prompt, so that a second computation can begin at
// any stage of it; and the distances of the two, by stage. If every stage begins at the values that the model showed
// before it, a value that the two round to different sides stays a difference of one code. If it was carried on, a
// random model would amplify it until it hides everything else.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/model.h"

namespace sluice {

class Recording {
 public:
  using Row = std::vector<double>;
  using Rows = std::vector<Row>;

  // Runs `ids` in pieces of `chunk` rows and wants the logits of all.
  Recording(Model& model, const Exec& exec, std::vector<TokenId> ids, int chunk);

  const std::vector<TokenId>& ids() const { return ids_; }
  int tokens() const { return static_cast<int>(ids_.size()); }
  // All values shown as "layers.LAYER.NAME", in their order: a row for each token, for the last ones, or for each
  // entry.
  const Rows& rows(int layer, const std::string& name) const;
  // The row at a position, of rows for all or the last tokens; null if none was shown.
  const Row* at(int layer, const std::string& name, int position) const;
  const Rows& logits() const { return logits_; }

 private:
  std::vector<TokenId> ids_;
  std::map<std::string, Rows> shown_;
  Rows logits_;
};

class StageErrors {
 public:
  using Row = Recording::Row;
  using Rows = Recording::Rows;

  // |found - expected| / |expected| of a row.
  void add(const std::string& stage, const Row& found, const Row& expected);
  void add(const std::string& stage, const Rows& found, const Rows& expected);

  std::vector<std::string> stages() const;
  std::size_t rows(const std::string& stage) const { return errors_.at(stage).size(); }
  double quantile(const std::string& stage, double q) const;

 private:
  std::map<std::string, std::vector<double>> errors_;
};

}  // namespace sluice
