// Used by serve/api/api_context.h.
#include "serve/observe/server_metrics.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"
#include "serve/observe/engine_metrics.h"

namespace sluice {
namespace {

constexpr int kFirstError = 400, kLeftStatus = 499;

std::string_view error_kind(int status) {
  switch (status) {
    case 401:
      return "authentication";
    case 403:
      return "permission";
    case 404:
      return "not_found";
    case 413:
      return "too_large";
    case 429:
      return "rate_limit";
    case 499:
      return "client_left";
    case 503:
      return "unavailable";
    default:
      return status >= 500 ? "internal" : "invalid_request";
  }
}

// A label's value.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : to_valid_utf8(text)) {
    if (c == '\n') {
      out += "\\n";
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out;
}

std::vector<double> second_buckets() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300};
}

std::vector<double> delay_buckets() {
  return {50e-6, 100e-6, 200e-6, 300e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 50e-3, 0.2, 1};
}
std::vector<double> token_buckets() {
  return {16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576};
}

bool is_success(std::string_view reason) {
  return reason == "stop" || reason == "length" || reason == "tool_calls";
}

// vLLM knows no others.
std::string_view reason_in_vllm(std::string_view reason) {
  if (reason == "tool_calls") return "stop";
  return reason == "deadline" ? "abort" : reason;
}

// The status of the error that an exchange ended in, whatever its status line said before; 0: no error.
int error_of(const HttpSummary& summary) {
  if (summary.record.error_status != 0) return summary.record.error_status;
  if (summary.disconnected) return kLeftStatus;
  return summary.status >= kFirstError ? summary.status : 0;
}

}  // namespace

ServerMetrics::ServerMetrics(const Engine& engine)
    : request_latency_(registry_.histogram("sluice_e2e_request_latency_seconds", second_buckets())),
      queue_time_(registry_.histogram("sluice_request_queue_time_seconds", second_buckets())),
      prefill_time_(registry_.histogram("sluice_request_prefill_time_seconds", second_buckets())),
      decode_time_(registry_.histogram("sluice_request_decode_time_seconds", second_buckets())),
      inference_time_(registry_.histogram("sluice_request_inference_time_seconds", second_buckets())),
      prompt_length_(registry_.histogram("sluice_request_prompt_tokens", token_buckets())),
      answer_length_(registry_.histogram("sluice_request_generation_tokens", token_buckets())),
      cancelled_(registry_.counter("sluice_requests_cancelled_total")),
      time_to_first_token(registry_.histogram("sluice_time_to_first_token_seconds", second_buckets())),
      time_per_output_token(registry_.histogram("sluice_time_per_output_token_seconds", second_buckets())),
      inter_token_latency(registry_.histogram("sluice_inter_token_latency_seconds", second_buckets())),
      stream_delay(registry_.histogram("sluice_stream_delay_seconds", delay_buckets())),
      generation_tokens(registry_.counter("sluice_generation_tokens_total")),
      ignored_fields(registry_.counter("sluice_ignored_fields_total")) {
  registry_.before_reading([this, &engine] { stats_ = engine.stats(); });
  add_engine_metrics(registry_, stats_);
  for (const char* reason : {"waiting_requests", "waiting_tokens", "key_running", "key_requests", "key_tokens",
                             "deadline", "deadline_running"}) {
    labelled("sluice_requests_refused_total", "reason", reason);
  }
  for (const int status : {400, 401, 403, 404, 413, 429, 499, 500, 503}) {
    labelled("sluice_errors_total", "kind", error_kind(status));
  }
  for (const char* reason : {"stop", "length", "tool_calls", "abort", "deadline", "error"}) {
    labelled("sluice_request_finished_total", "finished_reason", reason);
    if (is_success(reason)) labelled("sluice_request_success_total", "finished_reason", reason);
    labelled("vllm:request_success_total", "finished_reason", reason_in_vllm(reason));
  }
}

Counter& ServerMetrics::labelled(const char* name, std::string_view label, std::string_view value) {
  return registry_.counter(name, fmt::format("{}=\"{}\"", label, value));
}

void ServerMetrics::on_exchange(const HttpSummary& summary, std::string_view route) {
  if (const int status = error_of(summary); status != 0) {
    labelled("sluice_errors_total", "kind", error_kind(status)).add(1);
  }
  if (!summary.record.limit.empty()) {
    labelled("sluice_requests_refused_total", "reason", summary.record.limit).add(1);
  }
  registry_.counter("sluice_http_requests_total", fmt::format("path=\"{}\",status=\"{}\"", route, summary.status))
      .add(1);
}

void ServerMetrics::on_end(const ServedRequest& request, std::span<const std::string_view> answers) {
  for (const std::string_view reason : answers) on_answer(reason.empty() ? finish_reason_of(request.fate) : reason);
  if (request.fate != Fate::kFinished) {
    if (request.fate != Fate::kFailed) cancelled_.add(1);
    return;
  }
  // A request that computed nothing spent all its time waiting.
  using Time = ServedRequest::Time;
  const auto or_end = [&](Time time) { return time != Time() ? time : request.ended; };
  const Time admitted = or_end(request.admitted), first = or_end(request.first_token),
             last = or_end(request.last_token);
  const auto observe = [](Histogram& histogram, Time from, Time to) {
    histogram.observe(std::chrono::duration<double>(to - from).count());
  };
  observe(request_latency_, request.received, last);
  observe(queue_time_, request.received, admitted);
  observe(inference_time_, admitted, last);
  observe(prefill_time_, admitted, first);
  observe(decode_time_, first, last);
  prompt_length_.observe(request.prompt_tokens);
  answer_length_.observe(request.completion_tokens);
}

void ServerMetrics::on_answer(std::string_view reason) {
  labelled("sluice_request_finished_total", "finished_reason", reason).add(1);
  if (is_success(reason)) labelled("sluice_request_success_total", "finished_reason", reason).add(1);
  labelled("vllm:request_success_total", "finished_reason", reason_in_vllm(reason)).add(1);
}

void ServerMetrics::set_naming(const std::string& prefix, const std::string& model_name) {
  registry_.set_naming(prefix, fmt::format("model_name=\"{}\"", escaped(model_name)));
}

void ServerMetrics::add_info(const std::string& name, const Labels& labels) {
  std::string text;
  for (const auto& [key, value] : labels) {
    text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", key, escaped(value));
  }
  registry_.read_by(name, [] { return 1.0; }, text);
}

void ServerMetrics::add_weights_info(const Engine& engine) {
  registry_.info("sluice_weights_info",
                 [&engine] { return fmt::format("version=\"{}\"", escaped(engine.weights_version())); });
}

void ServerMetrics::watch(std::function<HttpServer::Counts()> counts) {
  const auto add = [&](const char* name, auto read, const char* labels = "") {
    registry_.read_by(name, [counts, read] { return static_cast<double>(read(counts())); }, labels);
  };
  using Counts = HttpServer::Counts;
  add("sluice_http_connections", [](const Counts& c) { return c.connections; });
  add("sluice_http_bodies_bytes", [](const Counts& c) { return c.bodies_bytes; });
  add("sluice_http_refused_total", [](const Counts& c) { return c.refused_connections; }, R"(reason="connections")");
  add("sluice_http_refused_total", [](const Counts& c) { return c.refused_bodies; }, R"(reason="bodies")");
  add("sluice_http_unread_answers_total", [](const Counts& c) { return c.cut_unread; });
}

void ServerMetrics::watch_traces(std::function<std::uint64_t()> sent, std::function<std::uint64_t()> dropped) {
  registry_.read_by("sluice_traces_sent_total", [sent = std::move(sent)] { return static_cast<double>(sent()); });
  registry_.read_by("sluice_traces_dropped_total",
                    [dropped = std::move(dropped)] { return static_cast<double>(dropped()); });
}

}  // namespace sluice
