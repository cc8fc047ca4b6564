// Used by cli/commands/perplexity.cc, loadgen/traffic_report.h, report.h and simulation.h.
#include "sim/percentiles.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace sluice {
namespace {

constexpr int kExponentBias = 1023, kMantissaBits = 52;

// 1-based.
std::uint64_t nearest_rank(double part, std::uint64_t count) {
  const auto rank = static_cast<std::uint64_t>(std::ceil(part * static_cast<double>(count) - 1e-9));
  return std::clamp<std::uint64_t>(rank, 1, count);
}

}  // namespace

Percentiles percentiles_of(std::vector<double> values) {
  Percentiles result;
  if (values.empty()) return result;
  std::sort(values.begin(), values.end());
  double sum = 0;
  for (const double value : values) sum += value;
  const auto at = [&](double part) { return values[nearest_rank(part, values.size()) - 1]; };
  result = {.count = values.size(),
            .mean = sum / static_cast<double>(values.size()),
            .p50 = at(0.5),
            .p90 = at(0.9),
            .p99 = at(0.99),
            .max = values.back()};
  return result;
}

LogHistogram::LogHistogram() : buckets_(static_cast<std::size_t>(kPerOctave) * kOctaves, 0) {}

void LogHistogram::add(double value, std::uint64_t times) {
  // Exponent and the first bits of the mantissa, read as one number, count the buckets.
  constexpr int kDropped = kMantissaBits - std::countr_zero(static_cast<unsigned>(kPerOctave));
  constexpr std::int64_t kFirst = std::int64_t{kExponentBias + kLowestExponent} * kPerOctave;
  const std::int64_t bucket = (std::bit_cast<std::int64_t>(value) >> kDropped) - kFirst;
  const std::int64_t last = static_cast<std::int64_t>(buckets_.size()) - 1;
  buckets_[static_cast<std::size_t>(std::clamp<std::int64_t>(bucket, 0, last))] += times;
  count_ += times;
  sum_ += value * static_cast<double>(times);
  max_ = std::max(max_, value);
}

double LogHistogram::bucket_value(std::size_t bucket) {
  if (bucket == 0) return 0;
  const auto octave = static_cast<int>(bucket / kPerOctave);
  const double part = (static_cast<double>(bucket % kPerOctave) + 0.5) / kPerOctave;
  return std::ldexp(1 + part, octave + kLowestExponent);
}

double LogHistogram::percentile(double part) const {
  if (count_ == 0) return 0;
  const std::uint64_t rank = nearest_rank(part, count_);
  std::uint64_t seen = 0;
  std::size_t bucket = 0;
  while ((seen += buckets_[bucket]) < rank) ++bucket;
  return std::min(bucket_value(bucket), max_);
}

Percentiles LogHistogram::percentiles() const {
  return {.count = count_,
          .mean = count_ == 0 ? 0 : sum_ / static_cast<double>(count_),
          .p50 = percentile(0.5),
          .p90 = percentile(0.9),
          .p99 = percentile(0.99),
          .max = max_};
}

std::vector<std::pair<double, double>> LogHistogram::distribution() const {
  std::vector<std::pair<double, double>> points;
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    if (buckets_[i] == 0) continue;
    seen += buckets_[i];
    points.emplace_back(std::min(bucket_value(i), max_), static_cast<double>(seen) / static_cast<double>(count_));
  }
  return points;
}

}  // namespace sluice
