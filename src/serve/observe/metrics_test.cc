// Names, labels and the histograms of a request's phases in /metrics.
#include "telemetry/metrics.h"

#include "serve/api/api_testing.h"

namespace sluice::metrics_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class MetricsTest : public ApiTest {
 protected:
  std::string text() { return request(server_->port(), "GET", "/metrics").body; }
};

TEST_F(MetricsTest, EverySampleNamesTheModel) {
  options_.served_model_name = "a \"b\\";
  start();
  std::size_t samples = 0;
  const std::string all = text();
  for (std::size_t start = 0; start < all.size();) {
    const std::size_t end = all.find('\n', start);
    const std::string line = all.substr(start, end - start);
    start = end + 1;
    if (line.starts_with('#')) continue;
    ++samples;
    EXPECT_THAT(line, HasSubstr(R"(model_name="a \"b\\")"));
  }
  EXPECT_GT(samples, 100U);
}

TEST_F(MetricsTest, NamesCanBeginAsThoseOfOthers) {
  options_.metrics_prefix = "vllm:";
  start();
  const std::string all = text();
  EXPECT_THAT(all,
              HasSubstr("# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name=\"tiny\"} 0"));
  for (const char* name :
       {"num_requests_waiting", "kv_cache_usage_perc", "prompt_tokens_total", "generation_tokens_total",
        "time_to_first_token_seconds_bucket", "inter_token_latency_seconds_sum", "stream_delay_seconds_count",
        "e2e_request_latency_seconds_count", "request_success_total", "num_preemptions_total",
        "prefix_cache_queries_total", "prefix_cache_hits_total", "request_queue_time_seconds_count",
        "request_prefill_time_seconds_count", "request_decode_time_seconds_count",
        "request_inference_time_seconds_count", "request_prompt_tokens_count", "request_generation_tokens_count",
        "cache_config_info"}) {
    EXPECT_THAT(all, HasSubstr(std::string("\nvllm:") + name + "{"));
  }
  EXPECT_THAT(all, Not(HasSubstr("sluice_")));
}

TEST_F(MetricsTest, PhasesOfARequest) {
  say("one two");
  engine_.admitted_after = std::chrono::milliseconds(20);
  EXPECT_EQ(complete().status, 200);
  const std::string all = get("/metrics").body;
  for (const char* name : {"queue", "prefill", "decode", "inference"}) {
    EXPECT_THAT(all, HasSubstr(fmt::format("\nsluice_request_{}_time_seconds_count 1\n", name)));
  }
  EXPECT_THAT(all, HasSubstr("\nsluice_request_queue_time_seconds_bucket{le=\"0.01\"} 0\n"));
  EXPECT_THAT(all, HasSubstr("\nsluice_request_generation_tokens_sum 3\n"));
  EXPECT_THAT(all, HasSubstr("\nsluice_request_success_total{finished_reason=\"stop\"} 1\n"));
  // The first connection's end may take the server a moment to see.
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto alone = [&] { return get("/metrics").body.find("\nsluice_http_connections 1\n") != std::string::npos; };
  bool seen = alone();
  while (!seen && std::chrono::steady_clock::now() < patience) seen = alone();
  EXPECT_TRUE(seen);
}

}  // namespace
}  // namespace sluice::metrics_test
