// StepTimes: how long steps really take, beside what DraftLimits says of them: these are measured once, with nothing
// else to do, and rows of real texts meet other experts, longer contexts and other work. Medians, followed by small
// steps, so that single disturbed steps do not matter. Plain values.
#pragma once

#include <array>

#include "sched/drafts.h"

namespace sluice {

class StepTimes {
 public:
  explicit StepTimes(const DraftLimits& limits) : limits_(limits) {}

  // Of a step of so many rows without drafts.
  double own(int rows) const { return limits_.step(rows) * near(rows).own.value; }
  // What `drafts` drafts of a source add to `rows` rows, in a step of `own` sequences.
  double added(int own, int rows, int drafts, DraftSource source) const;

  // A step of `own` sequences, a row each, and drafts behind them, `by_model` of which the model made, took so long.
  void add(int own, int drafts, int by_model, double seconds);

 private:
  // Of times to those of the limits: above one half of them, below the other.
  struct Ratio {
    double value = 1;
    int times = 0;

    void add(bool more);
  };
  struct Ratios {
    Ratio own;
    std::array<Ratio, 2> drafts;  // given, and the model's
  };

  const Ratios& near(int rows) const;
  double limit(int rows, int drafts) const;

  DraftLimits limits_;
  std::array<Ratios, 8> ratios_;  // by the binary digits of the number of rows
};

}  // namespace sluice
