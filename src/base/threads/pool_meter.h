// PoolMeter: measures the time of the thread that calls ThreadPool::run(), by stage of a step: in all, waiting for the
// other threads at the end of forks, and in calls of one piece, which it computes alone.
//
// Stages follow one another: the time between two changes of stage belongs to the first, so that the stages sum to the
// whole. A pool without a meter (ThreadPool::watch()) reads no clock. Thread safety: the caller of run() alone.
// Used by base/threads, kernels/ops and src/bench.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>

namespace sluice {

enum class StepStage { kRest, kDense, kExperts, kHead, kAttention };
inline constexpr int kStages = 5;
inline constexpr std::array<const char*, kStages> kStageNames = {"rest", "dense", "experts", "head", "attention"};

struct StageTime {
  double seconds = 0, waiting = 0, alone = 0;
  int forks = 0, calls = 0;  // runs of several pieces; of one piece

  StageTime& operator+=(const StageTime& other);
};
using StageTimes = std::array<StageTime, kStages>;
StageTime sum_of(const StageTimes& times);

class PoolMeter {
 public:
  using Clock = std::chrono::steady_clock;

  // Begins anew, in stage kRest.
  void begin();
  // Ends the present stage and returns it.
  StepStage enter(StepStage stage);
  StepStage stage() const { return stage_; }
  void add_fork(Clock::time_point wait_begin, Clock::time_point end);
  void add_call(Clock::time_point begin, Clock::time_point end);
  // The times measured since begin().
  StageTimes take();

 private:
  StageTime& now() { return times_[static_cast<std::size_t>(stage_)]; }

  StageTimes times_{};
  StepStage stage_ = StepStage::kRest;
  Clock::time_point since_ = Clock::now();
};

}  // namespace sluice
