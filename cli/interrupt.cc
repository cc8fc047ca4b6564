#include "cli/interrupt.h"

namespace sluice {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void on_interrupt(int /*signal*/) {
  interrupted = 1;
}

void catch_signal(int signal, struct sigaction* before) {
  struct sigaction action{};
  action.sa_handler = on_interrupt;  // no SA_RESTART: a blocked read must return
  sigaction(signal, &action, before);
}

}  // namespace

void catch_interrupts() {
  catch_signal(SIGINT, nullptr);
}

bool take_interrupt() {
  if (interrupted == 0) return false;
  interrupted = 0;
  return true;
}

InterruptScope::InterruptScope() {
  catch_signal(SIGINT, &before_int_);
  catch_signal(SIGTERM, &before_term_);
}

InterruptScope::~InterruptScope() {
  sigaction(SIGINT, &before_int_, nullptr);
  sigaction(SIGTERM, &before_term_, nullptr);
}

}  // namespace sluice
