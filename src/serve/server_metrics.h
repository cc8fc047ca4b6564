// The server's metrics: what /metrics shows, under the names that other servers of language models use.
#pragma once

#include <string_view>

#include "serve/http.h"
#include "serve/metrics.h"
#include "sluice/engine.h"

namespace sluice {

class ServerMetrics {
 public:
  // The engine is asked for its counters whenever the metrics are read; it must outlive them.
  explicit ServerMetrics(const Engine& engine);

  void on_exchange(const HttpSummary& summary, std::string_view route);
  void on_finished(std::string_view reason, double seconds);  // "stop", "length", "tool_calls", "abort", "error"

  std::string text() const { return registry_.text(); }

 private:
  EngineStats stats_;  // as of the reading that is under way
  Metrics registry_;

 public:
  Histogram& time_to_first_token;
  Histogram& time_per_output_token;
  Histogram& request_latency;
  Histogram& prompt_length;
  Counter& ignored_fields;
};

}  // namespace sluice
