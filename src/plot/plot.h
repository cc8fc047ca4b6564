// Plots as SVG text: lines, and grouped bars; linear and logarithmic axes; several plots in one picture. For reports
// and documentation: a white background, system fonts, colours that colour-blind readers can tell apart. No scripts and
// no references, so a file stands alone.
//
//   LinePlot plot;
//   plot.title = "Time to first token";
//   plot.x = {.label = "time", .unit = PlotUnit::kSeconds, .log = true, .low = {}, .high = {}};
//   plot.series.push_back({.name = "fair", .x = {...}, .y = {...}});
//   file << render_svg({plot});
//
// Values that cannot be drawn (not finite, or not positive on a logarithmic axis) are left out.
// Thread safety: pure functions.
// Used by loadgen, plot, sim and src/bench.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace sluice {

// The unit in which values are written: 1500 is "1.5k", 1.5 s "1.5 s" and 0.0015 s "1.5 ms", 50 "50 %".
enum class PlotUnit { kNumber, kSeconds, kPercent };
std::string plot_value_text(double value, PlotUnit unit, int significant = 3);  // digits

struct PlotAxis {
  std::string label;
  PlotUnit unit = PlotUnit::kNumber;
  bool log = false;
  std::optional<double> low, high;  // by default from the values
};

struct LineSeries {
  std::string name;          // in the legend; empty: not there
  std::vector<double> x, y;  // equally many
  bool steps = false;        // horizontal until the next x
};

struct LinePlot {
  std::string title;
  PlotAxis x, y;
  std::vector<LineSeries> series;
};

struct BarSeries {
  std::string name;
  std::vector<double> values;  // one for each group; NaN: no bar
};

struct BarPlot {
  std::string title;
  PlotAxis y;
  std::vector<std::string> groups;
  std::vector<BarSeries> series;
};

using Plot = std::variant<LinePlot, BarPlot>;

// The plots side by side, `columns` in a row.
std::string render_svg(const std::vector<Plot>& plots, int columns = 1);

// PlotScale: an axis with its range, its ticks, and where a value lies on it.

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
