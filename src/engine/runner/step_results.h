// StepResults: the results of the step that a runner began last, other than logits and draws: the log-probabilities of
// known tokens, and the choices of layers. All are valid until the next step. Thread safety: one thread at a time.
// Used by runner.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/runner/step_span.h"
#include "kernels/device/device.h"
#include "kernels/device/exec.h"
#include "kernels/ops/sample.h"
#include "model/step_exports.h"
#include "sluice/status.h"

namespace sluice {

// The answer to a ScoreRequest; `logprobs` are what the sampler would report (kernels/ops/sample.h).
struct RowScore {
  SampledRow logprobs;
  int rank = 0;                          // the token's rank among all: 1 + the tokens ranked before it
  std::vector<float> distribution = {};  // [vocab], each bit for bit as `logprobs` would have it
};

// The choices of one layer in a step, for all rows of the step.
struct ExportedLayer {
  int layer = 0, width = 0, tokens_per_row = 0;
  bool all = false;                  // entries: every row sees all entries
  std::vector<std::int32_t> values;  // [rows, width]
  std::vector<std::int32_t> counts;  // entries: [rows], the number of each row's values
};

class StepResults {
 public:
  explicit StepResults(const Exec* exec) : exec_(*exec) {}  // which must outlive it
  StepResults(const StepResults&) = delete;
  StepResults& operator=(const StepResults&) = delete;

  // The answers to the `scores` of the spans, in their order. Their logits are computed a tile at a time, kScoreBytes
  // at most, and are not kept. Not const, for moving out of: distributions are large.
  std::span<RowScore> scores() { return scores_; }
  // The exports, for all rows of the step, if one of its spans wanted them.
  std::span<const ExportedLayer> exported_experts() const { return {experts_.data(), experts_count_}; }
  std::span<const ExportedLayer> exported_entries() const { return {entries_.data(), entries_count_}; }

  // For tests: limits a tile to this many rows; 0: as many as there is memory for.
  void set_score_rows(int rows) { score_rows_limit_ = rows; }
  static constexpr std::size_t kScoreBytes = std::size_t{32} << 20;  // once on the device, and once on the host if that
                                                                     // is another

 private:
  friend class Runner;  // which runs the step
  // Forgets the step before, and prepares exports() for one of these spans. kResourceExhausted if the device lacks the
  // memory.
  Status begin(std::span<const StepSpan> spans, std::size_t vocab);
  const StepExports& exports() const { return exports_; }
  bool exports_any() const { return experts_count_ + entries_count_ > 0; }
  std::size_t scored_rows() const { return wanted_.size(); }
  // The scored rows come behind this many rows of logits.
  void score_from(std::size_t row) { exports_.scored_from = static_cast<int>(row); }

  Status plan_scores(std::span<const StepSpan> spans);
  void plan_exports(std::span<const StepSpan> spans);
  void fetch_ints(const std::int32_t* from, std::size_t count, std::vector<std::int32_t>* to);
  const float* tile_on_host(int rows);
  void score_tile(int first, int rows);

  const Exec& exec_;
  std::size_t vocab_size_ = 0;
  StepExports exports_;
  std::vector<ScoreRequest> wanted_;
  std::vector<RowScore> scores_;
  std::vector<SampleRow> rows_;
  std::vector<SampledRow> scored_;
  std::vector<std::uint32_t> masks_;
  DeviceMemory tile_;  // the device's; reserved when it is first needed
  std::vector<float> host_tile_;
  int score_rows_limit_ = 0;
  std::vector<ExportedLayer> experts_, entries_;  // the step's are the first:
  std::size_t experts_count_ = 0, entries_count_ = 0;
};

}  // namespace sluice
