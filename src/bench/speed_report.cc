// Used by cli/bench/bench_command.cc and rounds.cc.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <string_view>

#include "bench/rounds.h"
#include "plot/plot.h"

namespace sluice {
namespace {

namespace json = boost::json;

bool has_stages(const SpeedRow& row) {
  return sum_of(row.stages()).seconds > 0;
}

// {"dense": {"seconds", "waiting", "alone", "forks", "calls"}, ...}
json::object stages_json(const StageTimes& stages) {
  json::object object;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const StageTime& stage = stages[i];
    object[kStageNames[i]] = {{"seconds", stage.seconds},
                              {"waiting", stage.waiting},
                              {"alone", stage.alone},
                              {"forks", stage.forks},
                              {"calls", stage.calls}};
  }
  return object;
}

// A line for each stage of a step, and one for all.
std::string stages_text(const SpeedRow& row) {
  const StageTimes stages = row.stages();
  const StageTime all = sum_of(stages);
  std::string text = fmt::format("a step of {}:\n{:<12}{:>10}{:>10}{:>10}{:>8}{:>8}{:>16}\n", row.test.text(), "stage",
                                 "ms", "waiting", "alone", "forks", "calls", "% lost");
  const auto add = [&](const char* name, const StageTime& stage) {
    text += fmt::format("{:<12}{:>10.3f}{:>10.3f}{:>10.3f}{:>8}{:>8}{:>16.1f}\n", name, 1e3 * stage.seconds,
                        1e3 * stage.waiting, 1e3 * stage.alone, stage.forks, stage.calls,
                        100 * (stage.waiting + stage.alone) / all.seconds);
  };
  for (std::size_t i = 0; i < stages.size(); ++i) add(kStageNames[i], stages[i]);
  add("all", all);
  return text;
}

// The mean choices of a layer's router in a step, for tests in which it chooses for several rows at once.
std::string routing_text(const SpeedRow& row) {
  const RoutingCount& routing = row.routing;
  if (routing.layers == 0 || row.test.kind != SpeedCase::Kind::kConcurrent) return {};
  return fmt::format("{}: a layer met {:.1f} experts in a step, and the fullest one had {:.1f} rows\n", row.test.text(),
                     routing.met / routing.layers, routing.fullest / routing.layers);
}

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
  if (row.routing.layers > 0) {
    object["experts_met"] = row.routing.met / row.routing.layers;
    object["rows_of_fullest_expert"] = row.routing.fullest / row.routing.layers;
  }
  object["floor_tokens_per_second"] = row.floor_tokens_per_second();
  object["percent_of_floor"] = row.percent_of_floor();
  object["rounds"] = row.runs.size();
  object["voided"] = row.voided;
  object["steady"] = row.steady;
  object["uneven"] = row.uneven();
  if (has_stages(row)) object["stages"] = stages_json(row.stages());
  if (!row.kernels.kernels.empty()) object["kernels"] = to_json(row.kernels);
  object["runs"] = std::move(runs);
  return object;
}

// 8192 is "8K", 1000 is "1000".
std::string short_count(int count) {
  return count >= 1024 && count % 1024 == 0 ? fmt::format("{}K", count / 1024) : fmt::format("{}", count);
}

// The label of a test among others of its kind; short, since many stand side by side.
std::string label(const SpeedCase& test) {
  if (test.concurrency > 1) return short_count(test.concurrency);
  const std::string tokens = short_count(test.tokens);
  return test.depth > 0 ? fmt::format("{} at {}", tokens, short_count(test.depth)) : tokens;
}

BarPlot speed_plot(const std::string& title, const std::vector<const SpeedRow*>& rows) {
  BarPlot plot;
  plot.title = title;
  plot.y.label = "tokens/s";
  plot.y.low = 0;
  BarSeries measured{.name = "measured", .values = {}}, floor{.name = "floor", .values = {}};
  for (const SpeedRow* row : rows) {
    plot.groups.push_back(label(row->test));
    measured.values.push_back(row->tokens_per_second());
    floor.values.push_back(row->floor_tokens_per_second());
  }
  plot.series = {measured, floor};
  return plot;
}

BarPlot percent_plot(const std::string& title, const std::vector<const SpeedRow*>& rows) {
  BarPlot plot;
  plot.title = title;
  plot.y.unit = PlotUnit::kPercent;
  plot.y.low = 0;
  BarSeries percent{.name = "", .values = {}};
  for (const SpeedRow* row : rows) {
    plot.groups.push_back(label(row->test));
    percent.values.push_back(row->percent_of_floor());
  }
  plot.y.high = std::max(100.0, *std::max_element(percent.values.begin(), percent.values.end()));
  plot.series = {percent};
  return plot;
}

// Of test i: "      100.0 2.00", the second beside the fastest of fewer threads.
std::string speed_among(const std::vector<ThreadsResult>& results, const ThreadsResult& of, std::size_t i) {
  const SpeedRow* fewer = nullptr;
  for (const ThreadsResult& other : results) {
    const SpeedRow& row = other.result.rows[i];
    const bool faster = fewer == nullptr || row.tokens_per_second() > fewer->tokens_per_second();
    if (other.threads < of.threads && faster) fewer = &row;
  }
  const SpeedRow& row = of.result.rows[i];
  if (fewer == nullptr) return fmt::format("{:>11.1f}", row.tokens_per_second());
  const double ratio = row.tokens_per_second() / fewer->tokens_per_second();
  const char* mark = !row.steady || !fewer->steady ? "?" : ratio < 1 - kSlower ? "!" : "";
  return fmt::format("{:>11.1f} {:.2f}{}", row.tokens_per_second(), ratio, mark);
}

std::string trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

json::object to_json(const MachineSpeed& speed) {
  return {{"read_gbytes", speed.read_gbytes},   {"f32_gflops", speed.f32_gflops},
          {"bf16_gflops", speed.bf16_gflops},   {"int8_gops", speed.int8_gops},
          {"tiles_gflops", speed.tiles_gflops}, {"thread_ratio", speed.thread_ratio}};
}

std::string to_text(const RoundsResult& result) {
  const MachineSpeed speed = median(result.probes);
  std::string text = fmt::format("machine: memory {:.1f} GB/s", speed.read_gbytes);
  const auto add = [&](const char* what, double value, const char* unit) {
    if (value > 0) text += fmt::format(", {} {:.0f} {}", what, value, unit);
  };
  add("f32", speed.f32_gflops, "GFLOP/s");
  add("bf16 dot", speed.bf16_gflops, "GFLOP/s");
  add("int8", speed.int8_gops, "GOP/s");
  add("tiles", speed.tiles_gflops, "GFLOP/s");
  if (speed.thread_ratio > 1) text += fmt::format(", slowest thread {:.2f} of the fastest", 1 / speed.thread_ratio);
  text += fmt::format(" (medians of {})\n", result.probes.size());
  text += fmt::format("{:<12}{:>8}{:>8}{:>12}{:>12}{:>14}{:>12}{:>7}{:>8}{:>8}\n", "test", "depth", "tokens",
                      "concurrent", "tokens/s", "MB a token", "floor", "%", "rounds", "voided");
  bool unsteady = false, uneven = false, synthetic = false;
  for (const SpeedRow& row : result.rows) {
    unsteady = unsteady || !row.steady;
    uneven = uneven || row.uneven() > 0;
    synthetic = synthetic || row.test.depth > 0;
    text += fmt::format("{:<12}{:>8}{:>8}{:>12}{:>12.1f}{:>14.3f}{:>12.1f}{:>7.1f}{:>8}{:>8}{}\n", row.test.name(),
                        row.test.depth, row.test.tokens, row.test.concurrency, row.tokens_per_second(),
                        row.bytes_per_token * 1e-6, row.floor_tokens_per_second(), row.percent_of_floor(),
                        row.runs.size(), row.voided, row.steady ? "" : " unsteady");
    if (row.uneven() > 0) text.insert(text.size() - 1, fmt::format(" uneven {}", row.uneven()));
  }
  if (synthetic) text += "depth: a synthetic state, random rows\n";
  if (unsteady) {
    text += fmt::format("unsteady: the machine's speed changed by more than {:.0f} % in every run\n", 100 * kSteady);
  }
  if (uneven) {
    text += fmt::format("uneven: so many rounds whose threads differed in speed by more than {:.1f}\n", kEvenThreads);
  }
  for (const std::string& why : result.left_out) text += fmt::format("left out: {}\n", why);
  for (const SpeedRow& row : result.rows) {
    text += routing_text(row);
    if (has_stages(row)) text += stages_text(row);
    text += to_text(row.kernels, row.test.text());
  }
  if (!result.no_kernel_times.empty()) text += result.no_kernel_times + "\n";
  return text;
}

std::string threads_text(const std::vector<ThreadsResult>& results) {
  if (results.size() < 2) return {};
  const std::vector<SpeedRow>& rows = results.front().result.rows;
  std::size_t width = 0;
  for (const SpeedRow& row : rows) width = std::max(width, row.test.text().size());
  std::string head = fmt::format("{:<{}}", "threads", width), text;
  for (const ThreadsResult& of : results) head += fmt::format("{:>11}       ", of.threads);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::string line = fmt::format("{:<{}}", rows[i].test.text(), width);
    for (const ThreadsResult& of : results) line += fmt::format("{:<18}", speed_among(results, of, i));
    text += trimmed(line) + "\n";
  }
  text = "tokens/s, and beside it of the fastest of fewer threads, which was measured at another time\n" +
         trimmed(head) + "\n" + text;
  if (text.find('!') != std::string::npos) text += fmt::format("!: slower by more than {:.0f} %\n", 100 * kSlower);
  if (text.find('?') != std::string::npos) text += "?: one of the two is unsteady\n";
  return text;
}

json::object to_json(const RoundsResult& result) {
  json::array probes, rows;
  for (const MachineSpeed& speed : result.probes) probes.push_back(to_json(speed));
  for (const SpeedRow& row : result.rows) rows.push_back(row_json(row));
  json::object object{
      {"probe", to_json(median(result.probes))}, {"probes", std::move(probes)}, {"rows", std::move(rows)}};
  if (!result.left_out.empty()) object["left_out"] = json::array(result.left_out.begin(), result.left_out.end());
  return object;
}

std::string to_svg(const RoundsResult& result, const std::string& title) {
  std::vector<Plot> plots;
  for (const char* const name : {"prefill", "decode", "concurrent"}) {
    std::vector<const SpeedRow*> rows;
    for (const SpeedRow& row : result.rows) {
      if (std::string_view(row.test.name()) == name) rows.push_back(&row);
    }
    if (rows.empty()) continue;
    plots.emplace_back(speed_plot(fmt::format("{}: {}", title, name), rows));
    plots.emplace_back(percent_plot(fmt::format("{}: percent of the floor", name), rows));
  }
  return render_svg(plots, 2);
}

}  // namespace sluice
