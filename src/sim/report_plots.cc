// The plots of a report.
// Used by cli/commands/simulate_command.cc and report.cc.
#include <algorithm>
#include <functional>

#include "sim/report.h"

namespace sluice {
namespace {

LinePlot curves(const char* title, const std::vector<RunReport>& reports, Distribution RunReport::* curve) {
  LinePlot plot;
  plot.title = title;
  plot.x.unit = PlotUnit::kSeconds;
  plot.x.log = true;
  plot.y.label = "up to this time";
  plot.y.unit = PlotUnit::kPercent;
  plot.y.low = 0;
  plot.y.high = 100;
  for (const RunReport& report : reports) {
    LineSeries series;
    series.name = report.name;
    for (const auto& [value, percent] : report.*curve) {
      series.x.push_back(value);
      series.y.push_back(percent);
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

LinePlot over_time(const char* title, const std::vector<RunReport>& reports, PlotUnit unit,
                   const std::function<double(const RunReport&, const MemoryPoint&)>& value) {
  LinePlot plot;
  plot.title = title;
  plot.x.label = "time";
  plot.x.unit = PlotUnit::kSeconds;
  plot.y.unit = unit;
  plot.y.low = 0;
  if (unit == PlotUnit::kPercent) plot.y.high = 100;
  plot.x.high = 0;
  for (const RunReport& report : reports) {
    plot.x.high = std::max(*plot.x.high, report.seconds);
    LineSeries series;
    series.name = report.name;
    series.steps = true;
    const std::size_t stride = std::max<std::size_t>(report.memory.size() / 400, 1);
    for (std::size_t i = 0; i < report.memory.size(); i += stride) {
      series.x.push_back(report.memory[i].time);
      series.y.push_back(value(report, report.memory[i]));
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

BarPlot bars(const char* title, const std::vector<RunReport>& reports, Percentiles RunReport::* times) {
  BarPlot plot;
  plot.title = title;
  plot.y.unit = PlotUnit::kSeconds;
  plot.y.log = true;
  plot.groups = {"p50", "p90", "p99", "max"};
  for (const RunReport& report : reports) {
    const Percentiles& p = report.*times;
    plot.series.push_back({.name = report.name, .values = {p.p50, p.p90, p.p99, p.max}});
  }
  return plot;
}

double percent(int part, int whole) {
  return whole == 0 ? 0 : 100.0 * part / whole;
}

}  // namespace

std::vector<ReportPlot> make_plots(const std::vector<RunReport>& reports) {
  const std::vector<Plot> latency = {curves("Time to first token", reports, &RunReport::ttft_curve),
                                     curves("Time between tokens", reports, &RunReport::inter_token_curve),
                                     curves("Time in the queue", reports, &RunReport::queue_curve),
                                     curves("Time from arrival to end", reports, &RunReport::end_to_end_curve)};
  const std::vector<Plot> load = {
      over_time("Running sequences", reports, PlotUnit::kNumber,
                [](const RunReport&, const MemoryPoint& p) { return p.running; }),
      over_time("Waiting requests", reports, PlotUnit::kNumber,
                [](const RunReport&, const MemoryPoint& p) { return p.waiting; }),
      over_time("Latent pages in use", reports, PlotUnit::kPercent,
                [](const RunReport& r, const MemoryPoint& p) {
                  return percent(p.latent_used, r.stats.cache.latent_pages_total);
                }),
      over_time("Latent pages cached", reports, PlotUnit::kPercent,
                [](const RunReport& r, const MemoryPoint& p) {
                  return percent(p.latent_cached, r.stats.cache.latent_pages_total);
                }),
      over_time("Window pages in use", reports, PlotUnit::kPercent,
                [](const RunReport& r, const MemoryPoint& p) {
                  return percent(p.window_used, r.stats.cache.window_pages_total);
                }),
      over_time("Window pages cached", reports, PlotUnit::kPercent, [](const RunReport& r, const MemoryPoint& p) {
        return percent(p.window_cached, r.stats.cache.window_pages_total);
      })};
  const std::vector<Plot> summary = {bars("Time to first token", reports, &RunReport::ttft),
                                     bars("Time between tokens", reports, &RunReport::inter_token)};
  return {{"latency.svg", render_svg(latency, 2)},
          {"load.svg", render_svg(load, 2)},
          {"summary.svg", render_svg(summary, 2)}};
}

}  // namespace sluice
