#include "base/threads/pool_meter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/rendezvous_testing.h"
#include "base/threads/thread_pool.h"

namespace sluice::pool_meter_test {
namespace {

using std::chrono::milliseconds;

const StageTime& of(const StageTimes& times, StepStage stage) {
  return times[static_cast<std::size_t>(stage)];
}

TEST(PoolMeter, TellsForksFromCallsByStage) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    PoolMeter meter;
    const auto nothing = [](int, int) {};
    pool.run(5, nothing);  // without a meter
    pool.watch(&meter);
    const auto before = PoolMeter::Clock::now();
    meter.begin();
    const auto begin = PoolMeter::Clock::now();
    pool.run(10, nothing);
    pool.run(0, nothing);
    EXPECT_EQ(meter.enter(StepStage::kDense), StepStage::kRest);
    for (int i = 0; i < 2; ++i) pool.run(1, [](int, int) { std::this_thread::sleep_for(milliseconds(2)); });
    EXPECT_EQ(meter.enter(StepStage::kRest), StepStage::kDense);
    pool.run(2, nothing);
    const auto end = PoolMeter::Clock::now();
    const StageTimes times = meter.take();
    const auto after = PoolMeter::Clock::now();
    pool.watch(nullptr);
    pool.run(7, nothing);
    EXPECT_EQ(of(times, StepStage::kRest).forks, 2);
    EXPECT_EQ(of(times, StepStage::kRest).calls, 0);
    EXPECT_EQ(of(times, StepStage::kDense).forks, 0);
    EXPECT_EQ(of(times, StepStage::kDense).calls, 2);
    if (threads == 1) {
      EXPECT_EQ(of(times, StepStage::kDense).alone, 0) << "there is nobody who could be idle";
    } else {
      EXPECT_GE(of(times, StepStage::kDense).alone, 4e-3);
    }
    EXPECT_GE(of(times, StepStage::kDense).seconds, 4e-3);
    // The stages are the whole.
    const double all = sum_of(times).seconds;
    EXPECT_GE(all, std::chrono::duration<double>(end - begin).count());
    EXPECT_LE(all, std::chrono::duration<double>(after - before).count() + 1e-9);
  }
}

TEST(PoolMeter, TheCallerWaitsForTheSlowest) {
  ThreadPool pool(2);
  PoolMeter meter;
  pool.watch(&meter);
  meter.begin();
  Rendezvous rendezvous(2);
  pool.run(2, [&](int, int thread) {
    rendezvous.come();
    if (thread != 0) std::this_thread::sleep_for(milliseconds(20));
  });
  const StageTime time = sum_of(meter.take());
  EXPECT_GE(time.waiting, 15e-3);
  EXPECT_EQ(time.alone, 0);
}

}  // namespace
}  // namespace sluice::pool_meter_test
