// PlotScale: an axis with its range, its ticks, and where a value lies on it.
#pragma once

#include <vector>

#include "report/plot.h"

namespace sluice {

class PlotScale {
 public:
  // The range of the axis: its own where given, otherwise round numbers around `low` and `high`.
  PlotScale(const PlotAxis& axis, double low, double high);

  bool can_show(double value) const;
  // 0 at the low end, 1 at the high end; outside values are beyond.
  double place(double value) const;
  const std::vector<double>& ticks() const { return ticks_; }
  // Lines between the ticks, of a logarithmic axis with few decades.
  const std::vector<double>& minor_ticks() const { return minor_ticks_; }
  double low() const { return low_; }

 private:
  void set_linear_range(const PlotAxis& axis, double low, double high);
  void set_log_range(const PlotAxis& axis, double low, double high);

  bool log_ = false;
  double low_ = 0, high_ = 1;
  std::vector<double> ticks_, minor_ticks_;
};

// The least and greatest value that an axis can show; false if there is none.
bool find_range(const PlotAxis& axis, const std::vector<double>& values, double* low, double* high);

}  // namespace sluice
