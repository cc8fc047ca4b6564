// Tests of the engine's counters as clients see them: /debug/cache and /metrics.
#include "serve/api/api_testing.h"

namespace sluice::debug_test {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;

class DebugTest : public ApiTest {
 protected:
  DebugTest() {
    EngineStats& stats = engine_.counters;
    stats.preemptions_recompute = 4;
    stats.preemptions_swap = 5;
    stats.swaps_restored = 3;
    stats.swap_bytes_total = 1000;
    stats.swap_bytes_used = 100;
    stats.cache = {.admissions = 7,
                   .prompt_tokens = 800,
                   .matched_tokens = 600,
                   .resumed_tokens = 400,
                   .lost_to_retention_tokens = 200,
                   .shared_waits = 2,
                   .inserted_blocks = 11,
                   .evicted_blocks = 12,
                   .inserted_windows = 13,
                   .evicted_windows = 14,
                   .latent_pages_total = 100,
                   .latent_pages_cached = 30,
                   .latent_pages_used = 20,
                   .window_pages_total = 50,
                   .window_pages_cached = 7,
                   .window_pages_used = 3};
  }
};

TEST_F(DebugTest, TheFunnelOfTheCache) {
  const TestAnswer answer = get("/debug/cache");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(parsed(answer.body), parsed(R"({"admissions":7,"prompt_tokens":800,"matched_tokens":600,
      "resumed_tokens":400,"lost_to_retention_tokens":200,"match_rate":0.75,"hit_rate":0.5,"shared_waits":2,
      "pools":{"latent":{"pages_total":100,"pages_used":20,"pages_cached":30,"pages_free":50,"inserted":11,"evicted":12},
               "window":{"pages_total":50,"pages_used":3,"pages_cached":7,"pages_free":40,"inserted":13,"evicted":14}},
      "bytes_total":1000,"bytes_used":0,"preemptions":{"recompute":4,"swap":5},
      "swap":{"bytes_total":1000,"bytes_used":100}})"))
      << answer.body;
  engine_.counters = {};
  EXPECT_EQ(number_at(parsed(get("/debug/cache").body), "hit_rate"), 0);
}

TEST_F(DebugTest, ResetForgetsTheCache) {
  EXPECT_EQ(post("/debug/cache/reset", "").status, 200);
  EXPECT_EQ(engine_.reset_calls(), 1);
  EXPECT_EQ(get("/debug/cache/reset").status, 405);
  EXPECT_EQ(post("/debug/cache", "").status, 405);
  engine_.resets = false;
  expect_error(post("/debug/cache/reset", ""), 503, "", "within 5 seconds");
}

TEST_F(DebugTest, ClosedToOtherMachinesUnlessAskedFor) {
  options_.http.hosts = {"0.0.0.0"};
  for (const TestAnswer& answer : {get("/debug/cache"), post("/debug/cache/reset", "")}) {
    expect_error(answer, 403, "", "--enable-debug-endpoints");
    EXPECT_EQ(text_at(parsed(answer.body), "error/type"), "permission_error");
  }
  EXPECT_EQ(engine_.reset_calls(), 0);
  server_.reset();
  options_.enable_debug_endpoints = true;
  EXPECT_EQ(get("/debug/cache").status, 200);
  EXPECT_EQ(post("/debug/cache/reset", "").status, 200);
}

TEST_F(DebugTest, MetricsOfTheCache) {
  const std::string text = get("/metrics").body;
  for (const char* line : {
           "# TYPE sluice_prefix_cache_queries_total counter\nsluice_prefix_cache_queries_total 800\n",
           "\nsluice_prefix_cache_matched_tokens_total 600\n",
           "\nsluice_prefix_cache_hits_total 400\n",
           "\nsluice_prefix_cache_lost_tokens_total 200\n",
           "\nsluice_prefix_cache_shared_waits_total 2\n",
           "\nsluice_prefix_cache_inserted_pages_total{pool=\"latent\"} 11\n",
           "\nsluice_prefix_cache_inserted_pages_total{pool=\"window\"} 13\n",
           "\nsluice_prefix_cache_evicted_pages_total{pool=\"latent\"} 12\n",
           "\nsluice_prefix_cache_evicted_pages_total{pool=\"window\"} 14\n",
           "\nsluice_num_preemptions_total{kind=\"recompute\"} 4\n",
           "\nsluice_num_preemptions_total{kind=\"swap\"} 5\n",
           "\nsluice_swaps_restored_total 3\n",
           "\nsluice_swap_bytes_used 100\n",
           "\nsluice_swap_capacity_bytes 1000\n",
           "# TYPE sluice_kv_cache_pages gauge\n",
           "\nsluice_kv_cache_pages{pool=\"latent\",state=\"used\"} 20\n",
           "\nsluice_kv_cache_pages{pool=\"latent\",state=\"cached\"} 30\n",
           "\nsluice_kv_cache_pages{pool=\"latent\",state=\"free\"} 50\n",
           "\nsluice_kv_cache_pages{pool=\"window\",state=\"used\"} 3\n",
           "\nsluice_kv_cache_pages{pool=\"window\",state=\"cached\"} 7\n",
           "\nsluice_kv_cache_pages{pool=\"window\",state=\"free\"} 40\n",
       }) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

}  // namespace
}  // namespace sluice::debug_test
