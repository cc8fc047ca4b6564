// Used by cli/bench/bench_serve_command.cc, traffic_report_html.cc and traffic_report_text.cc.
#include "loadgen/traffic_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace sluice {
namespace {

constexpr std::size_t kCurvePoints = 200;

double seconds_between(LoadClock::time_point from, LoadClock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

Curve curve_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  Curve curve;
  const std::size_t stride = std::max<std::size_t>(values.size() / kCurvePoints, 1);
  for (std::size_t i = 0; i < values.size(); i += stride)
    curve.emplace_back(values[i], 100.0 * static_cast<double>(i + 1) / static_cast<double>(values.size()));
  if (!values.empty() && curve.back().first != values.back()) curve.emplace_back(values.back(), 100.0);
  return curve;
}

Curve curve_of(const LogHistogram& histogram) {
  const auto all = histogram.distribution();
  Curve curve;
  const std::size_t stride = std::max<std::size_t>(all.size() / kCurvePoints, 1);
  for (std::size_t i = 0; i < all.size(); i += stride) curve.emplace_back(all[i].first, 100 * all[i].second);
  if (!all.empty()) curve.emplace_back(all.back().first, 100.0);
  return curve;
}

// The times of one answer that ended well.
struct Times {
  double ttft = 0, e2e = 0, longest_gap = 0, tpot = 0;
};

Times times_of(const SentRequest& sent) {
  const AnswerRecord& answer = sent.answer;
  Times times;
  times.e2e = seconds_between(sent.sent, answer.end);
  times.ttft = answer.token_times.empty() ? times.e2e : seconds_between(sent.sent, answer.token_times.front());
  for (std::size_t i = 1; i < answer.token_times.size(); ++i)
    times.longest_gap = std::max(times.longest_gap, seconds_between(answer.token_times[i - 1], answer.token_times[i]));
  const int tokens =
      answer.completion_tokens >= 0 ? answer.completion_tokens : static_cast<int>(answer.token_times.size());
  if (tokens > 1 && answer.token_times.size() > 1)
    times.tpot = seconds_between(answer.token_times.front(), answer.token_times.back()) / (tokens - 1);
  return times;
}

bool keeps(const ServiceLevel& slo, const Times& times) {
  const auto within = [](const std::optional<double>& limit, double value) { return !limit || value <= *limit; };
  return within(slo.ttft, times.ttft) && within(slo.itl, times.longest_gap) && within(slo.tpot, times.tpot) &&
         within(slo.e2e, times.e2e);
}

void count_tokens(const SentRequest& sent, TrafficReport& report) {
  const AnswerRecord& answer = sent.answer;
  const auto events = static_cast<int>(answer.token_times.size());
  report.events += events;
  if (answer.prompt_tokens > 0) report.input_tokens += answer.prompt_tokens;
  if (answer.cached_tokens > 0) report.cached_tokens += answer.cached_tokens;
  if (answer.completion_tokens < 0) {
    report.usage_known = false;
    report.output_tokens += events;
    return;
  }
  report.output_tokens += answer.completion_tokens;
  report.short_answers += answer.completion_tokens < sent.asked_tokens ? 1 : 0;
  report.more_events += events > answer.completion_tokens ? 1 : 0;
}

Result<double> parse_duration(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  const double scale = unit == "s" ? 1 : unit == "ms" ? 1e-3 : unit == "us" ? 1e-6 : 0;
  if (error != std::errc() || scale == 0 || !(value > 0))
    return invalid_argument(fmt::format("expected a time such as 500ms, found '{}'", text));
  return value * scale;
}

}  // namespace

Result<ServiceLevel> parse_service_level(const std::string& text) {
  ServiceLevel slo;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
    const std::size_t colon = item.find(':');
    const std::string_view name = item.substr(0, colon);
    std::optional<double>* limit = name == "ttft"   ? &slo.ttft
                                   : name == "itl"  ? &slo.itl
                                   : name == "tpot" ? &slo.tpot
                                   : name == "e2e"  ? &slo.e2e
                                                    : nullptr;
    if (limit == nullptr || colon == std::string_view::npos)
      return invalid_argument(fmt::format("expected ttft, itl, tpot or e2e with a time, found '{}'", item));
    SLUICE_ASSIGN_OR_RETURN(*limit, parse_duration(item.substr(colon + 1)));
  }
  return slo;
}

int TrafficReport::failed() const {
  int count = 0;
  for (const auto& [kind, number] : failures) count += number;
  return count;
}

TrafficReport make_traffic_report(std::string name, double load, const LoadRun& run, const ServiceLevel& slo) {
  TrafficReport report;
  report.name = std::move(name);
  report.load = load;
  report.client_cpu_seconds = run.client_cpu_seconds;
  std::vector<double> ttft, tpot, e2e, lag;
  LogHistogram gaps;
  int good = 0;
  LoadClock::time_point first = run.end, last = run.start;
  for (const SentRequest& sent : run.requests) {
    lag.push_back(seconds_between(sent.due, sent.sent));
    first = std::min(first, sent.sent);
    last = std::max(last, sent.answer.end);
    if (sent.answer.failure != Failure::kNone) {
      const char* const kind = failure_name(sent.answer.failure);
      ++report.failures[kind];
      report.examples.try_emplace(kind, sent.answer.reason);
      continue;
    }
    ++report.requests;
    count_tokens(sent, report);
    const Times times = times_of(sent);
    ttft.push_back(times.ttft);
    e2e.push_back(times.e2e);
    if (times.tpot > 0) tpot.push_back(times.tpot);
    for (std::size_t i = 1; i < sent.answer.token_times.size(); ++i)
      gaps.add(seconds_between(sent.answer.token_times[i - 1], sent.answer.token_times[i]));
    good += keeps(slo, times) ? 1 : 0;
  }
  report.seconds = std::max(0.0, seconds_between(first, last));
  if (!slo.empty()) report.goodput = report.per_second(good);
  report.ttft_curve = curve_of(ttft);
  report.itl_curve = curve_of(gaps);
  report.e2e_curve = curve_of(e2e);
  report.ttft = percentiles_of(std::move(ttft));
  report.itl = gaps.percentiles();
  report.tpot = percentiles_of(std::move(tpot));
  report.e2e = percentiles_of(std::move(e2e));
  report.lag = percentiles_of(std::move(lag));
  return report;
}

}  // namespace sluice
