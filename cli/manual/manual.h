// Manual pages and shell completions, made from describe() (cli/manual/command_text.h).
#pragma once

#include <string>

#include "cli/manual/command_text.h"
#include "sluice/status.h"

namespace sluice {

// A page of section 1 in man's macros: sluice(1) for the program itself, sluice-serve(1) for its command `serve`.
std::string man_page(const CommandText& program, const CommandText& command);

// The script that teaches a shell the program's commands and flags. `shell`: bash, zsh or fish.
Result<std::string> shell_completion(const CommandText& program, const std::string& shell);

}  // namespace sluice
