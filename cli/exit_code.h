// Exit codes of the program, and how a failure is shown.
//   0  success
//   1  the task failed
//   2  wrong usage or bad input
//   3  resources: memory, disk, a limit, busy
// 130  interrupted
#pragma once

#include "sluice/status.h"

namespace sluice {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitResources = 3;
inline constexpr int kExitInterrupted = 130;  // 128 + SIGINT

int exit_code(const Status& status);

// Prints "sluice: error: <message>" on stderr; returns the exit code of the status. Nothing for ok.
int report(const Status& status);

}  // namespace sluice
