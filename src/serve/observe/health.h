// GET /health, /health/live, /health/ready: does the engine still generate tokens, does its loop still turn, should it
// get requests?
//
// All of them are 503 at once, with the reason, when the engine has failed: its device is lost, or a file of its
// weights has changed. Live: 200 unless that is so, or the loop has not turned for as long as the watchdog allows. Then
// only a new start helps, or, with changed files, loading them again; the answer comes at once from then on. Ready: as
// /health, but 503 once the server begins to stop. Health: 200 if the engine generated a token in the last five
// seconds. Otherwise it is asked for one outside its queue; 503 if that takes more than two seconds. Requests that come
// meanwhile share the self-test. Thread safety: every method may be called from any thread.
// Used by serve/server.cc.
#pragma once

#include <atomic>
#include <vector>

#include "base/threads/mutex.h"
#include "serve/http/http.h"
#include "serve/http/jobs.h"
#include "sluice/engine.h"

namespace sluice {

class HealthCheck {
 public:
  // `most_turn_seconds`: of the loop; 0: as long as it likes.
  HealthCheck(Engine& engine, double most_turn_seconds) : engine_(engine), most_turn_seconds_(most_turn_seconds) {}

  void answer(HttpExchangePtr exchange);
  void answer_live(HttpExchangePtr exchange);
  void answer_ready(HttpExchangePtr exchange);
  void stop() { stopping_ = true; }  // not ready any more

 private:
  bool answer_failed(const HttpExchangePtr& exchange);
  void self_test();
  void live_test();

  Engine& engine_;
  const double most_turn_seconds_;
  std::atomic<bool> stopping_ = false;
  Mutex mutex_;
  // Not empty: a test runs or is about to.
  std::vector<HttpExchangePtr> waiting_ SLUICE_GUARDED_BY(mutex_), waiting_live_ SLUICE_GUARDED_BY(mutex_);
  TaskQueue tester_{1}, live_tester_{1};
};

}  // namespace sluice
