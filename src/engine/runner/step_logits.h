// StepLogits: the logits of the step that a runner began last, where its device has them, and the tokens drawn from
// them.
//
//   draw(rows)   enqueues draws behind the step
//   finish()     waits for these; once for each draw(), before the next
// Thread safety: one thread at a time.
// Used by device_plan.cc and runner.h.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/step/sampler.h"
#include "kernels/device/device.h"
#include "kernels/device/exec.h"
#include "sluice/status.h"

namespace sluice {

class StepLogits {
 public:
  explicit StepLogits(const Exec* exec) : exec_(*exec) {}  // which must outlive this object

  // [rows that were asked for, vocab], in span order. Waits for them and fetches them once. Valid until the next step.
  std::span<const float> all() const;
  std::span<const float> at_row(std::size_t row) const { return all().subspan(row * vocab_size_, vocab_size_); }
  // Copies them to `to`, which has room for them. The copy is complete once later draws are finished.
  void fetch(std::span<float> to) const;

  // Enqueues draws. SampleRow::row is a row of the logits, and slot is the sequence's, as sample_row() sets them.
  void draw(std::span<const SampleRow> rows);
  bool draws_outstanding() const { return draws_.outstanding(); }
  // Waits for the drawn tokens; they are valid until the next draw().
  std::span<const SampledRow> finish() { return draws_.take(); }

  // The bytes that the logits of steps of this many rows may take.
  static std::size_t bytes(std::size_t rows, std::size_t vocab) { return 2 * rows * vocab * sizeof(float); }

 private:
  friend class Runner;  // which fills it
  // Reserves memory for the draws of `sequences` sequences (TokenDraws::reserve).
  Status reserve(std::size_t vocab, int sequences, int draws, int more_slots);
  // Provides memory for `rows` rows. The logits of the step before are lost.
  Status make_room(std::size_t rows);
  float* data() { return reinterpret_cast<float*>(memory_.data()); }  // the device's

  const Exec& exec_;
  std::size_t vocab_size_ = 0, count_ = 0;  // count_: of rows
  DeviceMemory memory_;                     // the device's
  TokenDraws draws_;
  mutable std::vector<float> on_host_;
  mutable bool fetched_ = false;
};

}  // namespace sluice
