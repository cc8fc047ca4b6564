// Trace: a list of requests with their times of arrival and lengths, recorded or synthetic (sim/workload.h), and the
// tokens that stand for them.
//
// A recorded trace is a file of JSON lines in the form of the traces that Mooncake published (Qin et al., "Mooncake",
// FAST 2025):
//   {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 48, ...]}
//   timestamp      milliseconds, not descending
//   hash_ids       optional: one id for each block of `hash_block_tokens` tokens, in order; equal ids are equal blocks.
//                  Ids beyond the prompt's last block name the blocks that the answer will fill. Blocks without an id
//                  are like no other.
// with keys of our own, all optional:
//   after          the number (from 0) of an earlier line; then `timestamp` counts from the end of that request
//   message_starts positions in the prompt where a message begins, ascending
//   priority       as in the API
//   step           the number of the step before which it arrives, for replays by steps (SimulationOptions::by_steps)
//   max_tokens     what it asked for, which may be more than output_length
//   fork_of        the number of an earlier line with the same prompt, from which it forks at the end of that step
//   end_step       the step before which it is cancelled
//   pauses         pairs of numbers: the step before which it pauses, goes on, pauses ..., and the place of that among
//                  all that happens before the step
// Other keys are ignored. Thread safety: plain values.
// Used by loadgen and sim.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/index_types.h"
#include "sluice/status.h"

namespace sluice {

struct TraceRequest {
  double arrival_ms = 0;  // a follower's counts from the end of `after`
  int input_length = 1, output_length = 1;
  int after = -1;  // index of a request that has to end first; -1: none
  int priority = 0;
  int step = -1, max_tokens = 0, fork_of = -1, end_step = -1;  // -1, 0: not given
  std::vector<std::int64_t> hash_ids;
  std::vector<Position> message_starts;
  std::vector<int> pauses;
};

inline TraceRequest plain_request(double arrival_ms, int input, int output) {
  TraceRequest request;
  request.arrival_ms = arrival_ms;
  request.input_length = input;
  request.output_length = output;
  return request;
}

struct Trace {
  int hash_block_tokens = 512;
  std::vector<TraceRequest> requests;
};

// Errors name the line: "trace.jsonl line 3: key 'input_length': expected an integer from 1 to ..., found 0".
Result<Trace> parse_trace(std::string_view text, const std::string& what, int hash_block_tokens);
Result<Trace> read_trace(const std::string& path, int hash_block_tokens);

// Token ids that stand for a trace's requests: position p of a request depends on the id of its block and p's place in
// it, or on the request alone where there is no id. Ids are in [0, kTraceVocab).
inline constexpr int kTraceVocab = 4096;
TokenId trace_token(const Trace& trace, std::size_t request, Position position);
std::vector<TokenId> trace_prompt(const Trace& trace, std::size_t request);

}  // namespace sluice
