// Used by cli/bench/bench_serve_command.cc, cli/commands/simulate_command.h, cli/flags/bench_flags.cc and
// conversations.cc.
#include "sim/workload.h"

#include <fmt/format.h>

#include <utility>

#include "sim/draws.h"

namespace sluice {
namespace {

constexpr int kMaxRequests = 100'000'000;

void make_default(const WorkloadOptions& options, Draws& draws, Trace& trace) {
  const int input = options.mean_input > 0 ? options.mean_input : 512;
  const int output = options.mean_output > 0 ? options.mean_output : 128;
  PoissonTimes arrivals(options.rate);
  for (int i = 0; i < options.requests; ++i) {
    const double at = arrivals.next_ms(draws);
    const int tokens = draws.length(input);
    trace.requests.push_back(plain_request(at, tokens, draws.length(output)));
  }
}

void make_mixed(const WorkloadOptions& options, Draws& draws, Trace& trace) {
  PoissonTimes arrivals(options.rate);
  for (int i = 0; i < options.requests; ++i) {
    const double at = arrivals.next_ms(draws);
    const bool is_long = draws.uniform() < 0.05;
    const int tokens = is_long ? 8000 + draws.length(16000) : draws.length(128);
    trace.requests.push_back(plain_request(at, tokens, draws.length(is_long ? 256 : 64)));
  }
}

void make_bulk(const WorkloadOptions& options, Draws&, Trace& trace) {
  const int input = options.mean_input > 0 ? options.mean_input : 8192;
  const int output = options.mean_output > 0 ? options.mean_output : 1024;
  for (int i = 0; i < options.requests; ++i) trace.requests.push_back(plain_request(0, input, output));
}

void make_behind_long(const WorkloadOptions& options, Draws& draws, Trace& trace) {
  constexpr double kEveryMs = 240'000;
  constexpr int kLong = 600'000;
  PoissonTimes arrivals(options.rate);
  double next_long_ms = 10'000;
  while (static_cast<int>(trace.requests.size()) < options.requests) {
    const double at = arrivals.next_ms(draws);
    if (at >= next_long_ms) {
      trace.requests.push_back(plain_request(next_long_ms, kLong, 64));
      next_long_ms += kEveryMs;
    }
    trace.requests.push_back(plain_request(at, 101, 32));
  }
  trace.requests.resize(static_cast<std::size_t>(options.requests));
}

struct Workload {
  const char* name;
  void (*make)(const WorkloadOptions&, Draws&, Trace&);
};

constexpr Workload kWorkloads[] = {
    {"default", make_default}, {"chat", make_chat_workload}, {"reuse", make_reuse_workload},
    {"mixed", make_mixed},     {"bulk", make_bulk},          {"behind-long", make_behind_long},
};

Status check(const WorkloadOptions& options) {
  constexpr int kMostTokens = 1 << 22;  // largest mean: 16 times that still fits
  if (options.requests < 1 || options.requests > kMaxRequests) {
    return invalid_argument(fmt::format("--requests: expected 1 to {}, found {}", kMaxRequests, options.requests));
  }
  if (!(options.rate > 0 && options.rate <= 1e9)) {
    return invalid_argument(fmt::format("--rate: expected a number above 0, found {}", options.rate));
  }
  for (const auto& [flag, tokens] : {std::pair{"--input", options.mean_input}, {"--output", options.mean_output}}) {
    if (tokens < 0 || tokens > kMostTokens) {
      return invalid_argument(fmt::format("{}: expected 0 to {}, found {}", flag, kMostTokens, tokens));
    }
  }
  return {};
}

}  // namespace

std::vector<std::string> workload_names() {
  std::vector<std::string> names;
  for (const Workload& workload : kWorkloads) names.emplace_back(workload.name);
  return names;
}

Result<Trace> make_workload(const WorkloadOptions& options) {
  SLUICE_RETURN_IF_ERROR(check(options));
  for (const Workload& workload : kWorkloads) {
    if (workload.name != options.name) continue;
    Trace trace;
    trace.requests.reserve(static_cast<std::size_t>(options.requests));
    Draws draws(options.seed);
    workload.make(options, draws, trace);
    return trace;
  }
  return invalid_argument(
      fmt::format("--workload: expected one of {}, found '{}'", fmt::join(workload_names(), ", "), options.name));
}

}  // namespace sluice
