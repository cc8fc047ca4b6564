// Used by cli/commands/simulate_command.cc and report_plots.cc.
#include "sim/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <cmath>
#include <iterator>

namespace sluice {
namespace {

namespace json = boost::json;

constexpr int kShortPrompt = 1024;
constexpr std::size_t kCurvePoints = 250;

struct Values {
  std::vector<double> ttft, short_ttft, long_ttft, longest_gap, queue, end_to_end;
};

Values collect(const SimulationResult& result) {
  Values v;
  for (const RequestRecord& r : result.requests) {
    if (r.refused) continue;
    v.ttft.push_back(r.first_token_seconds());
    (r.input_tokens <= kShortPrompt ? v.short_ttft : v.long_ttft).push_back(r.first_token_seconds());
    if (r.output_tokens > 1) v.longest_gap.push_back(r.longest_gap);
    v.queue.push_back(r.queue_seconds());
    v.end_to_end.push_back(r.end_to_end_seconds());
  }
  return v;
}

Distribution curve_of(std::vector<double> values) {
  Distribution curve;
  if (values.empty()) return curve;
  std::sort(values.begin(), values.end());
  const std::size_t count = values.size();
  const std::size_t points = std::min(count, kCurvePoints);
  curve.emplace_back(values.front(), 0);
  for (std::size_t i = 1; i <= points; ++i) {
    const std::size_t rank = std::max<std::size_t>(count * i / points, 1);
    curve.emplace_back(values[rank - 1], 100 * static_cast<double>(rank) / static_cast<double>(count));
  }
  return curve;
}

Distribution curve_of(const LogHistogram& histogram) {
  Distribution curve;
  double last = -1;
  for (const auto& [value, part] : histogram.distribution()) {
    if (curve.empty()) curve.emplace_back(value, 0);
    if (part - last < 1.0 / kCurvePoints && part < 1) continue;
    curve.emplace_back(value, 100 * part);
    last = part;
  }
  return curve;
}

json::object percentiles_json(const Percentiles& p) {
  return {{"count", p.count}, {"mean", p.mean}, {"p50", p.p50}, {"p90", p.p90}, {"p99", p.p99}, {"max", p.max}};
}

json::object cache_json(const CacheStats& c) {
  return {{"admissions", c.admissions},
          {"prompt_tokens", c.prompt_tokens},
          {"matched_tokens", c.matched_tokens},
          {"resumed_tokens", c.resumed_tokens},
          {"lost_to_retention_tokens", c.lost_to_retention_tokens},
          {"shared_waits", c.shared_waits},
          {"inserted_blocks", c.inserted_blocks},
          {"evicted_blocks", c.evicted_blocks},
          {"inserted_windows", c.inserted_windows},
          {"evicted_windows", c.evicted_windows}};
}

// One array for each value, which is shorter than one object for each point.
json::object memory_json(const RunReport& report) {
  json::array time, running, waiting, latent_used, latent_cached, window_used, window_cached;
  const std::size_t stride = std::max<std::size_t>(report.memory.size() / 512, 1);
  for (std::size_t i = 0; i < report.memory.size(); i += stride) {
    const MemoryPoint& p = report.memory[i];
    time.emplace_back(p.time);
    running.emplace_back(p.running);
    waiting.emplace_back(p.waiting);
    latent_used.emplace_back(p.latent_used);
    latent_cached.emplace_back(p.latent_cached);
    window_used.emplace_back(p.window_used);
    window_cached.emplace_back(p.window_cached);
  }
  return {{"latent_pages_total", report.stats.cache.latent_pages_total},
          {"window_pages_total", report.stats.cache.window_pages_total},
          {"time", std::move(time)},
          {"running", std::move(running)},
          {"waiting", std::move(waiting)},
          {"latent_pages_used", std::move(latent_used)},
          {"latent_pages_cached", std::move(latent_cached)},
          {"window_pages_used", std::move(window_used)},
          {"window_pages_cached", std::move(window_cached)}};
}

double per_second(std::uint64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

std::string time_text(double seconds) {
  return plot_value_text(seconds, PlotUnit::kSeconds);
}

}  // namespace

double RunReport::hit_rate() const {
  return input_tokens == 0 ? 0 : static_cast<double>(cached_tokens) / static_cast<double>(input_tokens);
}

double RunReport::output_tokens_per_second() const {
  return per_second(output_tokens, seconds);
}

RunReport make_report(std::string name, const SimulationResult& result) {
  RunReport report;
  report.name = std::move(name);
  report.requests = static_cast<int>(result.requests.size());
  for (const RequestRecord& r : result.requests) {
    report.refused += r.refused ? 1 : 0;
    if (r.refused) continue;
    report.input_tokens += static_cast<std::uint64_t>(r.input_tokens);
    report.output_tokens += static_cast<std::uint64_t>(r.output_tokens);
    report.cached_tokens += static_cast<std::uint64_t>(r.cached_tokens);
  }
  report.seconds = result.seconds;
  report.longest_step = result.longest_step;
  report.steps = result.steps;
  report.rows = result.rows;
  report.inter_token = result.token_gaps.percentiles();
  report.inter_token_curve = curve_of(result.token_gaps);
  report.memory = result.memory;
  report.stats = result.stats;

  Values values = collect(result);
  report.short_ttft = percentiles_of(std::move(values.short_ttft));
  report.long_ttft = percentiles_of(std::move(values.long_ttft));
  report.longest_gap = percentiles_of(std::move(values.longest_gap));
  report.ttft = percentiles_of(values.ttft);
  report.queue = percentiles_of(values.queue);
  report.end_to_end = percentiles_of(values.end_to_end);
  report.ttft_curve = curve_of(std::move(values.ttft));
  report.queue_curve = curve_of(std::move(values.queue));
  report.end_to_end_curve = curve_of(std::move(values.end_to_end));
  return report;
}

json::value to_json(const RunReport& r) {
  return json::object{
      {"policy", r.name},
      {"requests", r.requests},
      {"refused", r.refused},
      {"seconds", r.seconds},
      {"steps", r.steps},
      {"rows", r.rows},
      {"longest_step", r.longest_step},
      {"input_tokens", r.input_tokens},
      {"output_tokens", r.output_tokens},
      {"requests_per_second", per_second(static_cast<std::uint64_t>(r.requests - r.refused), r.seconds)},
      {"input_tokens_per_second", per_second(r.input_tokens, r.seconds)},
      {"output_tokens_per_second", r.output_tokens_per_second()},
      {"ttft", percentiles_json(r.ttft)},
      {"ttft_short_prompts", percentiles_json(r.short_ttft)},
      {"ttft_long_prompts", percentiles_json(r.long_ttft)},
      {"inter_token", percentiles_json(r.inter_token)},
      {"longest_gap", percentiles_json(r.longest_gap)},
      {"queue", percentiles_json(r.queue)},
      {"end_to_end", percentiles_json(r.end_to_end)},
      {"hit_rate", r.hit_rate()},
      {"prefix_cache", cache_json(r.stats.cache)},
      {"preemptions_recompute", r.stats.preemptions_recompute},
      {"preemptions_swap", r.stats.preemptions_swap},
      {"memory", memory_json(r)},
  };
}

std::string to_text(const std::vector<RunReport>& reports) {
  std::string text =
      fmt::format("{:<14}{:>11}{:>11}{:>13}{:>11}{:>11}{:>11}{:>10}{:>8}{:>10}\n", "policy", "TTFT p50", "TTFT p99",
                  "short p99", "ITL p50", "ITL p99", "ITL max", "tokens/s", "hits", "preempted");
  for (const RunReport& r : reports) {
    fmt::format_to(std::back_inserter(text), "{:<14}{:>11}{:>11}{:>13}{:>11}{:>11}{:>11}{:>10.0f}{:>6.1f} %{:>10}\n",
                   r.name, time_text(r.ttft.p50), time_text(r.ttft.p99), time_text(r.short_ttft.p99),
                   time_text(r.inter_token.p50), time_text(r.inter_token.p99), time_text(r.inter_token.max),
                   r.output_tokens_per_second(), 100 * r.hit_rate(),
                   r.stats.preemptions_recompute + r.stats.preemptions_swap);
  }
  return text;
}

}  // namespace sluice
