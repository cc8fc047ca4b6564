#include "cli/exit_code.h"

#include <fmt/format.h>

#include <cstdio>

#include "base/utf8.h"

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
  // fmt::print would throw where the disk is full.
  if (!status.ok()) std::fputs(fmt::format("sluice: error: {}\n", to_valid_utf8(status.message())).c_str(), stderr);
  return exit_code(status);
}

}  // namespace sluice
