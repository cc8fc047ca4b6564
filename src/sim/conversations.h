// The workloads whose prompts have common beginnings: chat and reuse (sim/workload.h). Their hash ids stand for blocks
// of 128 tokens.
#pragma once

#include "sim/draws.h"
#include "sim/workload.h"

namespace sluice {

void make_chat_workload(const WorkloadOptions& options, Draws& draws, Trace& trace);
void make_reuse_workload(const WorkloadOptions& options, Draws& draws, Trace& trace);

}  // namespace sluice
