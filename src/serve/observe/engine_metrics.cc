// Used by server_metrics.cc.
#include "serve/observe/engine_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "telemetry/exports.h"

namespace sluice {
namespace {

using Stats = EngineStats;
using Cache = CacheStats;

// Adds one metric, which `read` takes out of the engine's numbers.
template <class Read>
void add(Metrics& metrics, const Stats& stats, const std::string& name, Read read, const std::string& labels = "") {
  metrics.read_by(name, [&stats, read] { return static_cast<double>(read(stats)); }, labels);
}

void add_requests(Metrics& metrics, const Stats& stats) {
  add(metrics, stats, "sluice_num_requests_running", [](const Stats& s) { return s.running; });
  add(metrics, stats, "sluice_num_requests_waiting", [](const Stats& s) { return s.waiting; });
  add(metrics, stats, "sluice_num_requests_paused", [](const Stats& s) { return s.paused; });
  for (std::size_t i = 0; i < kWaitReasons; ++i) {
    std::string reason = name_of(static_cast<WaitReason>(i));
    std::ranges::replace(reason, ' ', '_');
    add(
        metrics, stats, "sluice_num_requests_waiting_by_reason", [i](const Stats& s) { return s.waiting_for[i]; },
        fmt::format(R"(reason="{}")", reason));
  }
  add(metrics, stats, "sluice_prompt_tokens_total", [](const Stats& s) { return s.prompt_tokens; });
  add(metrics, stats, "vllm:prompt_tokens_total",
      [](const Stats& s) { return s.prompt_tokens + s.cache.resumed_tokens; });
  add(metrics, stats, "sluice_recomputed_tokens_total", [](const Stats& s) { return s.recomputed_tokens; });
}

void add_steps(Metrics& metrics, const Stats& stats) {
  metrics.histogram_of("sluice_engine_step_seconds", [&stats] {
    return HistogramValue{StepCounts::kSeconds, stats.step_counts.by_seconds, stats.step_counts.seconds};
  });
  metrics.histogram_of("sluice_iteration_tokens", [&stats] {
    const auto rows = static_cast<double>(stats.step_counts.rows);
    return HistogramValue{StepCounts::kRows, stats.step_counts.by_rows, rows};
  });
  add(metrics, stats, "sluice_engine_failed", [](const Stats& s) { return s.failed ? 1 : 0; });
  add(metrics, stats, "sluice_engine_turn_seconds", [](const Stats& s) { return s.turn_seconds; });
  add(metrics, stats, "sluice_engine_steps_total", [](const Stats& s) { return s.steps; });
}

void add_preemptions(Metrics& metrics, const Stats& stats) {
  const std::string name = "sluice_num_preemptions_total";
  add(metrics, stats, name, [](const Stats& s) { return s.preemptions_recompute; }, R"(kind="recompute")");
  add(metrics, stats, name, [](const Stats& s) { return s.preemptions_swap; }, R"(kind="swap")");
  add(metrics, stats, "sluice_swaps_restored_total", [](const Stats& s) { return s.swaps_restored; });
  add(metrics, stats, "sluice_swap_bytes_used", [](const Stats& s) { return s.swap_bytes_used; });
  add(metrics, stats, "sluice_swap_capacity_bytes", [](const Stats& s) { return s.swap_bytes_total; });
}

void add_cache(Metrics& metrics, const Stats& stats) {
  add(metrics, stats, "sluice_kv_cache_bytes_used", [](const Stats& s) { return s.cache_bytes_used; });
  add(metrics, stats, "sluice_kv_cache_capacity_bytes", [](const Stats& s) { return s.cache_bytes_total; });
  add(metrics, stats, "sluice_kv_cache_usage_perc", [](const Stats& s) {
    return s.cache_bytes_total > 0 ? static_cast<double>(s.cache_bytes_used) / static_cast<double>(s.cache_bytes_total)
                                   : 0.0;
  });
  const auto counter = [&](const char* name, std::uint64_t Cache::* value, const char* labels = "") {
    add(metrics, stats, name, [value](const Stats& s) { return s.cache.*value; }, labels);
  };
  counter("sluice_prefix_cache_queries_total", &Cache::prompt_tokens);
  counter("sluice_prefix_cache_matched_tokens_total", &Cache::matched_tokens);
  counter("sluice_prefix_cache_hits_total", &Cache::resumed_tokens);
  counter("sluice_prefix_cache_lost_tokens_total", &Cache::lost_to_retention_tokens);
  counter("sluice_prefix_cache_shared_waits_total", &Cache::shared_waits);
  counter("sluice_prefix_cache_inserted_pages_total", &Cache::inserted_blocks, R"(pool="latent")");
  counter("sluice_prefix_cache_inserted_pages_total", &Cache::inserted_windows, R"(pool="window")");
  counter("sluice_prefix_cache_evicted_pages_total", &Cache::evicted_blocks, R"(pool="latent")");
  counter("sluice_prefix_cache_evicted_pages_total", &Cache::evicted_windows, R"(pool="window")");
}

void add_pages(Metrics& metrics, const Stats& stats) {
  struct Pool {
    const char* name;
    int Cache::* total;
    int Cache::* used;
    int Cache::* cached;
  };
  constexpr Pool kPools[] = {
      {"latent", &Cache::latent_pages_total, &Cache::latent_pages_used, &Cache::latent_pages_cached},
      {"window", &Cache::window_pages_total, &Cache::window_pages_used, &Cache::window_pages_cached}};
  for (const Pool& pool : kPools) {
    const auto gauge = [&](const char* state, auto read) {
      add(
          metrics, stats, "sluice_kv_cache_pages", [read](const Stats& s) { return read(s.cache); },
          fmt::format(R"(pool="{}",state="{}")", pool.name, state));
    };
    gauge("used", [pool](const Cache& c) { return c.*pool.used; });
    gauge("cached", [pool](const Cache& c) { return c.*pool.cached; });
    gauge("free", [pool](const Cache& c) { return c.*pool.total - c.*pool.used - c.*pool.cached; });
  }
}

void add_drafts(Metrics& metrics, const Stats& stats) {
  const auto counter = [&](const char* name, auto read, const std::string& labels = "") {
    add(metrics, stats, name, [read](const Stats& s) { return read(s.drafts); }, labels);
  };
  counter("sluice_spec_decode_num_drafts_total", [](const DraftStats& d) { return d.drafts; });
  counter("sluice_spec_decode_num_draft_tokens_total", [](const DraftStats& d) { return d.drafted_tokens; });
  counter("sluice_spec_decode_num_accepted_tokens_total", [](const DraftStats& d) { return d.accepted_tokens; });
  for (std::size_t i = 0; i < kMostDrafts; ++i) {
    const std::string position = fmt::format(R"(position="{}")", i);
    counter(
        "sluice_spec_decode_num_draft_tokens_per_pos_total", [i](const DraftStats& d) { return d.drafted_by_depth[i]; },
        position);
    counter(
        "sluice_spec_decode_num_accepted_tokens_per_pos_total",
        [i](const DraftStats& d) { return d.accepted_by_depth[i]; }, position);
  }
}

}  // namespace

void add_engine_metrics(Metrics& metrics, const EngineStats& stats) {
  add_requests(metrics, stats);
  add_steps(metrics, stats);
  add_preemptions(metrics, stats);
  add_cache(metrics, stats);
  add_pages(metrics, stats);
  add_drafts(metrics, stats);
}

}  // namespace sluice
