// The server's metrics: what /metrics shows, under the names that other servers of language models use.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/http.h"
#include "serve/http_server.h"
#include "serve/metrics.h"
#include "sluice/engine.h"

namespace sluice {

class ServerMetrics {
 public:
  // The engine is asked for its counters whenever the metrics are read, once; it must outlive them.
  explicit ServerMetrics(const Engine& engine);

  // How names begin ("sluice_", "vllm:"), and what every sample has as model_name.
  void set_naming(const std::string& prefix, const std::string& model_name);
  // Values that are always the same: a gauge of 1 with these labels.
  using Labels = std::vector<std::pair<std::string, std::string>>;
  void add_info(const std::string& name, const std::string& help, const Labels& labels);
  void add_weights_info(const Engine& engine);  // another after a reload
  // What the network knows.
  void watch(std::function<HttpServer::Counts()> counts);
  void watch_traces(std::function<std::uint64_t()> sent, std::function<std::uint64_t()> dropped);

  void on_exchange(const HttpSummary& summary, std::string_view route);
  // An answer failed with this status, or would have, had its stream not begun.
  void on_error(int status);
  // A request that a limit or its deadline ended: "waiting_requests", "key_tokens", "deadline", ...
  void on_refused(const std::string& reason);
  void on_finished(std::string_view reason, double seconds);  // "stop", "length", "tool_calls", "abort", "error"

  // A request whose choices have all ended without an error.
  void on_request(const ServedRequest& request);

  std::string text() const { return registry_.text(); }

 private:
  EngineStats stats_;  // as of the reading that is under way
  Metrics registry_;

 public:
  Histogram& time_to_first_token;
  Histogram& time_per_output_token;
  Histogram& inter_token_latency;
  Histogram& stream_delay;
  Histogram& request_latency;
  Histogram& queue_time;
  Histogram& prefill_time;
  Histogram& decode_time;
  Histogram& inference_time;
  Histogram& answer_length;
  Histogram& prompt_length;
  Counter& ignored_fields;
};

}  // namespace sluice
