// A load run's report as text and as JSON, and from JSON.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <fstream>
#include <sstream>

#include "files/json.h"
#include "files/json_fields.h"
#include "loadgen/traffic_report.h"
#include "plot/plot.h"

namespace sluice {
namespace {

namespace json = boost::json;

struct NamedTimes {
  const char* name;
  Percentiles TrafficReport::* times;
};
constexpr NamedTimes kTimes[] = {{"ttft", &TrafficReport::ttft},
                                 {"itl", &TrafficReport::itl},
                                 {"tpot", &TrafficReport::tpot},
                                 {"e2e", &TrafficReport::e2e},
                                 {"lag", &TrafficReport::lag}};

json::object times_json(const Percentiles& p) {
  return {{"count", p.count}, {"mean", p.mean}, {"p50", p.p50}, {"p90", p.p90}, {"p99", p.p99}, {"max", p.max}};
}

std::string seconds_text(double seconds) {
  return plot_value_text(seconds, PlotUnit::kSeconds);
}

void append_times(const char* name, const Percentiles& p, std::string& text) {
  if (p.count == 0) return;
  text += fmt::format("  {:<6}{:>10}{:>10}{:>10}{:>10}{:>10}\n", name, seconds_text(p.mean), seconds_text(p.p50),
                      seconds_text(p.p90), seconds_text(p.p99), seconds_text(p.max));
}

std::string report_text(const TrafficReport& report) {
  std::string text = fmt::format("{}: {} requests in {}", report.name, report.requests, seconds_text(report.seconds));
  for (const auto& [kind, count] : report.failures)
    text += fmt::format("\n  FAILED {} x {}: {}", count, kind, report.examples.at(kind));
  const auto rate = [&](double count) { return plot_value_text(report.per_second(count), PlotUnit::kNumber); };
  text += fmt::format("\n  {} requests/s, {} tokens/s in ({} tokens, {} cached), {} tokens/s out ({}{})\n",
                      rate(report.requests), rate(static_cast<double>(report.input_tokens)), report.input_tokens,
                      report.cached_tokens, rate(static_cast<double>(report.output_tokens)), report.output_tokens,
                      report.usage_known ? " tokens" : " events: the server tells no usage");
  if (report.goodput) text += fmt::format("  {:.3g} requests/s within the limits (goodput)\n", *report.goodput);
  text += fmt::format("  {:<6}{:>10}{:>10}{:>10}{:>10}{:>10}\n", "", "mean", "p50", "p90", "p99", "max");
  for (const NamedTimes& named : kTimes) append_times(named.name, report.*named.times, text);
  if (report.short_answers > 0)
    text += fmt::format("  {} answers have fewer tokens than were asked for\n", report.short_answers);
  if (report.more_events > 0)
    text += fmt::format("  {} answers have more events than tokens: something came twice\n", report.more_events);
  text += fmt::format("  the client itself: {:.0f} % of a processor, {:.1f} us an event\n",
                      report.seconds > 0 ? 100 * report.client_cpu_seconds / report.seconds : 0,
                      report.events > 0 ? 1e6 * report.client_cpu_seconds / static_cast<double>(report.events) : 0);
  return text;
}

Status read_times(const JsonFields& run, const char* name, Percentiles& p) {
  constexpr double kMost = 1e9;
  JsonFields fields = run.child(name);
  fields.read("count", p.count, std::uint64_t{0}, std::uint64_t{1} << 62);
  fields.read("mean", p.mean, 0, kMost);
  fields.read("p50", p.p50, 0, kMost);
  fields.read("p90", p.p90, 0, kMost);
  fields.read("p99", p.p99, 0, kMost);
  fields.read("max", p.max, 0, kMost);
  return fields.status();
}

Result<TrafficReport> read_report(const json::value& value, const std::string& what) {
  TrafficReport report;
  JsonFields fields(value, what);
  fields.require("name", report.name);
  fields.read("load", report.load, 0.0, 1e12);
  fields.require("requests", report.requests, 0, 1 << 30);
  fields.require("seconds", report.seconds, 0.0, 1e12);
  fields.require("input_tokens", report.input_tokens);
  fields.require("output_tokens", report.output_tokens);
  SLUICE_RETURN_IF_ERROR(fields.status());
  for (const NamedTimes& named : kTimes) SLUICE_RETURN_IF_ERROR(read_times(fields, named.name, report.*named.times));
  return report;
}

}  // namespace

json::object to_json(const TrafficReport& report) {
  json::object failures, examples;
  for (const auto& [kind, count] : report.failures) failures[kind] = count;
  for (const auto& [kind, reason] : report.examples) examples[kind] = reason;
  json::object object{{"name", report.name},
                      {"load", report.load},
                      {"requests", report.requests},
                      {"failures", std::move(failures)},
                      {"failure_examples", std::move(examples)},
                      {"seconds", report.seconds},
                      {"input_tokens", report.input_tokens},
                      {"cached_tokens", report.cached_tokens},
                      {"output_tokens", report.output_tokens},
                      {"events", report.events},
                      {"usage_known", report.usage_known},
                      {"short_answers", report.short_answers},
                      {"more_events_than_tokens", report.more_events},
                      {"requests_per_second", report.per_second(report.requests)},
                      {"input_tokens_per_second", report.per_second(static_cast<double>(report.input_tokens))},
                      {"output_tokens_per_second", report.per_second(static_cast<double>(report.output_tokens))},
                      {"client_cpu_seconds", report.client_cpu_seconds}};
  if (report.goodput) object["goodput"] = *report.goodput;
  for (const NamedTimes& named : kTimes) object[named.name] = times_json(report.*named.times);
  return object;
}

std::string to_text(const std::vector<TrafficReport>& reports) {
  std::string text;
  for (const TrafficReport& report : reports) text += report_text(report);
  return text;
}

Result<std::vector<TrafficReport>> read_traffic_reports(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return not_found(fmt::format("{}: cannot be read", path));
  std::stringstream text;
  text << file.rdbuf();
  SLUICE_ASSIGN_OR_RETURN(const json::value value, parse_json(text.str(), path));
  const json::object* object = value.if_object();
  const json::value* runs = object == nullptr ? nullptr : object->if_contains("runs");
  if (runs == nullptr || !runs->is_array())
    return invalid_argument(fmt::format("{}: expected a report of `sluice bench serve --json`, found no 'runs'", path));
  std::vector<TrafficReport> reports;
  for (const json::value& run : runs->get_array()) {
    SLUICE_ASSIGN_OR_RETURN(TrafficReport report, read_report(run, fmt::format("{}: run {}", path, reports.size())));
    reports.push_back(std::move(report));
  }
  return reports;
}

std::string comparison_text(const std::vector<TrafficReport>& reports, const std::vector<TrafficReport>& baseline) {
  std::string text;
  for (const TrafficReport& report : reports) {
    const auto other = std::find_if(baseline.begin(), baseline.end(),
                                    [&](const TrafficReport& candidate) { return candidate.name == report.name; });
    if (other == baseline.end()) continue;
    text += fmt::format("{}, times of the baseline's:\n", report.name);
    const auto ratio = [](double value, double base) { return base > 0 ? fmt::format("{:.2f}", value / base) : "-"; };
    text += fmt::format("  output tokens/s {}, requests/s {}\n",
                        ratio(report.per_second(static_cast<double>(report.output_tokens)),
                              other->per_second(static_cast<double>(other->output_tokens))),
                        ratio(report.per_second(report.requests), other->per_second(other->requests)));
    for (const NamedTimes& named : kTimes) {
      const Percentiles &p = report.*named.times, &q = (*other).*named.times;
      if (p.count == 0 || q.count == 0) continue;
      text += fmt::format("  {:<6} mean {}, p50 {}, p90 {}, p99 {}\n", named.name, ratio(p.mean, q.mean),
                          ratio(p.p50, q.p50), ratio(p.p90, q.p90), ratio(p.p99, q.p99));
    }
  }
  return text;
}

}  // namespace sluice
