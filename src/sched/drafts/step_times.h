// StepTimes: how much what drafts add to a step differs from what DraftLimits says of it: that is measured once, with
// nothing else to do, and rows of real texts meet other experts, longer contexts and other work. What all steps take
// longer, with drafts or without, is no matter for a choice between them; so steps with drafts are compared with those
// without them of the same time, and some are left without for that. Plain values.
#pragma once

#include <array>

#include "sched/drafts/drafts.h"

namespace sluice {

class StepTimes {
 public:
  explicit StepTimes(const DraftLimits& limits) : limits_(limits) {}

  // Of a step of so many rows without drafts.
  double own(int rows) const { return limits_.step(rows); }
  // What `drafts` drafts of a source add to `rows` rows, in a step of `own` sequences.
  double added(int own, int rows, int drafts, DraftSource source) const;
  // What a wait for tokens takes.
  double wait(int own) const;
  // So many steps of about as many sequences had drafts that one without has to show what these take now.
  bool wants_plain(int own) const { return near_[place(own)].with_drafts >= most_with_drafts(); }

  // A step of `own` sequences, a row each, and drafts behind them, `by_model` of which the model made, took so long.
  void add(int own, int drafts, int by_model, double seconds);

 private:
  static constexpr int kMostWithDrafts = 16;
  // Before and behind one without drafts are waits; a device that does nothing else differs less from time to time.
  static constexpr int kMostWithWaits = 64;
  int most_with_drafts() const { return limits_.wait > 0 ? kMostWithWaits : kMostWithDrafts; }

  // The last steps without drafts: their seconds to those of the limits.
  struct Plain {
    std::array<float, 9> steps{};
    int count = 0;

    void add(double ratio);
    double median() const;  // 1: none yet
  };
  // The last steps with drafts: all seconds to those of the limits without drafts, and what drafts add, by the limits;
  // and the median of the steps without drafts of that time, which those behind it still change, 160 of them.
  struct Drafted {
    struct Step {
      float whole, added, weight, plain;
      int plains = 0;  // that came behind it, of those that count
    };
    std::array<Step, 16> steps{};
    int count = 0;
    double ratio = 1;  // of what drafts add to the limits

    void add(const Step& step);
    void add_plain(double median);
    void weigh();
  };
  struct Near {
    Plain plain;
    std::array<Drafted, 2> drafted{};       // given, and the model's
    int with_drafts = kMostWithDrafts - 1;  // since one without
  };

  static std::size_t place(int rows);
  const Drafted& drafted(int own, DraftSource source) const;
  double limit(int rows, int drafts, DraftSource source) const;

  DraftLimits limits_;
  std::array<Near, 8> near_;  // by the binary digits of the number of sequences
  std::size_t latest_ = 0;    // that a step was added to
};

}  // namespace sluice
