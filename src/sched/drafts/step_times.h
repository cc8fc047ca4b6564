// StepTimes: learns how far the real cost of drafts in a step differs from DraftLimits. The limits are measured once,
// with nothing else to do, while rows of real texts meet other experts, longer contexts and other work. A slowdown of
// all steps does not matter for the choice, so steps with drafts are compared with steps without drafts of about the
// same time. Some steps are left without drafts for that. Plain values.
// Used by sched/scheduler.h.
#pragma once

#include <array>

#include "sched/drafts/drafts.h"

namespace sluice {

class StepTimes {
 public:
  explicit StepTimes(const DraftLimits& limits) : limits_(limits) {}

  // Seconds of a step of `rows` rows without drafts.
  double own(int rows) const { return limits_.step(rows); }
  // Seconds that `drafts` drafts of a source add to `rows` rows, in a step of `own` sequences.
  double added(int own, int rows, int drafts, DraftSource source) const;
  // Seconds of a wait for tokens.
  double wait(int own) const;
  // True if enough steps of about `own` sequences had drafts that one without must show the present time of such steps.
  bool wants_plain(int own) const { return near_[place(own)].with_drafts >= most_with_drafts(); }

  // Reports the seconds of a step of `own` sequences, with a row each and `drafts` drafts, `by_model` of which the
  // model made.
  void add(int own, int drafts, int by_model, double seconds);

 private:
  static constexpr int kMostWithDrafts = 16;
  // A step without drafts has waits before and after it, and the times of a device that does nothing else vary less.
  static constexpr int kMostWithWaits = 64;
  int most_with_drafts() const { return limits_.wait > 0 ? kMostWithWaits : kMostWithDrafts; }

  // The last steps without drafts: the ratios of their seconds to the limits' seconds.
  struct Plain {
    std::array<float, 9> steps{};
    int count = 0;

    void add(double ratio);
    double median() const;  // 1: none yet
  };
  // The last steps with drafts: the ratio of all seconds to the limits' seconds without drafts (`whole`), and the part
  // that drafts add by the limits (`added`). `plain` is the median of the steps without drafts at that time; the next
  // 160 of those still change it.
  struct Drafted {
    struct Step {
      float whole, added, weight, plain;
      int plains = 0;  // later steps without drafts that counted
    };
    std::array<Step, 16> steps{};
    int count = 0;
    double ratio = 1;  // real cost of drafts to the limits'

    void add(const Step& step);
    void add_plain(double median);
    void weigh();
  };
  struct Near {
    Plain plain;
    std::array<Drafted, 2> drafted{};       // other drafts, and the model's
    int with_drafts = kMostWithDrafts - 1;  // steps since one without drafts
  };

  static std::size_t place(int rows);
  const Drafted& drafted(int own, DraftSource source) const;
  double limit(int rows, int drafts, DraftSource source) const;

  DraftLimits limits_;
  std::array<Near, 8> near_;  // by the binary digits of the number of sequences
  std::size_t latest_ = 0;    // the entry to which a step was added last
};

}  // namespace sluice
