// The limits of an input: on time and memory, and, when the program ends while it runs, the input in a file. Thread
// safety: none; one input at a time.
#pragma once

#include <string_view>

namespace sluice {

// Installs the limits and the signal handlers; `name` goes into the names of files.
void guard_inputs(const char* name);

// Runs the check on a copy of the input that ends where its memory ends. Ends the program if the input fails.
void run_guarded(void (*check)(std::string_view input), std::string_view input);

}  // namespace sluice
