// ModelStep: the data of a forward call in every family; a base to derive from. Values live as long as the call; thread
// safety: plain values.
// Used by feed_forward.h and residual_stream.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "base/aligned.h"
#include "kernels/device/device.h"
#include "kernels/device/scratch.h"
#include "kernels/ops/ops.h"
#include "model/batch.h"
#include "model/step_exports.h"
#include "model/weights/shares.h"

namespace sluice {

struct ModelStep {
  const Exec& exec;
  const StepTables& tables;
  const CacheView& cache;
  const Observer* observer;                      // may be null
  int layers = std::numeric_limits<int>::max();  // without layers for multi-token prediction
  const StepExports* exports = nullptr;          // null: nothing is handed out
  const OwnColumns* own = nullptr;               // this rank's, one of several; null: a single rank

  int rows() const { return tables.rows(); }
  Device& device() const { return exec.device != nullptr ? *exec.device : cpu_device(); }
  // Gives the observer values [rows, columns] of a layer: "layers.3.NAME". Layers for multi-token prediction, which
  // follow the others, are "mtp.0.NAME".
  void show(int layer, const char* name, const float* values, int shown_rows, std::int64_t columns) const;
  void show(int layer, const char* name, const Rows& values) const {
    show(layer, name, values.values, rows(), values.ld);
  }
  void show(int layer, const char* name, const std::int32_t* values, std::int64_t columns) const;
  // The rows that this rank writes its columns of `whole` to: its own rows, or `whole` if it computes all of them.
  Rows own_part(const Rows& whole, const ScratchTensor OwnColumns::* part, const InputForms& forms = {}) const {
    return own != nullptr && (own->*part).columns() > 0 ? (own->*part).rows(rows(), forms) : whole;
  }
  // Gathers the ranks' parts in `whole`, unless `part` is `whole` already. If `reader` is given, it alone reads them.
  void gather(const Rows& part, const Rows& whole, const LinearWeight* reader = nullptr) const;
  // Returns whether `reader` of gathered rows needs nothing but the form that it multiplies.
  bool needs_form_only(const Rows& part, const Rows& whole, const LinearWeight& reader) const {
    return observer == nullptr && whole.form(reader.input_form()) != nullptr &&
           (part.values == whole.values || part.columns % kGatheredBlock == 0);
  }
  // Computes the logits of the first `rows` rows of `normed`: at once, and a tile at a time for rows that are scored.
  void project_logits(int rows, const Rows& normed, const LinearWeight& head, float* logits) const;
  // Exports the entries that an indexer chose, or that it had nothing to choose.
  void export_entries(int layer, int tokens_per_row, int most, bool chosen, const ScratchTensor& entries,
                      const ScratchTensor& counts) const;
  // Makes the indexer keep all scores for an observer, in the device's memory that is returned. Without an observer, or
  // without such memory, none are kept.
  DeviceMemory score_all(IndexSelectArgs* args) const;

 private:
  std::string shown_name(int layer, const char* name) const;
};

}  // namespace sluice
