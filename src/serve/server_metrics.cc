#include "serve/server_metrics.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"
#include "watch/exports.h"

namespace sluice {
namespace {

constexpr const char* kSuccess = "Answers that ended as they should, by why.";

constexpr const char* kErrors = "sluice_errors_total";
constexpr const char* kErrorsHelp = "Requests that ended in an error, by its kind; clients that left count as one.";

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

void add_engine_metrics(Metrics& metrics, const EngineStats& stats) {
  using Stats = EngineStats;
  const auto gauge = [&](const char* name, const char* help, auto read, const char* labels = "") {
    metrics.gauge(name, help, [&stats, read] { return static_cast<double>(read(stats)); }, labels);
  };
  const auto counter = [&](const char* name, const char* help, auto read, const char* labels = "") {
    metrics.counter_of(name, help, [&stats, read] { return static_cast<double>(read(stats)); }, labels);
  };
  gauge("sluice_num_requests_running", "Sequences that the engine computes.", [](const Stats& s) { return s.running; });
  gauge("sluice_num_requests_waiting", "Requests that wait for room.", [](const Stats& s) { return s.waiting; });
  gauge("sluice_num_requests_paused", "Running and waiting sequences whose clients have too much left to read.",
        [](const Stats& s) { return s.paused; });
  for (int i = 0; i < kWaitReasons; ++i) {
    std::string reason = name_of(static_cast<WaitReason>(i));
    std::ranges::replace(reason, ' ', '_');
    metrics.gauge(
        "sluice_num_requests_waiting_by_reason",
        "Requests that wait for room, by what they lacked when looked at last.",
        [&stats, i] { return static_cast<double>(stats.waiting_for[static_cast<std::size_t>(i)]); },
        fmt::format(R"(reason="{}")", reason));
  }
  gauge("sluice_kv_cache_bytes_used", "Bytes of the cache in use.", [](const Stats& s) { return s.cache_bytes_used; });
  gauge("sluice_kv_cache_capacity_bytes", "Bytes of the cache.", [](const Stats& s) { return s.cache_bytes_total; });
  gauge("sluice_kv_cache_usage_perc", "Share of the cache in use, 0 to 1.", [](const Stats& s) {
    return s.cache_bytes_total > 0 ? static_cast<double>(s.cache_bytes_used) / static_cast<double>(s.cache_bytes_total)
                                   : 0.0;
  });
  counter("sluice_prompt_tokens_total", "Prompt tokens computed.", [](const Stats& s) { return s.prompt_tokens; });
  counter("sluice_generation_tokens_total", "Tokens made.", [](const Stats& s) { return s.generated_tokens; });
  metrics.histogram_of("sluice_engine_step_seconds", "Planning, computing and reporting of a step.", [&stats] {
    return HistogramValue{StepCounts::kSeconds, stats.step_counts.by_seconds, stats.step_counts.seconds};
  });
  metrics.histogram_of("sluice_iteration_tokens", "Rows of a step: tokens of prompts and of answers, and drafts.",
                       [&stats] {
                         return HistogramValue{StepCounts::kRows, stats.step_counts.by_rows,
                                               static_cast<double>(stats.step_counts.rows)};
                       });
  gauge("sluice_engine_failed", "1: no answer is computed, as a file of the weights has changed or the device is lost.",
        [](const Stats& s) { return s.failed ? 1 : 0; });
  gauge("sluice_engine_turn_seconds", "How long the step loop has been in the step it is in; 0: it has nothing to do.",
        [](const Stats& s) { return s.turn_seconds; });
  counter("sluice_engine_steps_total", "Steps of the engine.", [](const Stats& s) { return s.steps; });
  counter("sluice_requests_cancelled_total", "Requests that were cancelled.",
          [](const Stats& s) { return s.cancelled_requests; });
  constexpr const char* kPreemptions = "sluice_num_preemptions_total";
  constexpr const char* kPreempted = "Sequences that had to give their memory back, by what became of their state.";
  counter(kPreemptions, kPreempted, [](const Stats& s) { return s.preemptions_recompute; }, R"(kind="recompute")");
  counter(kPreemptions, kPreempted, [](const Stats& s) { return s.preemptions_swap; }, R"(kind="swap")");
  counter("sluice_swaps_restored_total", "Swapped states that were brought back, instead of computed again.",
          [](const Stats& s) { return s.swaps_restored; });
  gauge("sluice_swap_bytes_used", "Bytes of swapped state.", [](const Stats& s) { return s.swap_bytes_used; });
  gauge("sluice_swap_capacity_bytes", "Bytes of swap space.", [](const Stats& s) { return s.swap_bytes_total; });
}

// Tokens are counted when a request is admitted, again after a preemption.
void add_cache_metrics(Metrics& metrics, const EngineStats& stats) {
  using Cache = CacheStats;
  const auto counter = [&](const char* name, const char* help, auto read, const char* labels = "") {
    metrics.counter_of(name, help, [&stats, read] { return static_cast<double>(read(stats.cache)); }, labels);
  };
  counter("sluice_prefix_cache_queries_total", "Prompt tokens that were looked for in the prefix cache.",
          [](const Cache& c) { return c.prompt_tokens; });
  counter("sluice_prefix_cache_matched_tokens_total", "Prompt tokens whose blocks were in the prefix cache.",
          [](const Cache& c) { return c.matched_tokens; });
  counter("sluice_prefix_cache_hits_total", "Prompt tokens taken from the prefix cache instead of computed.",
          [](const Cache& c) { return c.resumed_tokens; });
  counter("sluice_prefix_cache_lost_tokens_total", "Matched tokens that were computed, for want of a place to resume.",
          [](const Cache& c) { return c.lost_to_retention_tokens; });
  counter("sluice_prefix_cache_shared_waits_total", "Requests that waited for another one's common prefix.",
          [](const Cache& c) { return c.shared_waits; });
  constexpr const char* kPublished = "sluice_prefix_cache_published_pages_total";
  constexpr const char* kPublishedHelp = "Pages that became findable by their contents.";
  counter(kPublished, kPublishedHelp, [](const Cache& c) { return c.published_blocks; }, R"(pool="latent")");
  counter(kPublished, kPublishedHelp, [](const Cache& c) { return c.published_windows; }, R"(pool="window")");
  constexpr const char* kEvicted = "sluice_prefix_cache_evicted_pages_total";
  constexpr const char* kEvictedHelp = "Cached pages that were given to another use.";
  counter(kEvicted, kEvictedHelp, [](const Cache& c) { return c.evicted_blocks; }, R"(pool="latent")");
  counter(kEvicted, kEvictedHelp, [](const Cache& c) { return c.evicted_windows; }, R"(pool="window")");
}

void add_draft_metrics(Metrics& metrics, const EngineStats& stats) {
  const auto counter = [&](const char* name, const char* help, auto read, const std::string& labels = "") {
    metrics.counter_of(name, help, [&stats, read] { return static_cast<double>(read(stats.drafts)); }, labels);
  };
  counter("sluice_spec_decode_num_drafts_total", "Spans that had drafted tokens.",
          [](const DraftStats& d) { return d.drafts; });
  counter("sluice_spec_decode_num_draft_tokens_total", "Tokens that were drafted.",
          [](const DraftStats& d) { return d.drafted_tokens; });
  counter("sluice_spec_decode_num_accepted_tokens_total", "Drafted tokens that were right.",
          [](const DraftStats& d) { return d.accepted_tokens; });
  for (std::size_t i = 0; i < kMostDrafts; ++i) {
    const std::string position = fmt::format(R"(position="{}")", i);
    counter(
        "sluice_spec_decode_num_draft_tokens_per_pos_total", "Tokens that were drafted, by depth.",
        [i](const DraftStats& d) { return d.drafted_by_depth[i]; }, position);
    counter(
        "sluice_spec_decode_num_accepted_tokens_per_pos_total", "Drafted tokens that were right, by depth.",
        [i](const DraftStats& d) { return d.accepted_by_depth[i]; }, position);
  }
}

void add_page_metrics(Metrics& metrics, const EngineStats& stats) {
  struct Pool {
    const char* name;
    int CacheStats::* total;
    int CacheStats::* used;
    int CacheStats::* cached;
  };
  constexpr Pool kPools[] = {
      {"latent", &CacheStats::latent_pages_total, &CacheStats::latent_pages_used, &CacheStats::latent_pages_cached},
      {"window", &CacheStats::window_pages_total, &CacheStats::window_pages_used, &CacheStats::window_pages_cached}};
  const auto gauge = [&](const Pool& pool, const char* state, auto read) {
    metrics.gauge(
        "sluice_kv_cache_pages", "Pages by pool and state; cached ones may be reused and are held by no one.",
        [&stats, read] { return static_cast<double>(read(stats.cache)); },
        fmt::format(R"(pool="{}",state="{}")", pool.name, state));
  };
  for (const Pool& pool : kPools) {
    gauge(pool, "used", [pool](const CacheStats& c) { return c.*pool.used; });
    gauge(pool, "cached", [pool](const CacheStats& c) { return c.*pool.cached; });
    gauge(pool, "free", [pool](const CacheStats& c) { return c.*pool.total - c.*pool.used - c.*pool.cached; });
  }
}

}  // namespace

ServerMetrics::ServerMetrics(const Engine& engine)
    : time_to_first_token(registry_.histogram("sluice_time_to_first_token_seconds",
                                              "From the end of a request's header to its first token.",
                                              second_buckets())),
      time_per_output_token(registry_.histogram("sluice_time_per_output_token_seconds",
                                                "Between two tokens of an answer.", second_buckets())),
      inter_token_latency(registry_.histogram("sluice_inter_token_latency_seconds", "Between two tokens of an answer.",
                                              second_buckets())),
      stream_delay(registry_.histogram("sluice_stream_delay_seconds",
                                       "From a token's making to its event being with the system.", delay_buckets())),
      request_latency(registry_.histogram("sluice_e2e_request_latency_seconds",
                                          "From the end of a request's header to its last token.", second_buckets())),
      queue_time(registry_.histogram("sluice_request_queue_time_seconds",
                                     "From the end of a request's header until it got memory.", second_buckets())),
      prefill_time(registry_.histogram("sluice_request_prefill_time_seconds", "From then to its first token.",
                                       second_buckets())),
      decode_time(registry_.histogram("sluice_request_decode_time_seconds", "From its first token to its last.",
                                      second_buckets())),
      inference_time(registry_.histogram("sluice_request_inference_time_seconds",
                                         "From when a request got memory to its last token.", second_buckets())),
      answer_length(registry_.histogram("sluice_request_generation_tokens", "Tokens of all answers to a request.",
                                        token_buckets())),
      prompt_length(registry_.histogram("sluice_request_prompt_tokens", "Tokens of a prompt.", token_buckets())),
      ignored_fields(registry_.counter("sluice_ignored_fields_total",
                                       "Fields of requests that nobody knows, which were ignored.")) {
  registry_.before_reading([this, &engine] { stats_ = engine.stats(); });
  add_engine_metrics(registry_, stats_);
  add_cache_metrics(registry_, stats_);
  add_page_metrics(registry_, stats_);
  add_draft_metrics(registry_, stats_);
  for (const char* reason : {"waiting_requests", "waiting_tokens", "key_running", "key_requests", "key_tokens",
                             "deadline", "deadline_running"}) {
    registry_.counter("sluice_requests_refused_total", "Requests that a limit or their deadline ended, by which.",
                      fmt::format("reason=\"{}\"", reason));
  }
  for (const int status : {400, 401, 403, 404, 413, 429, 499, 500, 503}) {
    registry_.counter(kErrors, kErrorsHelp, fmt::format("kind=\"{}\"", error_kind(status)));
  }
  for (const char* reason : {"stop", "length", "tool_calls"}) {
    registry_.counter("sluice_request_success_total", kSuccess, fmt::format("finished_reason=\"{}\"", reason));
  }
  for (const char* reason : {"stop", "length", "tool_calls", "abort", "error"}) {
    registry_.counter("sluice_request_finished_total", "Answers by how they ended.",
                      fmt::format("finished_reason=\"{}\"", reason));
  }
}

void ServerMetrics::on_exchange(const HttpSummary& summary, std::string_view route) {
  constexpr int kFirstError = 400, kClientLeft = 499;
  if (summary.disconnected) {
    on_error(kClientLeft);
  } else if (summary.status >= kFirstError) {
    on_error(summary.status);
  }
  registry_
      .counter("sluice_http_requests_total", "HTTP requests by path and status.",
               fmt::format("path=\"{}\",status=\"{}\"", route, summary.status))
      .add(1);
}

void ServerMetrics::on_error(int status) {
  registry_.counter(kErrors, kErrorsHelp, fmt::format("kind=\"{}\"", error_kind(status))).add(1);
}

void ServerMetrics::on_refused(const std::string& reason) {
  registry_
      .counter("sluice_requests_refused_total", "Requests that a limit or their deadline ended, by which.",
               fmt::format("reason=\"{}\"", reason))
      .add(1);
}

void ServerMetrics::set_naming(const std::string& prefix, const std::string& model_name) {
  registry_.set_naming(prefix, fmt::format("model_name=\"{}\"", escaped(model_name)));
}

void ServerMetrics::add_info(const std::string& name, const std::string& help, const Labels& labels) {
  std::string text;
  for (const auto& [key, value] : labels) {
    text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", key, escaped(value));
  }
  registry_.gauge(name, help, [] { return 1.0; }, text);
}

void ServerMetrics::add_weights_info(const Engine& engine) {
  registry_.info("sluice_weights_info", "Whose weights these are.",
                 [&engine] { return fmt::format("version=\"{}\"", escaped(engine.weights_version())); });
}

void ServerMetrics::watch(std::function<HttpServer::Counts()> counts) {
  const auto counter = [&](const char* name, const char* help, auto read, const char* labels) {
    registry_.counter_of(name, help, [counts, read] { return static_cast<double>(read(counts())); }, labels);
  };
  registry_.gauge("sluice_http_connections", "Connections that are open.",
                  [counts] { return static_cast<double>(counts().connections); });
  registry_.gauge("sluice_http_bodies_bytes", "Bytes of the requests that are being read or answered.",
                  [counts] { return static_cast<double>(counts().bodies_bytes); });
  constexpr const char* kRefused = "Connections and requests that found no room, by what there was too much of.";
  counter(
      "sluice_http_refused_total", kRefused, [](const HttpServer::Counts& c) { return c.refused_connections; },
      R"(reason="connections")");
  counter(
      "sluice_http_refused_total", kRefused, [](const HttpServer::Counts& c) { return c.refused_bodies; },
      R"(reason="bodies")");
  registry_.counter_of("sluice_http_unread_answers_total", "Connections that were cut, as their answers were not read.",
                       [counts] { return static_cast<double>(counts().cut_unread); });
}

void ServerMetrics::watch_traces(std::function<std::uint64_t()> sent, std::function<std::uint64_t()> dropped) {
  registry_.counter_of("sluice_traces_sent_total", "Traces of requests that the collector has taken.",
                       [sent = std::move(sent)] { return static_cast<double>(sent()); });
  registry_.counter_of("sluice_traces_dropped_total", "Traces that it has not, or for which there was no room.",
                       [dropped = std::move(dropped)] { return static_cast<double>(dropped()); });
}

void ServerMetrics::on_request(const ServedRequest& request) {
  using Time = ServedRequest::Time;
  const auto observe = [](Histogram& histogram, Time from, Time to) {
    if (from != Time() && to != Time()) histogram.observe(std::chrono::duration<double>(to - from).count());
  };
  observe(queue_time, request.received, request.admitted);
  observe(prefill_time, request.admitted, request.first_token);
  observe(decode_time, request.first_token, request.last_token);
  observe(inference_time, request.admitted, request.last_token);
  answer_length.observe(request.completion_tokens);
}

void ServerMetrics::on_finished(std::string_view reason, double seconds) {
  if (reason == "stop" || reason == "length" || reason == "tool_calls") {
    registry_.counter("sluice_request_success_total", kSuccess, fmt::format("finished_reason=\"{}\"", reason)).add(1);
  }
  registry_
      .counter("sluice_request_finished_total", "Answers by how they ended.",
               fmt::format("finished_reason=\"{}\"", reason))
      .add(1);
  request_latency.observe(seconds);
}

}  // namespace sluice
