// ProgressBar: one line on a terminal that fills up, "loading 42 % [########............] 9.7 MB 1.2 GB/s", redrawn at
// most ten times a second; or, for things that are counted, "items 42 % [####...] 42 of 100 3.1/s". Prints nothing when
// stderr is not a terminal. Thread safety: one thread at a time.
// Used by cli, engine, hub, kernels and model.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace sluice {

// "12.3 MB", "1.4 GB": decimal units.
std::string format_bytes(double bytes);

class ProgressBar {
 public:
  enum class Unit { kBytes, kItems };
  explicit ProgressBar(std::string label, Unit unit = Unit::kBytes);  // draws when stderr is a terminal
  ProgressBar(std::string label, bool draws, Unit unit = Unit::kBytes);
  ~ProgressBar();  // erases the line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(std::size_t done, std::size_t total);

 private:
  std::string label_;
  Unit unit_;
  bool draws_ = false, drawn_ = false;
  std::chrono::steady_clock::time_point start_, last_;
};

}  // namespace sluice
