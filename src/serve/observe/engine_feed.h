// EngineFeed: what the engine does, as it does it, for those who look (GET /debug/engine/stream).
//
// Events: `snapshot` (where everything stands, at most twice a second) and `steps` (what was recorded since, at most
// ten times a second). Without a client it does nothing. Thread safety: every method may be called from any thread.
// Used by serve/api/api_context.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/threads/mutex.h"
#include "serve/http/http.h"
#include "serve/http/jobs.h"
#include "sluice/engine.h"

namespace sluice {

class EngineFeed {
 public:
  static constexpr std::size_t kMostWatchers = 16;

  explicit EngineFeed(Engine& engine) : engine_(engine) {}
  ~EngineFeed() { stop(); }

  // Begins the stream; false, without an answer, if there are too many already or the server stops.
  bool watch(const HttpExchangePtr& exchange);
  // Ends all streams, for good.
  void stop();

 private:
  struct Watcher {
    std::uint64_t id = 0, next_step = 0;
    HttpExchangePtr exchange;
  };

  void run();
  void ask_for_snapshot() SLUICE_REQUIRES(mutex_);
  void send_steps(Watcher& watcher);

  Engine& engine_;
  Mutex mutex_;
  Condition changed_;
  std::vector<Watcher> watchers_ SLUICE_GUARDED_BY(mutex_);
  std::uint64_t last_id_ SLUICE_GUARDED_BY(mutex_) = 0;
  bool stopping_ SLUICE_GUARDED_BY(mutex_) = false;
  bool looking_ SLUICE_GUARDED_BY(mutex_) = false;
  std::string snapshot_ SLUICE_GUARDED_BY(mutex_);  // found, and not sent yet
  std::thread thread_;
  TaskQueue lookers_{1};  // last: its tasks use the rest
};

}  // namespace sluice
