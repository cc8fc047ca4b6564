#include "input_guard.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "fuzz_target.h"

// A function of the address sanitizer; null without it.
extern "C" std::size_t __sanitizer_get_current_allocated_bytes() __attribute__((weak));

// Every fault ends in abort(), so that one handler sees all of them.
extern "C" const char* __asan_default_options() {
  return "abort_on_error=1:handle_abort=0:allocator_may_return_null=0:max_allocation_size_mb=1024:"
         "hard_rss_limit_mb=2048:quarantine_size_mb=16:malloc_context_size=12:detect_leaks=1";
}
extern "C" const char* __ubsan_default_options() {
  return "abort_on_error=1:print_stacktrace=1";
}

namespace sluice {
namespace {

const char* target_name = "";
std::string_view running;  // the input
bool is_running = false;

void say(const char* text) {
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text, std::strlen(text));
}

// Async-signal-safe but for snprintf, which allocates nothing for these formats.
void write_input() {
  if (!is_running) return;
  is_running = false;
  const char* folder = std::getenv("SLUICE_FUZZ_FAILURES");
  std::array<char, 512> path;
  std::array<char, 640> message;
  std::snprintf(path.data(), path.size(), "%s%sfuzz-%s-%016zx.input", folder != nullptr ? folder : "",
                folder != nullptr ? "/" : "", target_name, hash_of(running));
  const int file = open(path.data(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  const bool wrote = file >= 0 && write(file, running.data(), running.size()) == static_cast<ssize_t>(running.size());
  if (file >= 0) close(file);
  std::snprintf(message.data(), message.size(), "fuzz_%s: the input that failed (%zu bytes) %s %s\n", target_name,
                running.size(), wrote ? "is in" : "could not be written to", path.data());
  say(message.data());
}

void on_fault(int number) {
  write_input();
  std::signal(number, SIG_DFL);
  std::raise(number);
}

void on_time_limit(int /*number*/) {
  say("fuzz: the input takes too long\n");
  std::abort();
}

// A stack of its own, so that the handler runs when the other has overflowed.
void handle(int number, void (*handler)(int)) {
  static std::array<char, 64 << 10> other_stack;
  stack_t stack = {};
  stack.ss_sp = other_stack.data();
  stack.ss_size = other_stack.size();
  if (__sanitizer_get_current_allocated_bytes == nullptr) sigaltstack(&stack, nullptr);
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  sigaction(number, &action, nullptr);
}

void set_timer(int seconds) {
  itimerval timer = {};
  timer.it_value.tv_sec = seconds;
  setitimer(ITIMER_VIRTUAL, &timer, nullptr);
}

}  // namespace

void guard_inputs(const char* name) {
  target_name = name;
  handle(SIGABRT, on_fault);
  handle(SIGVTALRM, on_time_limit);
  if (__sanitizer_get_current_allocated_bytes != nullptr) return;  // it handles faults itself and limits memory
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) handle(number, on_fault);
  const rlimit limit = {.rlim_cur = kInputMegabytes << 20, .rlim_max = kInputMegabytes << 20};
  setrlimit(RLIMIT_AS, &limit);
}

void run_guarded(void (*check)(std::string_view input), std::string_view input) {
  const auto copy = std::make_unique<char[]>(input.size());
  std::memcpy(copy.get(), input.data(), input.size());
  running = {copy.get(), input.size()};
  is_running = true;
  // The sanitizer's checks make some code fifty times slower, and it runs three times here.
  set_timer(__sanitizer_get_current_allocated_bytes == nullptr ? kInputSeconds : 6 * kInputSeconds);
  const auto allocated = [] {
    return __sanitizer_get_current_allocated_bytes == nullptr ? 0 : __sanitizer_get_current_allocated_bytes();
  };
  // Memory that is made once and kept (a table, a cache) is no leak: the third run leaves no more than the second.
  const std::size_t before = allocated();
  check(running);
  if (allocated() > before) {
    check(running);
    const std::size_t second = allocated();
    check(running);
    fuzz_expect(allocated() <= second, "the input leaves memory allocated");
  }
  set_timer(0);
  is_running = false;
}

}  // namespace sluice
