// Used by cli/bench/bench_serve_command.h.
#include "loadgen/plain_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/draws.h"

namespace sluice {
namespace {

constexpr int kBlock = 16, kMostTokens = 1 << 24;

Status check(const PlainTraceOptions& options) {
  const auto within = [](const char* what, int value, int low, int high) -> Status {
    if (value >= low && value <= high) return {};
    return invalid_argument(fmt::format("{}: expected {} to {}, found {}", what, low, high, value));
  };
  SLUICE_RETURN_IF_ERROR(within("requests", options.requests, 1, 10'000'000));
  SLUICE_RETURN_IF_ERROR(within("input tokens", options.input, 1, kMostTokens));
  SLUICE_RETURN_IF_ERROR(within("output tokens", options.output, 1, kMostTokens));
  SLUICE_RETURN_IF_ERROR(within("shared prefix", options.shared_prefix, 0, options.input));
  SLUICE_RETURN_IF_ERROR(within("prefixes", options.prefixes, 1, 1 << 20));
  SLUICE_RETURN_IF_ERROR(within("burst", options.burst, 1, 1 << 20));
  if (!(options.spread >= 0 && options.spread < 1))
    return invalid_argument(fmt::format("spread: expected at least 0 and below 1, found {}", options.spread));
  if (!(options.rate > 0 && std::isfinite(options.rate)))
    return invalid_argument(fmt::format("rate: expected above 0, found {}", options.rate));
  return {};
}

int draw_length(Draws& draws, int mean, double spread) {
  const double factor = 1 - spread + 2 * spread * draws.uniform();
  return std::max(1, static_cast<int>(std::lround(mean * factor)));
}

}  // namespace

Result<Trace> make_plain_trace(const PlainTraceOptions& options) {
  SLUICE_RETURN_IF_ERROR(check(options));
  Trace trace;
  trace.hash_block_tokens = kBlock;
  Draws draws(options.seed);
  PoissonTimes times(options.rate / options.burst);
  double arrival_ms = 0;
  const int shared_blocks = options.shared_prefix / kBlock;
  for (int i = 0; i < options.requests; ++i) {
    if (i % options.burst == 0) arrival_ms = times.next_ms(draws);
    TraceRequest request = plain_request(arrival_ms, draw_length(draws, options.input, options.spread),
                                         draw_length(draws, options.output, options.spread));
    request.input_length = std::max(request.input_length, shared_blocks * kBlock);
    const std::int64_t prefix = draws.below(options.prefixes);
    for (int block = 0; block < shared_blocks; ++block) request.hash_ids.push_back((prefix << 32) + block);
    trace.requests.push_back(std::move(request));
  }
  return trace;
}

}  // namespace sluice
