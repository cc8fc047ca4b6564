// WordScale: how many tokens the invented words of prompts are for a server's tokenizer. It is measured at the server
// itself, by two short requests for one token each, from its usage.
// Used by cli/bench/bench_serve_command.cc.
#pragma once

#include "loadgen/load_run.h"

namespace sluice {

// Fails if the server does not answer or reports no usage: then prompts' lengths cannot be chosen. `options`: its key
// and its interrupts count.
Result<WordScale> measure_word_scale(HttpClient& client, const BodyOptions& body, LoadRunOptions options);

}  // namespace sluice
