// Percentiles: a summary of many values for a report; and LogHistogram, which counts values that are too many to keep.
//
// The p-th percentile is the least value that at least p % of the values do not exceed (nearest rank), so it is always
// one of the values. Thread safety: plain values.
// Used by cli/commands/perplexity.cc, loadgen/traffic_report.h, report.h and simulation.h.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace sluice {

struct Percentiles {
  std::uint64_t count = 0;
  double mean = 0, p50 = 0, p90 = 0, p99 = 0, max = 0;
};

Percentiles percentiles_of(std::vector<double> values);

// Values >= 0 in buckets that are 1/256 of a power of two wide: a percentile is right within 0.4 %; count, mean and
// maximum are exact. Values below 2^-40 count as 0. It takes 160 kB, whatever is added.
class LogHistogram {
 public:
  LogHistogram();

  void add(double value, std::uint64_t times = 1);
  std::uint64_t count() const { return count_; }
  Percentiles percentiles() const;
  // (value, the part of all values up to it) for each bucket that has any: for plots.
  std::vector<std::pair<double, double>> distribution() const;

 private:
  static constexpr int kPerOctave = 256, kOctaves = 80, kLowestExponent = -40;
  static double bucket_value(std::size_t bucket);
  double percentile(double part) const;

  std::vector<std::uint64_t> buckets_;
  std::uint64_t count_ = 0;
  double sum_ = 0, max_ = 0;
};

}  // namespace sluice
