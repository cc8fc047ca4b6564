// Ctrl-C as a flag that a command checks, instead of the end of the program.
#pragma once

#include <csignal>

namespace sluice {

// From now on SIGINT sets the flag; system calls that wait (read) end early.
void catch_interrupts();
// Returns whether SIGINT came since the last call; clears the flag.
bool take_interrupt();

// While it lives, SIGINT and SIGTERM set the flag; then they do again what they did before.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  struct sigaction before_int_{}, before_term_{};
};

}  // namespace sluice
