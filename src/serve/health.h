// GET /health: does the engine still generate tokens?
//
// 200 if it generated one in the last five seconds. Otherwise it is asked for one outside its queue; 503 if that takes
// more than two seconds. Requests that come meanwhile share the self-test. Thread safety: every method may be called
// from any thread.
#pragma once

#include <mutex>
#include <vector>

#include "serve/http.h"
#include "serve/jobs.h"
#include "sluice/engine.h"

namespace sluice {

class HealthCheck {
 public:
  explicit HealthCheck(Engine& engine) : engine_(engine) {}

  void answer(HttpExchangePtr exchange);

 private:
  void self_test();

  Engine& engine_;
  std::mutex mutex_;
  std::vector<HttpExchangePtr> waiting_;  // not empty: a self-test runs or is about to
  TaskQueue tester_{1};
};

}  // namespace sluice
