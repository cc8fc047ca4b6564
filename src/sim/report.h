// Report: a simulation's results as JSON, as a table for a terminal, and as plots.
//
// Times are in seconds. "ttft" is the time from arrival to the first token, "queue" that from arrival to the first step
// with the request, "inter_token" the gaps between a request's tokens (0.4 % coarse), "longest_gap" the longest of each
// request. Short prompts have at most 1,024 tokens. Refused requests are counted and otherwise left out. Thread safety:
// plain values.
// Used by cli/commands/simulate_command.cc and report_plots.cc.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <utility>
#include <vector>

#include "plot/plot.h"
#include "sim/percentiles.h"
#include "sim/simulation.h"

namespace sluice {

// (value, percent of all up to it), thinned out.
using Distribution = std::vector<std::pair<double, double>>;

struct RunReport {
  std::string name;  // the policy's
  int requests = 0, refused = 0;
  double seconds = 0, longest_step = 0;
  std::uint64_t steps = 0, rows = 0;
  std::uint64_t input_tokens = 0, output_tokens = 0, cached_tokens = 0;
  Percentiles ttft, short_ttft, long_ttft, inter_token, longest_gap, queue, end_to_end;
  Distribution ttft_curve, inter_token_curve, queue_curve, end_to_end_curve;
  std::vector<MemoryPoint> memory;
  EngineStats stats;

  // The part of the prompts' tokens that was not computed.
  double hit_rate() const;
  double output_tokens_per_second() const;
};

RunReport make_report(std::string name, const SimulationResult& result);

boost::json::value to_json(const RunReport& report);
std::string to_text(const std::vector<RunReport>& reports);

struct ReportPlot {
  std::string file;  // "latency.svg"
  std::string svg;
};
std::vector<ReportPlot> make_plots(const std::vector<RunReport>& reports);

}  // namespace sluice
