#include "base/thread_pool.h"

#include <immintrin.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"

namespace sluice {

FlushDenormals::FlushDenormals() : saved_(_mm_getcsr()) {
  _mm_setcsr(saved_ | 0x8040U);
}  // FTZ | DAZ
FlushDenormals::~FlushDenormals() {
  _mm_setcsr(saved_);
}

// A job is (epoch, tile function, tile count). run() returns only when every worker has left the job (`busy` is 0), so
// no worker can take a tile of a later job with the function of an earlier one.
struct ThreadPool::State {
  int threads = 1;
  std::vector<std::thread> workers;
  const std::function<void(int, int)>* job = nullptr;
  int tiles = 0;
  std::atomic<std::uint32_t> epoch{0};
  std::atomic<int> next{0};
  std::atomic<int> busy{0};  // workers that have not yet left the current job
  std::atomic<bool> stop{false};
  std::atomic<int> parked{0};
  std::mutex mutex;
  std::condition_variable wake;

  void take_tiles(int thread) {
    for (int tile = next.fetch_add(1); tile < tiles; tile = next.fetch_add(1)) (*job)(tile, thread);
  }

  void wait_for_epoch_after(std::uint32_t seen) {
    for (int spin = 0; spin < 4000; ++spin) {
      if (epoch.load(std::memory_order_acquire) != seen) return;
      _mm_pause();
      if ((spin & 1023) == 1023) std::this_thread::yield();
    }
    std::unique_lock lock(mutex);
    parked.fetch_add(1);
    wake.wait(lock, [&] { return epoch.load(std::memory_order_acquire) != seen; });
    parked.fetch_sub(1);
  }

  void work(int thread) {
    FlushDenormals flush;
    std::uint32_t seen = 0;
    for (;;) {
      wait_for_epoch_after(seen);
      seen = epoch.load(std::memory_order_acquire);
      if (stop.load()) return;
      take_tiles(thread);
      busy.fetch_sub(1, std::memory_order_release);
    }
  }

  void start_epoch() {
    {
      std::lock_guard lock(mutex);  // a worker between its check and its wait must not miss the change
      epoch.fetch_add(1, std::memory_order_release);
    }
    if (parked.load() > 0) wake.notify_all();
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  SLUICE_CHECK(threads >= 1, "a pool has at least the calling thread");
  state_->threads = threads;
  for (int i = 1; i < threads; ++i) state_->workers.emplace_back([this, i] { state_->work(i); });
}

ThreadPool::~ThreadPool() {
  state_->stop.store(true);
  state_->start_epoch();
  for (auto& worker : state_->workers) worker.join();
}

int ThreadPool::threads() const {
  return state_->threads;
}

void ThreadPool::run(int tiles, const std::function<void(int, int)>& tile) {
  FlushDenormals flush;
  State& s = *state_;
  if (s.threads == 1 || tiles <= 1) {
    for (int i = 0; i < tiles; ++i) tile(i, 0);
    return;
  }
  s.job = &tile;
  s.tiles = tiles;
  s.next.store(0, std::memory_order_relaxed);
  s.busy.store(s.threads - 1, std::memory_order_relaxed);
  s.start_epoch();
  s.take_tiles(0);
  for (int spin = 0; s.busy.load(std::memory_order_acquire) != 0; ++spin) {
    _mm_pause();
    if (spin > 2000) std::this_thread::yield();
  }
}

}  // namespace sluice
