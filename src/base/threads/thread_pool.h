// A pool of threads that runs tiles. Work is cut into tiles by shape, never by thread, and a tile may run on any
// thread, so the number of threads never changes a result.
//
// Workers spin for a few microseconds after a job and then park, so that more threads than cores cost little (a purely
// spinning barrier was measured at 12 ms with 4 threads on 2 cores). Every worker, and the caller inside run(), flushes
// denormals (see FlushDenormals), so that results do not depend on which thread ran a tile.
//
// Thread safety: run() may be called by one thread at a time; not reentrant.
// Used by engine, files, kernels, model and src/bench.
#pragma once

#include <functional>
#include <memory>
#include <vector>

namespace sluice {

class PoolMeter;  // base/threads/pool_meter.h

// While alive, this thread's f32 arithmetic treats denormal inputs and results as zero, as the bf16 dot instructions
// do.
class FlushDenormals {
 public:
  FlushDenormals();
  ~FlushDenormals();
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  unsigned saved_;
};

// The opposite: keeps denormals, for code that must be exact and may run where they are flushed.
class KeepDenormals {
 public:
  KeepDenormals();
  ~KeepDenormals();
  KeepDenormals(const KeepDenormals&) = delete;
  KeepDenormals& operator=(const KeepDenormals&) = delete;

 private:
  unsigned saved_;
};

class ThreadPool {
 public:
  // `threads` >= 1 includes the caller: ThreadPool(1) starts none.
  explicit ThreadPool(int threads);
  ~ThreadPool();

  int threads() const;
  // Pins thread i to processor cpus[i]; one number per thread. The caller of run() is not pinned.
  void pin(const std::vector<int>& cpus);

  // Calls tile(i, thread) for every i in [0, tiles), each once, on any thread in any order, and returns when all are
  // done. `thread` in [0, threads()) names the scratch memory that the call may use. tile must not throw.
  void run(int tiles, const std::function<void(int tile, int thread)>& tile);

  // From now on `meter` is notified of every run(); null: none. It must outlive the pool's runs.
  void watch(PoolMeter* meter) { meter_ = meter; }
  PoolMeter* meter() const { return meter_; }

 private:
  void run_here(int tiles, const std::function<void(int, int)>& tile);
  void fork(int tiles, const std::function<void(int, int)>& tile);
  void join(int tiles);

  struct State;
  std::unique_ptr<State> state_;
  PoolMeter* meter_ = nullptr;
};

}  // namespace sluice
