// What linear() and experts() share: rows of a job, and inputs rounded to bf16.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>

#include "base/number_formats.h"
#include "kernels/linear.h"

namespace sluice {

// `job` without its first `first` rows.
inline LinearJob rows_from(const LinearJob& job, int first) {
  LinearJob rest = job;
  if (job.x_rows != nullptr) {
    rest.x_rows += first;
  } else {
    rest.x += first * job.ldx;
  }
  rest.y += first * job.ldy;
  return rest;
}

inline void round_to_bf16(int count, const float* x, float* y) {
  for (int i = 0; i < count; ++i) y[i] = round_to_bf16(x[i]);
}

// out [rows, in]: the job's inputs rounded to bf16, contiguous.
inline void round_rows(const Exec& exec, int rows, int in, const LinearJob& job, float* out) {
  constexpr int kFloatsPerPiece = 64 << 10;
  const int step = std::max(1, kFloatsPerPiece / std::max(in, 1));
  auto round = [&](int piece, int) {
    for (int r = piece * step; r < std::min(rows, (piece + 1) * step); ++r) {
      round_to_bf16(in, job.x_row(r), out + static_cast<std::ptrdiff_t>(r) * in);
    }
  };
  exec.pool->run((rows + step - 1) / step, std::ref(round));
}

}  // namespace sluice
