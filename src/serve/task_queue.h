// TaskQueue: threads that run tasks in the order of arrival, for work that takes too long for the network thread.
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
  ~TaskQueue();  // drops tasks that have not begun and waits for the others

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
