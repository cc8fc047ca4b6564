// What `sluice bench` says: a table, JSON and a picture. Thread safety: pure functions.
#pragma once

#include <boost/json/object.hpp>
#include <string>

#include "measure/rounds.h"

namespace sluice {

// With the machine's speed above it, and below it what did not count.
std::string to_text(const RoundsResult& result);

// {"read_gbytes", "f32_gflops", "bf16_gflops", "int8_gops"}
boost::json::object to_json(const MachineSpeed& speed);

// {"probes": .., "rows": [{"test", "depth", "tokens", "concurrency", "tokens_per_second", "bytes_per_token",
// "floor_tokens_per_second", "percent_of_floor", ...}]}; docs/benchmarks.md says what each is.
boost::json::object to_json(const RoundsResult& result);

// By kind of test: tokens a second beside the floor, and percent of it, as SVG.
std::string to_svg(const RoundsResult& result, const std::string& title);

}  // namespace sluice
