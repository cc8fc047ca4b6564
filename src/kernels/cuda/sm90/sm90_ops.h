// Ops of the profile sm90 that have kernels of their own, and the parts that they share. The other ops are those of
// kernels/cuda/cuda_ops.h.
// Used by kernels/cuda/sm90.
#pragma once

#include "base/formats/number_formats.h"
#include "kernels/cuda/fp8_layout.h"
#include "kernels/cuda/sm90/strip_products.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/experts.h"
#include "kernels/ops/hyper_connection.h"
#include "kernels/ops/indexer.h"
#include "kernels/ops/project.h"

namespace sluice::cuda_sm90 {

void linear(const Exec& exec, const LinearArgs& args);
void project(const Exec& exec, const ProjectArgs& args);
void experts(const Exec& exec, const ExpertsArgs& args);
void attend_keys(const Exec& exec, const AttendArgs& args);
void attend(const Exec& exec, const AttendArgs& args);
void hc_leave_enter(const Exec& exec, const HcLeaveEnterArgs& args);
void select_entries(const Exec& exec, const IndexSelectArgs& args);
void index_select(const Exec& exec, const IndexSelectArgs& args);
// True if the last kernel of these two is the one enqueued last. It writes only the list of entries.
bool chose_last(const Exec& exec);

// True if kernels of strips multiply it.
bool in_strips(const LinearWeight& weight);
// Makes a product without its inputs.
StripProduct strip_product(const LinearWeight& weight, float* y, std::ptrdiff_t ldy);

// Rounds in place: contiguous bf16 rows of `in` values become those of
// InputForm::kFp8 (kernels/weights/linear_inputs.h), whatever the order of the values in their blocks of 128. in: a
// multiple of 8.
void round_rows_to_fp8(const Exec& exec, std::int64_t rows, int in, std::uint16_t* x);

// Returns the columns padded to whole cells.
inline int padded(int columns) {
  return (columns + kCellInputs - 1) / kCellInputs * kCellInputs;
}
// For experts whose m the ranks share: gathers m [rows, gate's outputs] of all ranks as `whole` [rows, down's inputs],
// bf16, in rows of whole cells, padded with zeros. It does nothing if a rank has all of m, which is `whole` then.
void gather_inner(const Exec& exec, std::int64_t rows, const ExpertWeights& expert, std::uint16_t* m,
                  std::uint16_t* whole);

// Rows of inputs in a job's form: floats, or prepared as bf16 pairs (kernels/weights/linear_inputs.h).
struct StagedRows {
  const float* x;
  std::ptrdiff_t ldx;  // in floats
  const std::int32_t* x_rows;
  int in;
  bool prepared;
  bool rounds = false;  // floats are rounded to the values of InputForm::kFp8 instead of the nearest bf16

  bool operator==(const StagedRows&) const = default;
  SLUICE_HD int padded() const { return (in + kCellInputs - 1) / kCellInputs * kCellInputs; }
  // True if kernels of strips can read them where they are.
  bool in_place() const {
    return prepared && in % kCellInputs == 0 && ldx % 4 == 0 && reinterpret_cast<std::uintptr_t>(x) % 16 == 0;
  }
  // Returns the rows without the first ones.
  StagedRows from(int first) const {
    StagedRows rest = *this;
    if (x_rows != nullptr) {
      rest.x_rows += first;
    } else {
      rest.x += first * ldx;
    }
    return rest;
  }
};
// Returns the value of InputForm::kFp8 of a float that no op has rounded. That is rare, as the writer of rows makes the
// forms that their readers multiply. at: the place of its row.
SLUICE_DEVICE std::uint32_t rounded_to_fp8(const StagedRows& rows, std::ptrdiff_t at, int k) {
  const int begin = k / kFp8Inputs * kFp8Inputs, end = min(begin + kFp8Inputs, rows.in);
  float largest = 1e-4F;
  for (int i = begin; i < end; ++i) largest = fmaxf(largest, std::fabs(rows.x[at + i]));
  const float scale = pow2_ceil(largest * (1.0F / 448.0F));
  return to_bf16(e4m3_to_float(float_to_e4m3(rows.x[at + k] / scale)) * scale).bits;
}
// Stages rows to rows of padded() values.
struct Staging {
  StagedRows from;
  std::uint16_t* to;
};
void stage_rows(const Exec& exec, int rows, std::span<const Staging> all);
inline void stage_rows(const Exec& exec, int rows, const StagedRows& from, std::uint16_t* to) {
  const Staging one{from, to};
  stage_rows(exec, rows, {&one, 1});
}

}  // namespace sluice::cuda_sm90
