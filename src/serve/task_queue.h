// TaskQueue: threads that run tasks in the order in which they came, for work that is too long for the network thread.
// Thread safety: run() may be called from any thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace sluice {

class TaskQueue {
 public:
  explicit TaskQueue(int threads);
  ~TaskQueue();  // drops what has not begun and waits for the rest

  void run(std::function<void()> task);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace sluice
