// TrafficReport: a load run in figures, the same for any server; as a table, as JSON, and as one HTML file with plots.
//
//   ttft    sending to the first event with text, reasoning or a tool call
//   itl     between one such event and the next, all gaps of all requests; an event may hold several tokens
//   tpot    (end - first token) / (tokens - 1) of a request, tokens by the server's usage, or by events where it has
//   none e2e     sending to the end of the answer lag     how much later than due the client sent a request: its own
//   fault, not the server's
// Times are in seconds. Failed requests are counted by kind and otherwise left out. Throughput is over the time from
// the first sending to the last end. Goodput counts the requests a second that kept every limit of `slo`. Thread
// safety: plain values.
// Used by cli/bench/bench_serve_command.cc, traffic_report_html.cc and traffic_report_text.cc.
#pragma once

#include <boost/json/object.hpp>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "loadgen/load_run.h"
#include "sim/percentiles.h"

namespace sluice {

struct ServiceLevel {
  std::optional<double> ttft, itl, tpot, e2e;  // seconds, at most; itl: a request's longest gap
  bool empty() const { return !ttft && !itl && !tpot && !e2e; }
};
// "ttft:500ms,itl:50ms,e2e:10s"; units us, ms, s.
Result<ServiceLevel> parse_service_level(const std::string& text);

using Curve = std::vector<std::pair<double, double>>;  // (value, percent of all up to it), at most 200 points

struct TrafficReport {
  std::string name;                             // "4 at a time", "2.5 a second"
  double load = 0;                              // the number in it
  int requests = 0;                             // requests that ended well
  std::map<std::string, int> failures;          // failed requests, by failure_name()
  std::map<std::string, std::string> examples;  // a reason for each
  double seconds = 0;
  std::int64_t input_tokens = 0, cached_tokens = 0, output_tokens = 0, events = 0;
  bool usage_known = true;  // every answer reported its tokens; else output tokens are events
  int short_answers = 0;    // fewer tokens than asked for
  int more_events = 0;      // answers with more events than tokens: something came twice
  Percentiles ttft, itl, tpot, e2e, lag;
  Curve ttft_curve, itl_curve, e2e_curve;
  std::optional<double> goodput;  // requests a second
  double client_cpu_seconds = 0;

  int failed() const;
  double per_second(double count) const { return seconds > 0 ? count / seconds : 0; }
};

TrafficReport make_traffic_report(std::string name, double load, const LoadRun& run, const ServiceLevel& slo);

boost::json::object to_json(const TrafficReport& report);
std::string to_text(const std::vector<TrafficReport>& reports);

// Reports of another run, from the JSON that this program wrote: what can be compared (percentiles and rates).
Result<std::vector<TrafficReport>> read_traffic_reports(const std::string& path);
// Ratios of `reports` to those of `baseline` with the same name.
std::string comparison_text(const std::vector<TrafficReport>& reports, const std::vector<TrafficReport>& baseline);

// `title`: of the page; `facts`: (name, value) of the run's options; `baseline` may be empty.
std::string to_html(const std::string& title, const std::vector<std::pair<std::string, std::string>>& facts,
                    const std::vector<TrafficReport>& reports, const std::vector<TrafficReport>& baseline);

}  // namespace sluice
