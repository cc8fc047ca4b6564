// A plain trace for a load generator: independent requests of fixed or random lengths, with shared beginnings if
// wanted, arriving as a Poisson process or in bursts. The same options give the same trace on every machine. Thread
// safety: pure functions.
// Used by cli/bench/bench_serve_command.h.
#pragma once

#include "sim/trace.h"
#include "sluice/status.h"

namespace sluice {

struct PlainTraceOptions {
  int requests = 100;
  int input = 512, output = 128;  // mean lengths
  double spread = 0;              // lengths are uniform in mean * [1 - spread, 1 + spread]; below 1
  int shared_prefix = 0;          // tokens at the beginning that requests have in common; a multiple of 16 is used
  int prefixes = 1;               // different ones, drawn for each request
  double rate = 1;                // requests a second
  int burst = 1;                  // requests that arrive together; bursts come at rate / burst
  std::uint64_t seed = 0;
};

// Fails for numbers out of range.
Result<Trace> make_plain_trace(const PlainTraceOptions& options);

}  // namespace sluice
