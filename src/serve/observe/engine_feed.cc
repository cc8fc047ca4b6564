// Used by serve/api/api_context.h.
#include "serve/observe/engine_feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/threads/mutex.h"
#include "telemetry/exports.h"

namespace sluice {
namespace {

constexpr std::chrono::milliseconds kTick{100};
constexpr int kTicksOfSnapshot = 5;
constexpr double kSnapshotSeconds = 5.0;  // longer steps leave no gap to look in
constexpr std::uint64_t kHistory = 400;   // steps that a new watcher is shown
constexpr std::size_t kMostSteps = 512;   // most steps in an event

}  // namespace

bool EngineFeed::watch(const HttpExchangePtr& exchange) {
  std::uint64_t id = 0;
  {
    const MutexLock lock(mutex_);
    if (stopping_ || watchers_.size() >= kMostWatchers) return false;
    HttpResponse head;
    head.content_type = "text/event-stream; charset=utf-8";
    head.body = "retry: 2000\n\n";
    head.filler = ":\n\n";
    exchange->begin_stream(std::move(head));
    id = ++last_id_;
    const std::uint64_t steps = engine_.steps_recorded();
    watchers_.push_back({id, steps > kHistory ? steps - kHistory : 0, exchange});
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  changed_.notify_all();
  exchange->on_disconnect([this, id] {
    const MutexLock lock(mutex_);
    std::erase_if(watchers_, [id](const Watcher& watcher) { return watcher.id == id; });
  });
  return true;
}

void EngineFeed::stop() {
  std::vector<Watcher> watchers;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    watchers.swap(watchers_);
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  for (const Watcher& watcher : watchers) watcher.exchange->finish();
}

// Asked for outside this thread, as the answer comes between two steps, which may be far apart.
void EngineFeed::ask_for_snapshot() {
  looking_ = true;
  lookers_.run([this] {
    EngineSnapshot snapshot;
    std::string text;
    if (engine_.snapshot(kSnapshotSeconds, &snapshot))
      text = fmt::format("event: snapshot\ndata: {}\n\n", snapshot_json(snapshot));
    const MutexLock lock(mutex_);
    looking_ = false;
    snapshot_ = std::move(text);
  });
}

void EngineFeed::send_steps(Watcher& watcher) {
  const std::vector<StepRecord> steps = engine_.steps(watcher.next_step, kMostSteps);
  if (steps.empty()) return;
  watcher.next_step = steps.back().number + 1;
  watcher.exchange->write(fmt::format("event: steps\ndata: {}\n\n", steps_json(steps)));
}

void EngineFeed::run() {
  MutexLock lock(mutex_);
  for (int tick = 0; !stopping_; ++tick) {
    if (watchers_.empty()) {
      changed_.wait(lock, [this]() SLUICE_REQUIRES(mutex_) { return stopping_ || !watchers_.empty(); });
      tick = 0;
      continue;
    }
    if (tick % kTicksOfSnapshot == 0 && !looking_) ask_for_snapshot();
    const std::string snapshot = std::exchange(snapshot_, "");
    for (Watcher& watcher : watchers_) {
      if (!snapshot.empty()) watcher.exchange->write(snapshot);
      send_steps(watcher);
    }
    changed_.wait_for(lock, kTick, [this]() SLUICE_REQUIRES(mutex_) { return stopping_; });
  }
}

}  // namespace sluice
