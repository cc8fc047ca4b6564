// A load run's report as one HTML file: tables and plots, no scripts and no references.
#include <fmt/format.h>

#include <functional>

#include "base/utf8.h"
#include "loadgen/traffic_report.h"
#include "plot/plot.h"

namespace sluice {
namespace {

constexpr const char* kStyle =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 "
    "1em;color:#1c2024;background:#fff}"
    "h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}table{border-collapse:collapse;margin:.5em 0 1em}"
    "th,td{padding:.25em .8em;text-align:right;border-bottom:1px solid "
    "#dde1e6}th:first-child,td:first-child{text-align:"
    "left}th{font-weight:600}.bad{color:#b3261e;font-weight:600}svg{max-width:100%;height:auto}";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : to_valid_utf8(text)) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

std::string number_cell(double value) {
  return plot_value_text(value, PlotUnit::kNumber);
}
std::string time_cell(double value) {
  return plot_value_text(value, PlotUnit::kSeconds);
}

std::string row(const std::vector<std::string>& cells, const char* tag = "td") {
  std::string text = "<tr>";
  for (const std::string& cell : cells) text += fmt::format("<{0}>{1}</{0}>", tag, cell);
  return text + "</tr>\n";
}

std::string runs_table(const std::vector<TrafficReport>& reports) {
  std::string text =
      "<table>\n" +
      row({"run", "requests", "failed", "requests/s", "tokens/s in", "tokens/s out", "goodput", "client"}, "th");
  for (const TrafficReport& r : reports) {
    const std::string failed = r.failed() > 0 ? fmt::format("<span class=\"bad\">{}</span>", r.failed()) : "0";
    text +=
        row({escaped(r.name), std::to_string(r.requests), failed, number_cell(r.per_second(r.requests)),
             number_cell(r.per_second(static_cast<double>(r.input_tokens))),
             number_cell(r.per_second(static_cast<double>(r.output_tokens))), r.goodput ? number_cell(*r.goodput) : "–",
             fmt::format("{:.0f} %", r.seconds > 0 ? 100 * r.client_cpu_seconds / r.seconds : 0)});
  }
  return text + "</table>\n";
}

std::string times_table(const char* title, const std::vector<TrafficReport>& reports,
                        Percentiles TrafficReport::* times) {
  std::string text = fmt::format("<h2>{}</h2>\n<table>\n", title);
  text += row({"run", "mean", "p50", "p90", "p99", "max"}, "th");
  for (const TrafficReport& r : reports) {
    const Percentiles& p = r.*times;
    if (p.count == 0) continue;
    text += row(
        {escaped(r.name), time_cell(p.mean), time_cell(p.p50), time_cell(p.p90), time_cell(p.p99), time_cell(p.max)});
  }
  return text + "</table>\n";
}

std::string failures_list(const std::vector<TrafficReport>& reports) {
  std::string items;
  for (const TrafficReport& r : reports) {
    for (const auto& [kind, count] : r.failures) {
      const auto example = r.examples.find(kind);
      items += fmt::format("<li>{}: {} × {}: {}</li>\n", escaped(r.name), count, kind,
                           example == r.examples.end() ? "" : escaped(example->second));
    }
    if (r.more_events > 0)
      items += fmt::format("<li>{}: {} answers have more events than tokens</li>\n", escaped(r.name), r.more_events);
  }
  return items.empty() ? "" : "<h2>Failures</h2>\n<ul class=\"bad\">\n" + items + "</ul>\n";
}

LinePlot curves(const char* title, const std::vector<TrafficReport>& reports, Curve TrafficReport::* curve) {
  LinePlot plot;
  plot.title = title;
  plot.x = {.label = "", .unit = PlotUnit::kSeconds, .log = true, .low = {}, .high = {}};
  plot.y = {.label = "up to this time", .unit = PlotUnit::kPercent, .log = false, .low = 0, .high = 100};
  for (const TrafficReport& r : reports) {
    LineSeries series;
    series.name = r.name;
    for (const auto& [value, percent] : r.*curve) {
      series.x.push_back(value);
      series.y.push_back(percent);
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

using Value = std::function<double(const TrafficReport&)>;

LinePlot against_load(const char* title, PlotUnit unit, const std::vector<std::pair<std::string, Value>>& lines,
                      const std::vector<TrafficReport>& reports, const std::vector<TrafficReport>& baseline) {
  LinePlot plot;
  plot.title = title;
  plot.x.label = "load";
  plot.y.unit = unit;
  plot.y.low = 0;
  for (const auto* runs : {&reports, &baseline}) {
    if (runs->size() < 2) continue;
    for (const auto& [name, value] : lines) {
      LineSeries series;
      series.name = runs == &baseline ? name + ", baseline" : name;
      for (const TrafficReport& r : *runs) {
        series.x.push_back(r.load);
        series.y.push_back(value(r));
      }
      plot.series.push_back(std::move(series));
    }
  }
  return plot;
}

std::vector<Plot> sweep_plots(const std::vector<TrafficReport>& reports, const std::vector<TrafficReport>& baseline) {
  const auto percentiles = [](Percentiles TrafficReport::* times) {
    return std::vector<std::pair<std::string, Value>>{
        {"p50", [times](const TrafficReport& r) { return (r.*times).p50; }},
        {"p90", [times](const TrafficReport& r) { return (r.*times).p90; }},
        {"p99", [times](const TrafficReport& r) { return (r.*times).p99; }}};
  };
  const std::vector<std::pair<std::string, Value>> rates = {
      {"tokens/s out", [](const TrafficReport& r) { return r.per_second(static_cast<double>(r.output_tokens)); }}};
  return {against_load("Time to first token by load", PlotUnit::kSeconds, percentiles(&TrafficReport::ttft), reports,
                       baseline),
          against_load("Time between tokens by load", PlotUnit::kSeconds, percentiles(&TrafficReport::itl), reports,
                       baseline),
          against_load("Time of an answer by load", PlotUnit::kSeconds, percentiles(&TrafficReport::e2e), reports,
                       baseline),
          against_load("Throughput by load", PlotUnit::kNumber, rates, reports, baseline)};
}

}  // namespace

std::string to_html(const std::string& title, const std::vector<std::pair<std::string, std::string>>& facts,
                    const std::vector<TrafficReport>& reports, const std::vector<TrafficReport>& baseline) {
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width\">\n<title>{0}</title>\n<style>{1}</style>\n<h1>{0}</h1>\n<table>\n",
      escaped(title), kStyle);
  for (const auto& [name, value] : facts) html += row({escaped(name), escaped(value)});
  html += "</table>\n<h2>Runs</h2>\n" + runs_table(reports) + failures_list(reports);
  if (reports.size() > 1) html += render_svg(sweep_plots(reports, baseline), 2) + "\n";
  html += render_svg({curves("Time to first token", reports, &TrafficReport::ttft_curve),
                      curves("Time between tokens", reports, &TrafficReport::itl_curve),
                      curves("Time of an answer", reports, &TrafficReport::e2e_curve)},
                     2) +
          "\n";
  html += times_table("Time to first token", reports, &TrafficReport::ttft) +
          times_table("Time between events of an answer", reports, &TrafficReport::itl) +
          times_table("Time per output token", reports, &TrafficReport::tpot) +
          times_table("Time of an answer", reports, &TrafficReport::e2e) +
          times_table("Sent later than due (the client)", reports, &TrafficReport::lag);
  if (!baseline.empty())
    html += "<h2>Beside the baseline</h2>\n<pre>" + escaped(comparison_text(reports, baseline)) + "</pre>\n";
  return html + "</html>\n";
}

}  // namespace sluice
