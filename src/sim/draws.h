// Draws: a sequence of random numbers, the same on every machine. Thread safety: one thread at a time.
// Used by loadgen/conversations_file.cc, loadgen/plain_trace.cc, workload.cc and workload.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/philox.h"
#include "kernels/common/math.h"

namespace sluice {

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : seed_(seed) {}

  double uniform() { return philox_uniform(seed_, next_++); }  // [0, 1)
  double exponential(double mean) { return -mean * static_cast<double>(log_f32(static_cast<float>(1 - uniform()))); }
  int below(int n) { return static_cast<int>(uniform() * n); }
  // A length >= 1 of this mean, exponential, and at most 16 times the mean.
  int length(int mean) {
    return std::min(1 + static_cast<int>(exponential(mean - 0.5)), 16 * mean);  // rounding down takes a half
  }

 private:
  std::uint64_t seed_, next_ = 0;
};

// Milliseconds of a Poisson process with `rate` events a second.
class PoissonTimes {
 public:
  explicit PoissonTimes(double rate) : mean_ms_(1000 / rate) {}
  double next_ms(Draws& draws) { return now_ms_ += draws.exponential(mean_ms_); }

 private:
  double mean_ms_, now_ms_ = 0;
};

}  // namespace sluice
