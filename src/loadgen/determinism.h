// Determinism check: the same requests alone, together, and together again in the other order. A server whose answers
// do not depend on what else it does gives the same text and the same log-probabilities, digit for digit, each time.
//
// Alone they are asked one at a time and unstreamed; together streamed, so that a stream's losses, duplicates and
// reorderings show against the whole text (loadgen/stream_faults.h). Thread safety: one thread.
// Used by cli/bench/bench_serve_command.cc.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "loadgen/load_run.h"
#include "loadgen/stream_faults.h"

namespace sluice {

struct DeterminismReport {
  int requests = 0;                   // compared requests: all three answers ended well
  int failed = 0;                     // requests of which one or more did not
  std::string failure;                // the failure of one of them
  int different_answers = 0;          // texts differ between any two of the three
  int different_logprobs = 0;         // requests with different log-probabilities
  bool logprobs_known = false;        // the server gave any
  StreamFaults faults;                // counts over streams whose text is not the whole one
  std::vector<std::size_t> examples;  // requests that differ, the first ten
  bool interrupted = false;

  bool same() const { return different_answers == 0 && different_logprobs == 0 && failed == 0 && !interrupted; }
};

// `concurrency`: of the second and third time. The trace's times are not used.
DeterminismReport check_determinism(HttpClient& client, LoadPlan& plan, BodyOptions body, LoadRunOptions options,
                                    int concurrency);
std::string to_text(const DeterminismReport& report);
boost::json::object to_json(const DeterminismReport& report);

}  // namespace sluice
