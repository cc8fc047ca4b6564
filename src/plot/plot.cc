// Used by loadgen, plot, sim and src/bench.
#include "plot/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/utf8.h"

namespace sluice {
namespace {

// Pixels.
constexpr double kPlotWidth = 600, kPlotHeight = 270, kLeft = 74, kRight = 30, kTitle = 36, kLegendLine = 20,
                 kBelow = 56;
constexpr double kInner = kPlotWidth - kLeft - kRight;
// The width of a letter at 12 px; fonts differ, so this errs on the wide side.
constexpr double kLetter = 6.9;
// Okabe and Ito's colours, which colour-blind readers can tell apart, in an order for a white background.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#4d4d4d"};
constexpr const char* kInk = "#333333";

const char* colour(std::size_t series) {
  return kColours[series % std::size(kColours)];
}

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : to_valid_utf8(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

double text_width(const std::string& text) {
  const auto letters = std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
  return kLetter * static_cast<double>(letters);
}

// One plot at (0, 0) of its own group; `top` and `bottom` bound the drawing area.
class Panel {
 public:
  explicit Panel(const std::vector<std::string>& names) { place_legend(names); }

  double height() const { return bottom() + kBelow; }
  std::string body;  // SVG elements

  void add_title(const std::string& title) { text(kLeft, 22, "start", title, "font-size='15' font-weight='600'"); }
  void add_legend(const std::vector<std::string>& names) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i].empty()) continue;
      const auto [x, y] = legend_[i];
      put("<rect x='{:.1f}' y='{:.1f}' width='14' height='4' rx='2' fill='{}'/>\n", x, y - 6, colour(i));
      text(x + 19, y, "start", names[i]);
    }
  }
  void add_y_axis(const PlotAxis& axis, const PlotScale& scale) {
    for (const double value : scale.minor_ticks()) line(kLeft, y_of(scale, value), kPlotWidth - kRight, "#f3f3f3");
    for (const double value : scale.ticks()) {
      line(kLeft, y_of(scale, value), kPlotWidth - kRight, "#dddddd");
      text(kLeft - 8, y_of(scale, value) + 4, "end", plot_value_text(value, axis.unit));
    }
    const double middle = (top() + bottom()) / 2;
    put("<text x='16' y='{0:.1f}' text-anchor='middle' transform='rotate(-90 16 {0:.1f})'>{1}</text>\n", middle,
        escape(axis.label));
  }
  void add_x_axis(const PlotAxis& axis, const PlotScale& scale) {
    for (const double value : scale.minor_ticks()) column(x_of(scale, value), "#f3f3f3");
    for (const double value : scale.ticks()) {
      column(x_of(scale, value), "#dddddd");
      text(x_of(scale, value), bottom() + 18, "middle", plot_value_text(value, axis.unit));
    }
    add_x_label(axis.label);
  }
  void add_x_label(const std::string& label) { text(kLeft + kInner / 2, bottom() + 40, "middle", label); }
  void add_frame() { line(kLeft, bottom(), kPlotWidth - kRight, kInk); }

  void add_line(const LineSeries& series, const PlotScale& x, const PlotScale& y, std::size_t index, double width) {
    std::string points;
    double last_y = 0;
    bool any = false;
    const std::size_t count = std::min(series.x.size(), series.y.size());
    for (std::size_t i = 0; i < count; ++i) {
      if (!x.can_show(series.x[i]) || !y.can_show(series.y[i])) continue;
      const double px = x_of(x, series.x[i]), py = y_of(y, series.y[i]);
      if (series.steps && any) fmt::format_to(std::back_inserter(points), "{:.1f},{:.1f} ", px, last_y);
      fmt::format_to(std::back_inserter(points), "{:.1f},{:.1f} ", px, py);
      last_y = py;
      any = true;
    }
    if (!any) return;
    points.pop_back();
    put("<polyline points='{}' fill='none' stroke='{}' stroke-width='{:.1f}' stroke-linejoin='round'/>\n", points,
        colour(index), width);
  }

  void add_bars(const BarPlot& plot, const PlotScale& y) {
    const double group = kInner / static_cast<double>(std::max<std::size_t>(plot.groups.size(), 1));
    const double bar = std::min(46.0, group * 0.84 / static_cast<double>(std::max<std::size_t>(plot.series.size(), 1)));
    for (std::size_t g = 0; g < plot.groups.size(); ++g) {
      const double middle = kLeft + group * (static_cast<double>(g) + 0.5);
      const double left = middle - bar * static_cast<double>(plot.series.size()) / 2;
      for (std::size_t s = 0; s < plot.series.size(); ++s) {
        if (g < plot.series[s].values.size()) {
          add_bar(plot.series[s].values[g], left + bar * static_cast<double>(s), bar, s, plot.y, y);
        }
      }
      text(middle, bottom() + 18, "middle", plot.groups[g]);
    }
  }

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(body), format, std::forward<Args>(args)...);
  }
  void text(double x, double y, const char* anchor, const std::string& words, const char* style = "") {
    put("<text x='{:.1f}' y='{:.1f}' text-anchor='{}' {}>{}</text>\n", x, y, anchor, style, escape(words));
  }
  void line(double x, double y, double to, const char* stroke) {
    put("<path d='M{:.1f} {:.1f}H{:.1f}' stroke='{}'/>\n", x, y, to, stroke);
  }
  void column(double x, const char* stroke) {
    put("<path d='M{:.1f} {:.1f}V{:.1f}' stroke='{}'/>\n", x, top(), bottom(), stroke);
  }

  void add_bar(double value, double x, double width, std::size_t index, const PlotAxis& axis, const PlotScale& y) {
    if (!std::isfinite(value)) return;
    const double height = y.can_show(value) ? std::clamp(y.place(value), 0.0, 1.0) * kPlotHeight : 0;
    put("<rect x='{:.1f}' y='{:.1f}' width='{:.1f}' height='{:.1f}' fill='{}'/>\n", x + 1, bottom() - height, width - 2,
        height, colour(index));
    const std::string label = plot_value_text(value, axis.unit, 2);
    for (const auto& [size, style] : {std::pair(10.0, "font-size='10'"), std::pair(8.5, "font-size='8.5'")}) {
      if (text_width(label) * size / 12 > width - 1) continue;
      return text(x + width / 2, bottom() - height - 5, "middle", label, style);
    }
  }

  // Left to right, in as many lines as the names need.
  void place_legend(const std::vector<std::string>& names) {
    double x = kLeft;
    const bool any = std::any_of(names.begin(), names.end(), [](const std::string& name) { return !name.empty(); });
    int lines = any ? 1 : 0;
    for (const std::string& name : names) {
      const double width = 19 + text_width(name) + 16;
      if (!name.empty() && x > kLeft && x + width > kPlotWidth - kRight) {
        x = kLeft;
        ++lines;
      }
      legend_.push_back({x, kTitle + kLegendLine * lines - 6});
      if (!name.empty()) x += width;
    }
    top_ = kTitle + kLegendLine * lines + 8;
  }
  double top() const { return top_; }
  double bottom() const { return top_ + kPlotHeight; }
  double x_of(const PlotScale& scale, double value) const {
    return kLeft + std::clamp(scale.place(value), 0.0, 1.0) * kInner;
  }
  double y_of(const PlotScale& scale, double value) const {
    return bottom() - std::clamp(scale.place(value), 0.0, 1.0) * kPlotHeight;
  }

  std::vector<std::pair<double, double>> legend_;
  double top_ = kTitle;
};

template <class Series>
std::vector<std::string> names_of(const std::vector<Series>& series) {
  std::vector<std::string> names;
  for (const Series& one : series) names.push_back(one.name);
  return names;
}

PlotScale make_scale(const PlotAxis& axis, const std::vector<double>& values) {
  double low = axis.log ? 1 : 0, high = axis.log ? 10 : 1;
  find_range(axis, values, &low, &high);
  return {axis, low, high};
}

Panel draw(const LinePlot& plot) {
  std::vector<double> xs, ys;
  for (const LineSeries& series : plot.series) {
    xs.insert(xs.end(), series.x.begin(), series.x.end());
    ys.insert(ys.end(), series.y.begin(), series.y.end());
  }
  const PlotScale x = make_scale(plot.x, xs), y = make_scale(plot.y, ys);
  Panel panel(names_of(plot.series));
  panel.add_title(plot.title);
  panel.add_legend(names_of(plot.series));
  panel.add_y_axis(plot.y, y);
  panel.add_x_axis(plot.x, x);
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    // The first ones are wider, so that they can be seen below those that cover them.
    const double width = 1.8 + 1.2 * static_cast<double>(plot.series.size() - 1 - i);
    panel.add_line(plot.series[i], x, y, i, std::min(width, 6.0));
  }
  panel.add_frame();
  return panel;
}

Panel draw(const BarPlot& plot) {
  std::vector<double> ys;
  if (!plot.y.log) ys.push_back(0);
  for (const BarSeries& series : plot.series) ys.insert(ys.end(), series.values.begin(), series.values.end());
  double low = 1, high = 1;
  find_range(plot.y, ys, &low, &high);
  // A bar of the least value on a logarithmic axis should be seen.
  const PlotScale y(plot.y, plot.y.log ? low / 2 : low, high);
  Panel panel(names_of(plot.series));
  panel.add_title(plot.title);
  panel.add_legend(names_of(plot.series));
  panel.add_y_axis(plot.y, y);
  panel.add_bars(plot, y);
  panel.add_frame();
  return panel;
}

}  // namespace

std::string render_svg(const std::vector<Plot>& plots, int columns) {
  std::vector<Panel> panels;
  for (const Plot& plot : plots) panels.push_back(std::visit([](const auto& one) { return draw(one); }, plot));
  const auto per_row = static_cast<std::size_t>(std::max(columns, 1));
  std::string body;
  double y = 0;
  for (std::size_t begin = 0; begin < panels.size(); begin += per_row) {
    double row_height = 0;
    for (std::size_t i = begin; i < std::min(begin + per_row, panels.size()); ++i) {
      fmt::format_to(std::back_inserter(body), "<g transform='translate({:.0f} {:.0f})'>\n{}</g>\n",
                     static_cast<double>(i - begin) * kPlotWidth, y, panels[i].body);
      row_height = std::max(row_height, panels[i].height());
    }
    y += row_height;
  }
  const double width = kPlotWidth * static_cast<double>(std::min(per_row, std::max<std::size_t>(panels.size(), 1)));
  return fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{0:.0f}' height='{1:.0f}' viewBox='0 0 {0:.0f} {1:.0f}' "
      "font-family='system-ui, \"Segoe UI\", Roboto, \"DejaVu Sans\", sans-serif' font-size='12' fill='{2}'>\n"
      "<rect width='{0:.0f}' height='{1:.0f}' fill='#ffffff'/>\n{3}</svg>\n",
      width, y, kInk, body);
}

}  // namespace sluice
