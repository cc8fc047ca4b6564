// Ctrl-C as a flag that a command looks at, instead of the end of the program.
#pragma once

namespace sluice {

// From now on SIGINT sets the flag; system calls that wait (read) end early.
void catch_interrupts();
// Whether SIGINT came since the last call; clears the flag.
bool take_interrupt();

}  // namespace sluice
