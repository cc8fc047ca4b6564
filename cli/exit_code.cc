#include "cli/exit_code.h"

#include <fmt/format.h>

#include <cstdio>

namespace sluice {

int exit_code(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return kExitOk;
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotFound:
      return kExitUsage;
    case StatusCode::kResourceExhausted:
    case StatusCode::kUnavailable:
      return kExitResources;
    case StatusCode::kCancelled:
      return kExitInterrupted;
    case StatusCode::kInternal:
      return kExitFailed;
  }
  return kExitFailed;
}

int report(const Status& status) {
  if (!status.ok()) fmt::print(stderr, "sluice: error: {}\n", status.message());
  return exit_code(status);
}

}  // namespace sluice
