#include "measure/speed_report.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <cmath>

#include "base/plot.h"

namespace sluice {
namespace {

namespace json = boost::json;

json::object row_json(const SpeedRow& row) {
  json::array runs;
  for (const SpeedRun& run : row.runs) {
    json::object entry = to_json(run.machine);
    entry["seconds"] = run.seconds;
    runs.push_back(std::move(entry));
  }
  json::object object{{"test", row.test.name()},
                      {"depth", row.test.depth},
                      {"state", row.test.depth > 0 ? "synthetic" : "none"},
                      {"tokens", row.test.tokens},
                      {"concurrency", row.test.concurrency}};
  if (row.test.prompt > 0) object["prompt"] = row.test.prompt;
  object["tokens_per_second"] = row.tokens_per_second();
  object["bytes_per_token"] = row.bytes_per_token;
  object["used_bytes_per_token"] = row.used_bytes_per_token;
  object["experts_bytes_per_token"] = row.experts_bytes_per_token;
  object["cache_bytes_per_token"] = row.cache_bytes_per_token;
  object["floor_tokens_per_second"] = row.floor_tokens_per_second();
  object["percent_of_floor"] = row.percent_of_floor();
  object["rounds"] = row.runs.size();
  object["voided"] = row.voided;
  object["steady"] = row.steady;
  object["runs"] = std::move(runs);
  return object;
}

}  // namespace

json::object to_json(const MachineSpeed& speed) {
  return {{"read_gbytes", speed.read_gbytes},
          {"f32_gflops", speed.f32_gflops},
          {"bf16_gflops", speed.bf16_gflops},
          {"int8_gops", speed.int8_gops}};
}

std::string to_text(const RoundsResult& result) {
  const MachineSpeed speed = median(result.probes);
  std::string text = fmt::format(
      "machine: read {:.1f} GB/s, f32 {:.0f} GFLOP/s, bf16 dot {:.0f} GFLOP/s, int8 {:.0f} GOP/s (medians of {})\n",
      speed.read_gbytes, speed.f32_gflops, speed.bf16_gflops, speed.int8_gops, result.probes.size());
  text += fmt::format("{:<12}{:>8}{:>8}{:>12}{:>12}{:>14}{:>12}{:>7}{:>8}{:>8}\n", "test", "depth", "tokens",
                      "concurrent", "tokens/s", "MB a token", "floor", "%", "rounds", "voided");
  bool unsteady = false, synthetic = false;
  for (const SpeedRow& row : result.rows) {
    unsteady = unsteady || !row.steady;
    synthetic = synthetic || row.test.depth > 0;
    text += fmt::format("{:<12}{:>8}{:>8}{:>12}{:>12.1f}{:>14.3f}{:>12.1f}{:>7.1f}{:>8}{:>8}{}\n", row.test.name(),
                        row.test.depth, row.test.tokens, row.test.concurrency, row.tokens_per_second(),
                        row.bytes_per_token * 1e-6, row.floor_tokens_per_second(), row.percent_of_floor(),
                        row.runs.size(), row.voided, row.steady ? "" : " unsteady");
  }
  if (synthetic) text += "depth: a synthetic state, random rows\n";
  if (unsteady) {
    text += fmt::format("unsteady: the machine's speed changed by more than {:.0f} % in every run\n", 100 * kSteady);
  }
  return text;
}

json::object to_json(const RoundsResult& result) {
  json::array probes, rows;
  for (const MachineSpeed& speed : result.probes) probes.push_back(to_json(speed));
  for (const SpeedRow& row : result.rows) rows.push_back(row_json(row));
  return {{"probe", to_json(median(result.probes))}, {"probes", std::move(probes)}, {"rows", std::move(rows)}};
}

std::string to_svg(const RoundsResult& result, const std::string& title) {
  BarPlot speed, percent;
  speed.title = title;
  speed.y.label = "tokens/s";
  speed.y.log = true;
  percent.title = "Percent of the floor";
  percent.y.unit = PlotUnit::kPercent;
  percent.y.low = 0;
  BarSeries measured{.name = "measured", .values = {}}, floor{.name = "floor", .values = {}};
  BarSeries part{.name = "", .values = {}};
  for (const SpeedRow& row : result.rows) {
    speed.groups.push_back(row.test.text());
    measured.values.push_back(row.tokens_per_second());
    floor.values.push_back(row.floor_tokens_per_second());
    part.values.push_back(row.percent_of_floor());
  }
  percent.groups = speed.groups;
  speed.series = {measured, floor};
  percent.series = {part};
  return render_svg({speed, percent});
}

}  // namespace sluice
