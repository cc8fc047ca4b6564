#include "plot/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace sluice::plot_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Every tag is closed by its own name, every attribute is quoted: enough to find broken output without an XML library.
testing::AssertionResult is_well_formed(const std::string& svg) {
  std::vector<std::string> open;
  for (std::size_t at = svg.find('<'); at != std::string::npos; at = svg.find('<', at + 1)) {
    const std::size_t end = svg.find('>', at);
    if (end == std::string::npos) return testing::AssertionFailure() << "a tag without an end at " << at;
    std::string tag = svg.substr(at + 1, end - at - 1);
    if (std::count(tag.begin(), tag.end(), '\'') % 2 != 0) return testing::AssertionFailure() << "quotes: " << tag;
    if (tag.find('<') != std::string::npos) return testing::AssertionFailure() << "a tag in a tag: " << tag;
    const std::string name = tag.substr(tag[0] == '/' ? 1 : 0, tag.find_first_of(" /", 1) - (tag[0] == '/' ? 1 : 0));
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return testing::AssertionFailure() << "closes nothing: " << tag;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
  }
  return open.empty() ? testing::AssertionSuccess() : testing::AssertionFailure() << open.back() << " stays open";
}

TEST(PlotTest, WritesValuesWithTheirUnits) {
  EXPECT_EQ(plot_value_text(0.0015, PlotUnit::kSeconds), "1.5 ms");
  EXPECT_EQ(plot_value_text(1, PlotUnit::kSeconds), "1 s");
  EXPECT_EQ(plot_value_text(145.7, PlotUnit::kSeconds), "146 s");
  EXPECT_EQ(plot_value_text(2e-5, PlotUnit::kSeconds), "20 µs");
  EXPECT_EQ(plot_value_text(1500, PlotUnit::kNumber), "1.5k");
  EXPECT_EQ(plot_value_text(0.0469, PlotUnit::kSeconds, 2), "47 ms");
  EXPECT_EQ(plot_value_text(4.82, PlotUnit::kSeconds, 2), "4.8 s");
  EXPECT_EQ(plot_value_text(0.129, PlotUnit::kSeconds, 2), "129 ms");
  EXPECT_EQ(plot_value_text(0, PlotUnit::kNumber), "0");
  EXPECT_EQ(plot_value_text(0.25, PlotUnit::kNumber), "0.25");
  EXPECT_EQ(plot_value_text(999.9, PlotUnit::kNumber), "1k");
  EXPECT_EQ(plot_value_text(0.002, PlotUnit::kNumber), "0.002");
  EXPECT_EQ(plot_value_text(1'000'000, PlotUnit::kNumber), "1M");
  EXPECT_EQ(plot_value_text(97.5, PlotUnit::kPercent), "97.5 %");
}

TEST(PlotTest, LinearTicksAreRound) {
  const PlotScale scale(PlotAxis(), 3, 97);
  EXPECT_THAT(scale.ticks(), ElementsAre(0, 20, 40, 60, 80, 100));
  EXPECT_DOUBLE_EQ(scale.place(50), 0.5);
}

TEST(PlotTest, LogTicksAreDecades) {
  PlotAxis axis;
  axis.log = true;
  const PlotScale scale(axis, 0.001, 10);
  ASSERT_EQ(scale.ticks().size(), 5U);
  EXPECT_NEAR(scale.ticks()[1], 0.01, 1e-12);
  EXPECT_NEAR(scale.place(0.1), 0.5, 1e-12);
  EXPECT_FALSE(scale.can_show(0));
}

TEST(PlotTest, ANarrowLogRangeStillHasTicks) {
  PlotAxis axis;
  axis.log = true;
  const PlotScale scale(axis, 2.1, 4.5);
  EXPECT_GE(scale.ticks().size(), 2U);
}

TEST(PlotTest, AnAxisThatEndsWhereItBegins) {
  PlotAxis axis;
  axis.low = axis.high = 0;
  const PlotScale scale(axis, 0, 0);
  EXPECT_THAT(scale.ticks(), testing::SizeIs(6));
  EXPECT_EQ(scale.place(0), 0);
}

TEST(PlotTest, OneValueLiesWithinItsAxis) {
  for (const bool log : {false, true}) {
    for (const double value : {0.5, 1.0, 20.0}) {
      PlotAxis axis;
      axis.log = log;
      const PlotScale scale(axis, value, value);
      EXPECT_GE(scale.place(value), 0);
      EXPECT_LE(scale.place(value), 1);
      EXPECT_GE(scale.ticks().size(), 2U);
    }
  }
}

LinePlot two_lines() {
  LinePlot plot;
  plot.title = "a < b & \"c\"";
  plot.x.unit = PlotUnit::kSeconds;
  plot.x.log = true;
  plot.series.push_back({.name = "one", .x = {0.1, 1, 10}, .y = {1, 2, 3}});
  plot.series.push_back({.name = "<two>", .x = {1, 2}, .y = {2, 1}, .steps = true});
  return plot;
}

BarPlot two_groups() {
  BarPlot plot;
  plot.title = "bars";
  plot.y.unit = PlotUnit::kSeconds;
  plot.y.log = true;
  plot.groups = {"p50", "max"};
  plot.series = {{.name = "a", .values = {0.1, 2}}, {.name = "b", .values = {0.2, 200}}};
  return plot;
}

TEST(PlotTest, WritesWellFormedSvg) {
  const std::string svg = render_svg({two_lines(), two_groups()}, 2);
  EXPECT_TRUE(is_well_formed(svg));
  EXPECT_THAT(svg, HasSubstr("a &lt; b &amp; &quot;c&quot;"));
  EXPECT_THAT(svg, HasSubstr("<polyline"));
  EXPECT_THAT(svg, HasSubstr(">200 s</text>"));
}

TEST(PlotTest, LeavesOutWhatCannotBeDrawn) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  LinePlot lines;
  lines.x.log = true;
  lines.series.push_back({.name = "s", .x = {0, 1, 2, 3, -1}, .y = {1, nan, 5, infinity, 2}});
  BarPlot bars;
  bars.groups = {"a", "b"};
  bars.series.push_back({.name = "s", .values = {nan}});
  const std::string svg = render_svg({lines, bars, LinePlot{}, BarPlot{}}, 2);
  EXPECT_TRUE(is_well_formed(svg));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

}  // namespace
}  // namespace sluice::plot_test
