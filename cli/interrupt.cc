#include "cli/interrupt.h"

#include <csignal>

namespace sluice {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void on_interrupt(int /*signal*/) {
  interrupted = 1;
}

}  // namespace

void catch_interrupts() {
  struct sigaction action{};
  action.sa_handler = on_interrupt;  // without SA_RESTART
  sigaction(SIGINT, &action, nullptr);
}

bool take_interrupt() {
  if (interrupted == 0) return false;
  interrupted = 0;
  return true;
}

}  // namespace sluice
