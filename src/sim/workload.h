// Synthetic traces. The same options give the same trace on every machine: Philox for the draws, and exp and log as
// fixed sequences of operations.
//
//   default  independent requests; lengths exponential with means of 512 (prompt) and 128 (answer)
//   chat     conversations: 24 system prompts of 300 to 4,300 tokens, some much more popular than others; 1 to 40 turns
//            (mean 6); messages of 90 and answers of 220 tokens in the mean; 15 s between an answer and the next
//            message. A turn's prompt is all that went before it. Messages' beginnings are marked.
//   reuse    all the ways in which prompts share beginnings: 60 % of the arrivals are conversations as in chat, where
//            after a turn 12 % ask for another answer and 8 % change their last message; 25 % ask some questions (mean
//            3) on one of 16 documents of 6,000 to 40,000 tokens, as plain text without marks; 15 % continue one of 32
//            templates of 1,024 to 4,096 tokens, which is computed alone, as a whole number of blocks, before its
//            first use
//   mixed    95 % short requests (mean 128 / 64) and 5 % long ones (mean 24,000 / 256, exponential above 8,000)
//   bulk     equal requests of 8,192 / 1,024 tokens, all there at once: meant for a fixed concurrency
//   behind-long   chats of 101 / 32 tokens, and every 240 s one prompt of 600,000 tokens
// Requests (in chat and reuse: conversations, series of questions) arrive as a Poisson process of `rate` a second.
// Used by cli/bench/bench_serve_command.cc, cli/commands/simulate_command.h, cli/flags/bench_flags.cc and
// conversations.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/draws.h"
#include "sim/trace.h"
#include "sluice/status.h"

namespace sluice {

struct WorkloadOptions {
  std::string name = "default";
  int requests = 10000;
  double rate = 1;                      // > 0
  int mean_input = 0, mean_output = 0;  // 0: the workload's own. Only for default, and for bulk's equal requests
  std::uint64_t seed = 0;
};

std::vector<std::string> workload_names();

// Fails for an unknown name and for numbers out of range.
Result<Trace> make_workload(const WorkloadOptions& options);

// The workloads whose prompts have common beginnings: chat and reuse. Their hash ids stand for blocks of
// 128 tokens.

void make_chat_workload(const WorkloadOptions& options, Draws& draws, Trace& trace);
void make_reuse_workload(const WorkloadOptions& options, Draws& draws, Trace& trace);

}  // namespace sluice
