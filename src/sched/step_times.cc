#include "sched/step_times.h"

#include <algorithm>
#include <bit>

namespace sluice {
namespace {

constexpr double kLeastRow = 0.002;     // of a step of one row: where nothing more was measured, a ratio still counts
constexpr double kMost = 1000;          // of a ratio, as of one row it may be of so little
constexpr int kMostTimes = 30;          // a step of 1 / 32
constexpr double kForget = 1.0 / 4096;  // a step: who has no drafts any more learns nothing of them

std::size_t place(int rows) {
  return static_cast<std::size_t>(std::clamp<int>(std::bit_width(static_cast<unsigned>(rows)), 1, 8)) - 1;
}

}  // namespace

void StepTimes::Ratio::add(bool more) {
  const double step = 1 + 1.0 / (2 + times);
  times = std::min(times + 1, kMostTimes);
  value = std::clamp(more ? value * step : value / step, 1 / kMost, kMost);
}

const StepTimes::Ratios& StepTimes::near(int rows) const {
  return ratios_[place(rows)];
}

double StepTimes::limit(int rows, int drafts) const {
  const double least = limits_.step_seconds.size() < 2 ? 0 : kLeastRow * drafts * limits_.step_seconds.front();
  return std::max(least, limits_.step(rows + drafts) - limits_.step(rows));
}

double StepTimes::added(int own, int rows, int drafts, DraftSource source) const {
  const double seconds = limit(rows, drafts) + drafts * limits_.seconds[static_cast<std::size_t>(source)];
  return seconds * near(own).drafts[source == DraftSource::kMtp ? 1 : 0].value;
}

void StepTimes::add(int own, int drafts, int by_model, double seconds) {
  if (limits_.step_seconds.size() < 2 || own < 1) return;
  Ratios& ratios = ratios_[place(own)];
  if (drafts == 0) {
    ratios.own.add(seconds > this->own(own));
    for (Ratio& ratio : ratios.drafts) ratio.value += (1 - ratio.value) * kForget;
    return;
  }
  if (by_model > 0 && by_model < drafts) return;  // whose time it was is unknown
  const DraftSource source = by_model > 0 ? DraftSource::kMtp : DraftSource::kCopy;
  ratios.drafts[by_model > 0 ? 1 : 0].add(seconds > this->own(own) + added(own, own, drafts, source));
}

}  // namespace sluice
