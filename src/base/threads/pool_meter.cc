// Used by base/threads, kernels/ops and src/bench.
#include "base/threads/pool_meter.h"

namespace sluice {
namespace {

double seconds(PoolMeter::Clock::time_point begin, PoolMeter::Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

StageTime& StageTime::operator+=(const StageTime& other) {
  seconds += other.seconds;
  waiting += other.waiting;
  alone += other.alone;
  forks += other.forks;
  calls += other.calls;
  return *this;
}

StageTime sum_of(const StageTimes& times) {
  StageTime sum;
  for (const StageTime& time : times) sum += time;
  return sum;
}

void PoolMeter::begin() {
  times_ = {};
  stage_ = StepStage::kRest;
  since_ = Clock::now();
}

StepStage PoolMeter::enter(StepStage stage) {
  const StepStage before = stage_;
  const Clock::time_point time = Clock::now();
  now().seconds += seconds(since_, time);
  since_ = time;
  stage_ = stage;
  return before;
}

void PoolMeter::add_fork(Clock::time_point wait_begin, Clock::time_point end) {
  now().waiting += seconds(wait_begin, end);
  ++now().forks;
}

void PoolMeter::add_call(Clock::time_point begin, Clock::time_point end) {
  now().alone += seconds(begin, end);
  ++now().calls;
}

StageTimes PoolMeter::take() {
  enter(stage_);
  return times_;
}

}  // namespace sluice
