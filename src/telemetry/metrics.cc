// Used by serve/observe/engine_metrics.h and serve/observe/server_metrics.h.
#include "telemetry/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/threads/mutex.h"

namespace sluice {
namespace {

constexpr std::string_view kOwn = "sluice_";

std::string joined(std::string_view a, std::string_view b) {
  return fmt::format("{}{}{}", a, a.empty() || b.empty() ? "" : ",", b);
}

void append_sample(std::string& out, std::string_view name, std::string_view labels, double value) {
  out += name;
  if (!labels.empty()) fmt::format_to(std::back_inserter(out), "{{{}}}", labels);
  fmt::format_to(std::back_inserter(out), " {}\n", value);
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1, 0) {}

void Histogram::observe(double value) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  const MutexLock lock(mutex_);
  ++counts_[static_cast<std::size_t>(bucket)];
  sum_ += value;
}

void Histogram::append(std::string& out, std::string_view name, std::string_view labels) const {
  const MutexLock lock(mutex_);
  HistogramValue{bounds_, counts_, sum_}.append(out, name, labels);
}

void HistogramValue::append(std::string& out, std::string_view name, std::string_view labels) const {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    total += counts[i];
    const std::string bound = i < bounds.size() ? fmt::format("{}", bounds[i]) : "+Inf";
    append_sample(out, fmt::format("{}_bucket", name), joined(labels, fmt::format("le=\"{}\"", bound)),
                  static_cast<double>(total));
  }
  append_sample(out, fmt::format("{}_sum", name), labels, sum);
  append_sample(out, fmt::format("{}_count", name), labels, static_cast<double>(total));
}

Metrics::Family& Metrics::family(const std::string& name) {
  Family& family = families_[name];
  family.about = find_metric(name);
  SLUICE_CHECK(family.about != nullptr, "a metric is in the table that says what it counts");
  return family;
}

Counter& Metrics::counter(const std::string& name, const std::string& labels) {
  const MutexLock lock(mutex_);
  Counter*& counter = family(name).counters[labels];
  if (counter == nullptr) counter = &counters_.emplace_back();
  return *counter;
}

Histogram& Metrics::histogram(const std::string& name, std::vector<double> bounds) {
  const MutexLock lock(mutex_);
  Family& made = family(name);
  if (made.histogram == nullptr) made.histogram = &histograms_.emplace_back(std::move(bounds));
  return *made.histogram;
}

void Metrics::read_by(const std::string& name, std::function<double()> read, const std::string& labels) {
  const MutexLock lock(mutex_);
  family(name).readers[labels] = std::move(read);
}

void Metrics::info(const std::string& name, std::function<std::string()> labels) {
  const MutexLock lock(mutex_);
  family(name).info_reader = std::move(labels);
}

void Metrics::histogram_of(const std::string& name, std::function<HistogramValue()> read) {
  const MutexLock lock(mutex_);
  family(name).histogram_reader = std::move(read);
}

void Metrics::before_reading(std::function<void()> refresh) {
  const MutexLock lock(mutex_);
  refresh_ = std::move(refresh);
}

void Metrics::set_naming(std::string prefix, std::string labels) {
  const MutexLock lock(mutex_);
  prefix_ = std::move(prefix);
  labels_ = std::move(labels);
}

std::string Metrics::shown_name(const std::string& name) const {
  if (!name.starts_with(kOwn)) return name.substr(0, name.find(':') + 1) == prefix_ ? name : "";
  const std::string shown = prefix_ + name.substr(kOwn.size());
  return shown != name && families_.contains(shown) ? "" : shown;
}

std::string Metrics::text() const {
  const MutexLock lock(mutex_);
  refresh_();
  std::string out;
  for (const auto& [own_name, family] : families_) {
    const std::string name = shown_name(own_name);
    if (name.empty()) continue;
    fmt::format_to(std::back_inserter(out), "# HELP {} {}\n# TYPE {} {}\n", name, metric_help(*family.about), name,
                   family.about->type);
    for (const auto& [labels, counter] : family.counters)
      append_sample(out, name, joined(labels_, labels), counter->value());
    if (family.histogram != nullptr) family.histogram->append(out, name, labels_);
    if (family.histogram_reader) family.histogram_reader().append(out, name, labels_);
    if (family.info_reader) append_sample(out, name, joined(labels_, family.info_reader()), 1);
    for (const auto& [labels, read] : family.readers) append_sample(out, name, joined(labels_, labels), read());
  }
  return out;
}

}  // namespace sluice
