#include "serve/server_metrics.h"

#include <fmt/format.h>

namespace sluice {
namespace {

std::vector<double> second_buckets() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300};
}

std::vector<double> token_buckets() {
  return {16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576};
}

}  // namespace

ServerMetrics::ServerMetrics(const EngineClient& engine)
    : time_to_first_token(registry_.histogram("sluice_time_to_first_token_seconds",
                                              "From the request to its first token.", second_buckets())),
      time_per_output_token(registry_.histogram("sluice_time_per_output_token_seconds",
                                                "Between two tokens of an answer.", second_buckets())),
      request_latency(registry_.histogram("sluice_e2e_request_latency_seconds", "From a request to its last token.",
                                          second_buckets())),
      prompt_length(registry_.histogram("sluice_request_prompt_tokens", "Tokens of a prompt.", token_buckets())) {
  const auto gauge = [&](const char* name, const char* help, auto read) {
    registry_.gauge(name, help, [&engine, read] { return static_cast<double>(read(engine.stats())); });
  };
  const auto counter = [&](const char* name, const char* help, auto read) {
    registry_.counter_of(name, help, [&engine, read] { return static_cast<double>(read(engine.stats())); });
  };
  using Stats = EngineStats;
  gauge("sluice_num_requests_running", "Sequences that the engine computes.", [](const Stats& s) { return s.running; });
  gauge("sluice_num_requests_waiting", "Requests that wait for room.", [](const Stats& s) { return s.waiting; });
  gauge("sluice_kv_cache_bytes_used", "Bytes of the cache in use.", [](const Stats& s) { return s.cache_bytes_used; });
  gauge("sluice_kv_cache_bytes_total", "Bytes of the cache.", [](const Stats& s) { return s.cache_bytes_total; });
  gauge("sluice_kv_cache_usage_perc", "Share of the cache in use, 0 to 1.", [](const Stats& s) {
    return s.cache_bytes_total > 0 ? static_cast<double>(s.cache_bytes_used) / static_cast<double>(s.cache_bytes_total)
                                   : 0.0;
  });
  counter("sluice_prompt_tokens_total", "Prompt tokens computed.", [](const Stats& s) { return s.prompt_tokens; });
  counter("sluice_generation_tokens_total", "Tokens made.", [](const Stats& s) { return s.generated_tokens; });
  counter("sluice_engine_steps_total", "Steps of the engine.", [](const Stats& s) { return s.steps; });
  counter("sluice_requests_cancelled_total", "Requests that were cancelled.",
          [](const Stats& s) { return s.cancelled_requests; });
  for (const char* reason : {"stop", "length", "tool_calls", "abort", "error"}) {
    registry_.counter("sluice_request_finished_total", "Answers by how they ended.",
                      fmt::format("finished_reason=\"{}\"", reason));
  }
}

void ServerMetrics::on_exchange(const HttpSummary& summary, std::string_view route) {
  registry_
      .counter("sluice_http_requests_total", "HTTP requests by path and status.",
               fmt::format("path=\"{}\",status=\"{}\"", route, summary.status))
      .add(1);
}

void ServerMetrics::on_finished(std::string_view reason, double seconds) {
  registry_
      .counter("sluice_request_finished_total", "Answers by how they ended.",
               fmt::format("finished_reason=\"{}\"", reason))
      .add(1);
  request_latency.observe(seconds);
}

}  // namespace sluice
