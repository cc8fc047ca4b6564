// The server's metrics: what /metrics shows, under the names that other servers of language models use.
// Used by serve/api/api_context.h.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/http/http.h"
#include "serve/http/http_server.h"
#include "sluice/engine.h"
#include "telemetry/metrics.h"

namespace sluice {

class ServerMetrics {
 public:
  // The engine is asked for its counters whenever the metrics are read, once; it must outlive them.
  explicit ServerMetrics(const Engine& engine);

  // Sets the prefix of names ("sluice_", "vllm:"), and the model_name of every sample.
  void set_naming(const std::string& prefix, const std::string& model_name);
  // Values that are always the same: a gauge of 1 with these labels.
  using Labels = std::vector<std::pair<std::string, std::string>>;
  void add_info(const std::string& name, const Labels& labels);
  void add_weights_info(const Engine& engine);  // another after a reload
  // Adds the counts that the network keeps.
  void watch(std::function<HttpServer::Counts()> counts);
  void watch_traces(std::function<std::uint64_t()> sent, std::function<std::uint64_t()> dropped);

  // An exchange has ended: its status, its error and the limit that refused it count here and nowhere else.
  void on_exchange(const HttpSummary& summary, std::string_view route);
  // A generating request has ended: its fate, its times and its lengths count here and nowhere else. Why each of its
  // answers has ended; "": it has not, and goes the way of the request.
  void on_end(const ServedRequest& request, std::span<const std::string_view> answers);

  std::string text() const { return registry_.text(); }

 private:
  Counter& labelled(const char* name, std::string_view label, std::string_view value);
  void on_answer(std::string_view reason);

  EngineStats stats_;  // the stats of the reading that is under way
  Metrics registry_;
  Histogram& request_latency_;
  Histogram& queue_time_;
  Histogram& prefill_time_;
  Histogram& decode_time_;
  Histogram& inference_time_;
  Histogram& prompt_length_;
  Histogram& answer_length_;
  Counter& cancelled_;

 public:
  // These count events as they come.
  Histogram& time_to_first_token;
  Histogram& time_per_output_token;
  Histogram& inter_token_latency;
  Histogram& stream_delay;
  Counter& generation_tokens;
  Counter& ignored_fields;
};

}  // namespace sluice
