// The endpoints that look into the engine and reach into its state.
#include <fmt/format.h>

#include <utility>

#include "serve/api/endpoints.h"

namespace sluice {
namespace {

constexpr double kResetSeconds = 5.0;

}  // namespace

bool is_open(const ApiContext& context, const HttpExchangePtr& exchange) {
  const bool is_forwarded = exchange->request().is_forwarded;
  if (exchange->request().is_admin || context.debug_endpoints || (context.is_loopback && !is_forwarded)) return true;
  exchange->respond(
      error_response({403,
                      fmt::format("/debug is closed: {}; start the server with --enable-debug-endpoints to open it",
                                  is_forwarded ? "a proxy passed the request on"
                                               : "the server listens on more than this machine's loopback address"),
                      "", "debug_endpoints_closed"}));
  return false;
}

namespace {

double rate(std::uint64_t part, std::uint64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

struct PoolStats {
  int total, cached, used;
  std::uint64_t inserted, evicted;
};

std::string pool_json(const PoolStats& pool) {
  return fmt::format(
      R"({{"pages_total":{},"pages_used":{},"pages_cached":{},"pages_free":{},"inserted":{},"evicted":{}}})",
      pool.total, pool.used, pool.cached, pool.total - pool.used - pool.cached, pool.inserted, pool.evicted);
}

std::string cache_json(const EngineStats& stats) {
  const CacheStats& cache = stats.cache;
  std::string out = fmt::format(
      R"({{"admissions":{},"prompt_tokens":{},"matched_tokens":{},"resumed_tokens":{},"lost_to_retention_tokens":{},)"
      R"("match_rate":{},"hit_rate":{},"shared_waits":{})",
      cache.admissions, cache.prompt_tokens, cache.matched_tokens, cache.resumed_tokens, cache.lost_to_retention_tokens,
      rate(cache.matched_tokens, cache.prompt_tokens), rate(cache.resumed_tokens, cache.prompt_tokens),
      cache.shared_waits);
  out += fmt::format(R"(,"pools":{{"latent":{},"window":{}}})",
                     pool_json({cache.latent_pages_total, cache.latent_pages_cached, cache.latent_pages_used,
                                cache.inserted_blocks, cache.evicted_blocks}),
                     pool_json({cache.window_pages_total, cache.window_pages_cached, cache.window_pages_used,
                                cache.inserted_windows, cache.evicted_windows}));
  out += fmt::format(R"(,"bytes_total":{},"bytes_used":{},"preemptions":{{"recompute":{},"swap":{}}},)"
                     R"("swap":{{"bytes_total":{},"bytes_used":{}}}}})",
                     stats.cache_bytes_total, stats.cache_bytes_used, stats.preemptions_recompute,
                     stats.preemptions_swap, stats.swap_bytes_total, stats.swap_bytes_used);
  return out;
}

}  // namespace

void show_cache(ApiContext& context, const HttpExchangePtr& exchange) {
  if (!is_open(context, exchange)) return;
  HttpResponse response;
  response.body = cache_json(context.engine.stats());
  exchange->respond(std::move(response));
}

void reset_cache(ApiContext& context, const HttpExchangePtr& exchange) {
  if (!is_open(context, exchange)) return;
  context.workers.run([&context, exchange] {
    if (!context.engine.reset_prefix_cache(kResetSeconds)) {
      return exchange->respond(
          error_response({503, fmt::format("the engine did not reset its cache within {} seconds", kResetSeconds), "",
                          "unavailable"}));
    }
    HttpResponse response;
    response.body = R"({"status":"ok"})";
    exchange->respond(std::move(response));
  });
}

}  // namespace sluice
