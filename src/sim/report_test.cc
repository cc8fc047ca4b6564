#include "sim/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/object.hpp>

#include "files/json.h"

namespace sluice::report_test {
namespace {

using testing::HasSubstr;

// Four requests that were answered and one that was refused.
SimulationResult result_of_five() {
  SimulationResult result;
  for (int i = 0; i < 4; ++i) {
    RequestRecord r;
    r.arrival = i;
    r.admitted = i + 0.5;
    r.first_token = i + 1.0 + i;
    r.end = r.first_token + 10;
    r.longest_gap = 0.25 * (i + 1);
    r.input_tokens = i == 3 ? 5000 : 100;
    r.output_tokens = 20;
    r.cached_tokens = i == 2 ? 50 : 0;
    result.requests.push_back(r);
  }
  RequestRecord refused;
  refused.refused = true;
  refused.input_tokens = 1 << 20;
  result.requests.push_back(refused);
  result.token_gaps.add(0.25, 76);
  result.seconds = 16;
  for (int i = 0; i < 1000; ++i) result.memory.push_back({.time = i * 0.016, .running = i % 5, .latent_used = i});
  result.stats.cache.latent_pages_total = 2000;
  result.stats.preemptions_recompute = 3;
  return result;
}

TEST(ReportTest, CountsAndRanks) {
  const RunReport report = make_report("fair", result_of_five());
  EXPECT_EQ(report.requests, 5);
  EXPECT_EQ(report.refused, 1);
  EXPECT_EQ(report.input_tokens, 5300U);
  EXPECT_DOUBLE_EQ(report.hit_rate(), 50.0 / 5300);
  EXPECT_DOUBLE_EQ(report.output_tokens_per_second(), 5);
  EXPECT_EQ(report.ttft.count, 4U);
  EXPECT_DOUBLE_EQ(report.ttft.p50, 2);
  EXPECT_DOUBLE_EQ(report.ttft.max, 4);
  EXPECT_DOUBLE_EQ(report.short_ttft.max, 3);
  EXPECT_DOUBLE_EQ(report.long_ttft.max, 4);
  EXPECT_DOUBLE_EQ(report.queue.max, 0.5);
  EXPECT_DOUBLE_EQ(report.longest_gap.max, 1);
  EXPECT_DOUBLE_EQ(report.end_to_end.max, 14);
  EXPECT_EQ(report.inter_token.count, 76U);
}

TEST(ReportTest, CurvesEndAtTheMaximum) {
  const RunReport report = make_report("fair", result_of_five());
  EXPECT_EQ(report.ttft_curve.front(), std::pair(1.0, 0.0));
  EXPECT_EQ(report.ttft_curve.back(), std::pair(4.0, 100.0));
  EXPECT_TRUE(std::is_sorted(report.ttft_curve.begin(), report.ttft_curve.end()));
  EXPECT_EQ(report.inter_token_curve.back(), std::pair(0.25, 100.0));
}

TEST(ReportTest, WritesJson) {
  const std::string text = dump_json(to_json(make_report("fair", result_of_five())));
  const Result<boost::json::value> parsed = parse_json(text, "report");
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  const boost::json::object& report = parsed->as_object();
  EXPECT_EQ(report.at("policy").as_string(), "fair");
  EXPECT_EQ(report.at("ttft").at("p50").to_number<double>(), 2);
  EXPECT_EQ(report.at("preemptions_recompute").to_number<int>(), 3);
  EXPECT_EQ(report.at("memory").at("time").as_array().size(), 1000U);
}

TEST(ReportTest, WritesATableAndPlots) {
  const std::vector<RunReport> reports = {make_report("fair", result_of_five()), make_report("fcfs", result_of_five())};
  EXPECT_THAT(to_text(reports), HasSubstr("\nfcfs "));
  const std::vector<ReportPlot> plots = make_plots(reports);
  ASSERT_EQ(plots.size(), 3U);
  for (const ReportPlot& plot : plots) {
    EXPECT_THAT(plot.svg, HasSubstr("<svg"));
    EXPECT_THAT(plot.svg, HasSubstr(">fcfs</text>"));
    EXPECT_THAT(plot.svg, Not(HasSubstr("nan")));
  }
}

TEST(ReportTest, NothingAnswered) {
  SimulationResult result;
  result.requests.resize(1);
  result.requests[0].refused = true;
  const RunReport report = make_report("fair", result);
  EXPECT_EQ(report.ttft.count, 0U);
  EXPECT_EQ(report.hit_rate(), 0);
  for (const ReportPlot& plot : make_plots({report})) EXPECT_THAT(plot.svg, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace sluice::report_test
