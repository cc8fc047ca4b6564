// ModelStep: what a forward call works with in every family; a base to derive from. Values live as long as the call;
// thread safety: plain values.
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
  int layers = std::numeric_limits<int>::max();  // without those for multi-token prediction
  const StepExports* exports = nullptr;          // null: nothing is handed out
  const OwnColumns* own = nullptr;               // of a rank of several; null: alone

  int rows() const { return tables.rows(); }
  Device& device() const { return exec.device != nullptr ? *exec.device : cpu_device(); }
  // Gives the observer values [rows, columns] of a layer: "layers.3.NAME"; those for multi-token prediction, which
  // follow the others, are "mtp.0.NAME".
  void show(int layer, const char* name, const float* values, int shown_rows, std::int64_t columns) const;
  void show(int layer, const char* name, const Rows& values) const {
    show(layer, name, values.values, rows(), values.ld);
  }
  void show(int layer, const char* name, const std::int32_t* values, std::int64_t columns) const;
  // Where this rank's columns of `whole` go: its own rows, or `whole` where it computes all of them.
  Rows own_part(const Rows& whole, const ScratchTensor OwnColumns::* part, const InputForms& forms = {}) const {
    return own != nullptr && (own->*part).columns() > 0 ? (own->*part).rows(rows(), forms) : whole;
  }
  // Brings the ranks' parts to `whole`, unless they are that already; read by `reader` alone, where there is one.
  void gather(const Rows& part, const Rows& whole, const LinearWeight* reader = nullptr) const;
  // Whether `reader` of gathered rows needs nothing but the form that it multiplies.
  bool needs_form_only(const Rows& part, const Rows& whole, const LinearWeight& reader) const {
    return observer == nullptr && whole.form(reader.input_form()) != nullptr &&
           (part.values == whole.values || part.columns % kGatheredBlock == 0);
  }
  // Logits of the first `rows` rows of `normed`: at once, and a tile at a time of those that are scored.
  void project_logits(int rows, const Rows& normed, const LinearWeight& head, float* logits) const;
  // What an indexer chose, or that it had nothing to choose.
  void export_entries(int layer, int tokens_per_row, int most, bool chosen, const ScratchTensor& entries,
                      const ScratchTensor& counts) const;
  // For an observer the indexer keeps all scores, in the device's memory that is returned; without an observer, or that
  // memory, none.
  DeviceMemory score_all(IndexSelectArgs* args) const;

 private:
  std::string shown_name(int layer, const char* name) const;
};

}  // namespace sluice
