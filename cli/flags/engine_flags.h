// The flags that every command with a model has: one for each field of EngineSetup.
#pragma once

#include <string>

#include "model/engine_setup.h"

namespace CLI {
class App;
}

namespace sluice {

struct ChatEncodingOptions;

// The help of --kernels, here and of `sluice kernels`.
inline constexpr const char* kKernelsHelp =
    "Leaves out what the processor has, -amx,-vnni, or corrects what it is taken to be fast at (see `sluice kernels`)";

void add_log_level_flag(CLI::App& command, std::string& log_level);
// Also the positional MODEL and --log-level.
void add_engine_flags(CLI::App& command, EngineSetup& options, std::string& log_level);

// Adds the flags that say how conversations are written and answers parsed, if not as the model says.
void add_chat_flags(CLI::App& command, ChatEncodingOptions& options);

}  // namespace sluice
