// Writes the records of an engine's steps in the forms that other programs read. They have lengths, block ids and
// times; no text. Thread safety: functions of their arguments.
// Used by serve/observe and telemetry.
#pragma once

#include <string>
#include <vector>

#include "sluice/step_record.h"

namespace sluice {

// A trace for `sluice simulate --trace --hash-block-tokens 128` (sim/trace.h): a line for each sequence that arrived or
// was forked in the records, in that order, with the step. A sequence that had not ended answers as much as it was
// allowed to. Sequences that arrived before the first record are not in it.
std::string trace_lines(const std::vector<StepRecord>& records);

// Trace events in the JSON form of Chrome's tracing, which Perfetto opens: a track for the steps, one for each sequence
// with its waits and spans, and counters of rows and pages.
std::string chrome_trace(const std::vector<StepRecord>& records);

// The records for the page: compact arrays, as documented in docs/server.md.
std::string steps_json(const std::vector<StepRecord>& records);
std::string snapshot_json(const EngineSnapshot& snapshot);

const char* name_of(WaitReason reason);

}  // namespace sluice
