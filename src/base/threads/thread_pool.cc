// Used by engine, files, kernels, model and src/bench.
#include "base/threads/thread_pool.h"

#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/threads/cpu_topology.h"
#include "base/threads/mutex.h"
#include "base/threads/pool_meter.h"

namespace sluice {

constexpr unsigned kFlush = 0x8040U;  // FTZ | DAZ

// Setting the register takes some twenty cycles, so it is left alone if it has the bits already.
FlushDenormals::FlushDenormals() : saved_(_mm_getcsr()) {
  if ((saved_ & kFlush) != kFlush) _mm_setcsr(saved_ | kFlush);
}
FlushDenormals::~FlushDenormals() {
  if ((saved_ & kFlush) != kFlush) _mm_setcsr(saved_);
}

KeepDenormals::KeepDenormals() : saved_(_mm_getcsr()) {
  _mm_setcsr(saved_ & ~kFlush);
}
KeepDenormals::~KeepDenormals() {
  _mm_setcsr(saved_);
}

namespace {

// A job's number, its tile count and the next tile to take, in one word: taking a tile tells which job it belongs to.
// So a worker that wakes late takes a tile of the present job, or sees that there is none. No thread waits for a worker
// that holds no tile, which keeps more threads than cores cheap.
struct Ticket {
  static constexpr int kBits = 20;
  static constexpr std::uint64_t kMask = (1U << kBits) - 1;
  // Every worker may take one ticket past the end, so the counter needs room beyond the last tile.
  static constexpr int kMaxTiles = static_cast<int>(kMask) - 4096;

  static std::uint64_t make(std::uint64_t job, int tiles) {
    return (job << (2 * kBits)) | (static_cast<std::uint64_t>(tiles) << kBits);
  }
  static int next(std::uint64_t ticket) { return static_cast<int>(ticket & kMask); }
  static int tiles(std::uint64_t ticket) { return static_cast<int>((ticket >> kBits) & kMask); }
};

constexpr int kSpinsBeforeParking = 4000;  // some tens of microseconds: longer than the gaps between the ops of a step
constexpr int kSpinsBetweenYields = 1024;

}  // namespace

struct ThreadPool::State {
  std::vector<std::thread> workers;
  const std::function<void(int, int)>* function = nullptr;  // written before `ticket` names its job
  alignas(64) std::atomic<std::uint64_t> ticket{0};
  alignas(64) std::atomic<int> done{0};  // tiles of the current job that have run
  alignas(64) std::atomic<std::uint32_t> jobs{0};
  std::atomic<int> parked{0};
  std::atomic<bool> stop{false};
  Mutex mutex;
  Condition wake;

  void take_tiles(int thread) {
    for (;;) {
      const std::uint64_t taken = ticket.fetch_add(1, std::memory_order_acq_rel);
      if (Ticket::next(taken) >= Ticket::tiles(taken)) return;
      (*function)(Ticket::next(taken), thread);  // the job cannot end before this tile is counted
      done.fetch_add(1, std::memory_order_release);
    }
  }

  void wait_for_a_job_after(std::uint32_t seen) {
    for (int spin = 1; spin <= kSpinsBeforeParking; ++spin) {
      if (jobs.load(std::memory_order_acquire) != seen) return;
      _mm_pause();
      if (spin % kSpinsBetweenYields == 0) std::this_thread::yield();
    }
    MutexLock lock(mutex);
    parked.fetch_add(1);
    wake.wait(lock, [&]() SLUICE_REQUIRES(mutex) { return jobs.load() != seen; });
    parked.fetch_sub(1);
  }

  void work(int thread) {
    const FlushDenormals flush;
    std::uint32_t seen = 0;
    while (!stop.load()) {
      wait_for_a_job_after(seen);
      seen = jobs.load(std::memory_order_acquire);
      take_tiles(thread);
    }
  }

  void announce() {
    jobs.fetch_add(1);
    if (parked.load() == 0) return;
    {
      const MutexLock lock(mutex);
    }  // a worker between its check and its wait must not miss the change
    wake.notify_all();
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  SLUICE_CHECK(threads >= 1, "a pool has at least the calling thread");
  for (int i = 1; i < threads; ++i) state_->workers.emplace_back([this, i] { state_->work(i); });
}

ThreadPool::~ThreadPool() {
  state_->stop.store(true);
  state_->announce();
  for (auto& worker : state_->workers) worker.join();
}

int ThreadPool::threads() const {
  return 1 + static_cast<int>(state_->workers.size());
}

void ThreadPool::pin(const std::vector<int>& cpus) {
  SLUICE_CHECK(static_cast<int>(cpus.size()) == threads(), "every thread has a processor");
  for (std::size_t i = 0; i < state_->workers.size(); ++i) {
    pin_thread(state_->workers[i].native_handle(), cpus[i + 1]);
  }
}

void ThreadPool::run(int tiles, const std::function<void(int, int)>& tile) {
  const FlushDenormals flush;
  const bool alone = tiles <= 1 || state_->workers.empty();
  if (meter_ == nullptr) {
    if (alone) return run_here(tiles, tile);
    fork(tiles, tile);
    return join(tiles);
  }
  const auto begin = PoolMeter::Clock::now();
  alone ? run_here(tiles, tile) : fork(tiles, tile);
  const auto done = PoolMeter::Clock::now();
  if (tiles == 1) return meter_->add_call(begin, state_->workers.empty() ? begin : done);
  if (!alone) join(tiles);
  if (tiles > 1) meter_->add_fork(done, alone ? done : PoolMeter::Clock::now());
}

void ThreadPool::run_here(int tiles, const std::function<void(int, int)>& tile) {
  for (int i = 0; i < tiles; ++i) tile(i, 0);
}

// Hands out the tiles and computes some itself, until none is left.
void ThreadPool::fork(int tiles, const std::function<void(int, int)>& tile) {
  SLUICE_CHECK(tiles <= Ticket::kMaxTiles, "a job has at most a million tiles");
  State& s = *state_;
  s.function = &tile;
  s.done.store(0, std::memory_order_relaxed);
  s.ticket.store(Ticket::make(s.jobs.load(std::memory_order_relaxed) + 1, tiles), std::memory_order_release);
  s.announce();
  s.take_tiles(0);
}

void ThreadPool::join(int tiles) {
  for (int spin = 1; state_->done.load(std::memory_order_acquire) != tiles; ++spin) {
    _mm_pause();
    if (spin % kSpinsBetweenYields == 0) std::this_thread::yield();
  }
}

}  // namespace sluice
