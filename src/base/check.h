// SLUICE_CHECK: a broken invariant of our own code ends the program with file, line and a message.
// For anything that a user, a file or a client can cause, return a Status instead (sluice/status.h).
// Used by many folders, among them base, cache and config.
#pragma once

#include <string_view>

namespace sluice {

[[noreturn]] void check_failed(const char* file, int line, const char* condition, std::string_view message);

}  // namespace sluice

#define SLUICE_CHECK(condition, message)                               \
  do {                                                                 \
    if (!(condition)) [[unlikely]]                                     \
      ::sluice::check_failed(__FILE__, __LINE__, #condition, message); \
  } while (false)

// SLUICE_DCHECK: the same in debug and sanitizer builds only; for hot loops.
#ifdef NDEBUG
#define SLUICE_DCHECK(condition, message) static_cast<void>(0)
#else
#define SLUICE_DCHECK(condition, message) SLUICE_CHECK(condition, message)
#endif
