// sluice bench serve: load on any OpenAI-compatible server, measured by the same rules. docs/benchmarks.md says how to
// read it.
#pragma once

#include <string>
#include <vector>

#include "loadgen/plain_trace.h"

namespace sluice {

struct BenchServeOptions {
  std::string url, model;  // model "": the first that the server lists
  std::string endpoint = "chat";
  PlainTraceOptions lengths;
  std::string workload, trace, conversations;  // other sources of requests, at most one of them
  int hash_block_tokens = 512;
  double think_ms = 0;           // the pause between a conversation's turns
  std::vector<double> rates;     // open loop, one run each
  std::vector<int> concurrency;  // closed loop, one run each
  int warmup = 8;                // requests before each run, not counted
  bool stream = true, ignore_eos = true;
  double temperature = 0;
  std::string authorities;  // for https: a file of authorities; "": the system's
  bool insecure = false;
  std::string extra_body, api_key_env = "OPENAI_API_KEY";
  std::string slo, json, html, record, baseline;
  double timeout = 3600;  // seconds of a request
  bool check_determinism = false;
};

int run_bench_serve(const BenchServeOptions& options);

}  // namespace sluice
