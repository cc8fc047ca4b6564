// Used by loadgen, plot, sim and src/bench.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plot/plot.h"

namespace sluice {
namespace {

constexpr int kLinearTicks = 5;

// 1, 2 or 5 times a power of ten, at least `least`.
double round_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * 0.999) return factor * power;
  }
  return 10 * power;
}

// Writes `significant` digits, at least those of the whole number, without zeros at the end.
std::string digits(double value, int significant) {
  int decimals = significant;
  for (double power = 1; decimals > 0 && std::abs(value) >= power * 0.9995; power *= 10) --decimals;
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

struct ScaledUnit {
  double factor;
  const char* name;
};

std::string scaled(double value, int significant, std::initializer_list<ScaledUnit> units) {
  for (const ScaledUnit& unit : units) {
    if (std::abs(value) >= unit.factor * 0.9995) return digits(value / unit.factor, significant) + unit.name;
  }
  return digits(value, significant);
}

// The greatest of 1, 2 and 5 times a power of ten up to `value`, or the least from it.
double round_end(double value, bool up) {
  const double power = std::pow(10.0, std::floor(std::log10(value) + 1e-9));
  double below = power;
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    if (up && factor * power >= value * 0.999) return factor * power;
    if (factor * power <= value * 1.001) below = factor * power;
  }
  return below;
}

}  // namespace

std::string plot_value_text(double value, PlotUnit unit, int significant) {
  switch (unit) {
    case PlotUnit::kNumber:
      return scaled(value, significant, {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}});
    case PlotUnit::kSeconds:
      return scaled(value, significant, {{1, " s"}, {1e-3, " ms"}, {1e-6, " µs"}, {1e-9, " ns"}});
    case PlotUnit::kPercent:
      return digits(value, significant) + " %";
  }
  return "?";
}

bool find_range(const PlotAxis& axis, const std::vector<double>& values, double* low, double* high) {
  bool found = false;
  for (const double value : values) {
    if (!std::isfinite(value) || (axis.log && value <= 0)) continue;
    *low = found ? std::min(*low, value) : value;
    *high = found ? std::max(*high, value) : value;
    found = true;
  }
  return found;
}

PlotScale::PlotScale(const PlotAxis& axis, double low, double high) : log_(axis.log) {
  axis.log ? set_log_range(axis, low, high) : set_linear_range(axis, low, high);
}

void PlotScale::set_linear_range(const PlotAxis& axis, double low, double high) {
  if (low > 0 && low < 0.5 * high) low = 0;  // a range that nearly begins at zero does
  low = axis.low.value_or(low);
  high = axis.high.value_or(high);
  const bool empty = !(high > low);
  if (empty) high = low + 1;
  const double step = round_step((high - low) / kLinearTicks);
  low_ = axis.low.value_or(std::floor(low / step + 1e-9) * step);
  high_ = axis.high && !empty ? high : std::ceil(high / step - 1e-9) * step;
  for (auto i = static_cast<long>(std::ceil(low_ / step - 1e-9)); static_cast<double>(i) * step <= high_ + step * 1e-9;
       ++i) {
    ticks_.push_back(static_cast<double>(i) * step);
  }
}

void PlotScale::set_log_range(const PlotAxis& axis, double low, double high) {
  low_ = axis.low.value_or(low);
  high_ = axis.high.value_or(high);
  if (high_ < low_ * 1.5) {  // one value, or nearly: in the middle
    if (!axis.low) low_ /= 2;
    if (!axis.high) high_ = std::max(high_, low_) * 2;
  }
  if (!axis.low) low_ = round_end(low_, false);
  if (!axis.high) high_ = round_end(high_, true);
  const int first = static_cast<int>(std::floor(std::log10(low_) + 1e-9));
  const int last = static_cast<int>(std::ceil(std::log10(high_) - 1e-9));
  const int every = std::max(1, (last - first + 5) / 6);
  for (int power = first; power <= last; ++power) {
    const double base = std::pow(10.0, power);
    const bool in_range = base >= low_ * 0.999 && base <= high_ * 1.001;
    if (in_range && (power - first) % every == 0) ticks_.push_back(base);
    for (const int factor : {2, 3, 4, 5, 6, 7, 8, 9}) {
      const double value = factor * base;
      if (last - first <= 4 && value > low_ && value < high_) minor_ticks_.push_back(value);
    }
  }
  if (high_ > low_ * 200) return;
  for (int power = first; power <= last; ++power) {  // few decades: 2 and 5 too
    for (const double factor : {2.0, 5.0}) {
      const double value = factor * std::pow(10.0, power);
      if (value >= low_ * 0.999 && value <= high_ * 1.001) ticks_.push_back(value);
    }
  }
  std::sort(ticks_.begin(), ticks_.end());
}

bool PlotScale::can_show(double value) const {
  return std::isfinite(value) && (!log_ || value > 0);
}

double PlotScale::place(double value) const {
  if (log_) return std::log(value / low_) / std::log(high_ / low_);
  return (value - low_) / (high_ - low_);
}

}  // namespace sluice
