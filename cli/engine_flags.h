// The flags that every command with a model has: one for each field of EngineOptions.
#pragma once

#include <string>

#include "sluice/engine.h"

namespace CLI {
class App;
}

namespace sluice {

void add_log_level_flag(CLI::App& command, std::string& log_level);
// Also the positional MODEL and --log-level.
void add_engine_flags(CLI::App& command, EngineOptions& options, std::string& log_level);

}  // namespace sluice
