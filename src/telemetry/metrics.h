// Metrics: counters, gauges and histograms in the text format 0.0.4 that Prometheus reads.
//
//   Metrics metrics;
//   Counter& answers = metrics.counter("sluice_http_requests_total", R"(path="/metrics",status="200")");
//   answers.add(1);
//
// Every metric is in the table of metric_table.h, with its type and its help. Metrics are created once and live as long
// as the registry; metrics of the same name form a family and differ in labels.
// Thread safety: everything may be called from any thread.
// Used by serve/observe/engine_metrics.h and serve/observe/server_metrics.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/threads/mutex.h"
#include "telemetry/metric_table.h"

namespace sluice {

class Counter {
 public:
  void add(double amount) { value_.fetch_add(amount, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

// The content of a histogram: the number of values up to each of the rising bounds and above the one before, and above
// all bounds.
struct HistogramValue {
  std::span<const double> bounds;
  std::span<const std::uint64_t> counts;  // one more than bounds
  double sum = 0;

  void append(std::string& out, std::string_view name, std::string_view labels) const;
};

class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds);  // upper bounds, rising; +Inf is added

  void observe(double value);
  void append(std::string& out, std::string_view name, std::string_view labels) const;

 private:
  const std::vector<double> bounds_;
  mutable Mutex mutex_;
  std::vector<std::uint64_t> counts_ SLUICE_GUARDED_BY(mutex_);  // one more than bounds_
  double sum_ SLUICE_GUARDED_BY(mutex_) = 0;
};

class Metrics {
 public:
  // `labels` as in the text format: key="value",... The same name and labels give the same metric.
  Counter& counter(const std::string& name, const std::string& labels = "");
  Histogram& histogram(const std::string& name, std::vector<double> bounds);
  // A counter or gauge whose value is read when the metrics are.
  void read_by(const std::string& name, std::function<double()> read, const std::string& labels = "");

  // A gauge of 1, whose labels may differ each time.
  void info(const std::string& name, std::function<std::string()> labels);

  // The viewed data must stay until text() returns.
  void histogram_of(const std::string& name, std::function<HistogramValue()> read);

  // Names that begin with "sluice_" begin with `prefix` instead when they are read, and every sample has `labels` too.
  // A metric that is named with another prefix is shown under that one alone, in place of sluice_'s of that name.
  void set_naming(std::string prefix, std::string labels);

  // Called once for each text(), before the values are read: takes the snapshot that several of them share.
  void before_reading(std::function<void()> refresh);

  std::string text() const;

 private:
  struct Family {
    const MetricInfo* about;
    std::map<std::string, Counter*> counters;  // by labels
    Histogram* histogram = nullptr;
    std::function<HistogramValue()> histogram_reader = {};
    std::function<std::string()> info_reader = {};
    std::map<std::string, std::function<double()>> readers;  // by labels
  };
  Family& family(const std::string& name) SLUICE_REQUIRES(mutex_);
  std::string shown_name(const std::string& name) const SLUICE_REQUIRES(mutex_);  // "": not shown

  mutable Mutex mutex_;
  std::function<void()> refresh_ SLUICE_GUARDED_BY(mutex_) = [] {};
  std::string prefix_ SLUICE_GUARDED_BY(mutex_) = "sluice_";
  std::string labels_ SLUICE_GUARDED_BY(mutex_);
  std::map<std::string, Family> families_ SLUICE_GUARDED_BY(mutex_);
  std::deque<Counter> counters_ SLUICE_GUARDED_BY(mutex_);
  std::deque<Histogram> histograms_ SLUICE_GUARDED_BY(mutex_);
};

}  // namespace sluice
