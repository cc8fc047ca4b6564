// sluice verify: tries the laws on the user's own model and machine, and reports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/engine_setup.h"

namespace sluice {

struct VerifyCommandOptions {
  EngineSetup engine;         // model.folder as given; "": the embedded model
  std::string half = "both";  // both | rows | scheduling | moves
  int schedules = 100;
  std::optional<std::uint64_t> seed;  // by default a fresh one, which is printed
  std::string json;                   // "": no file
};

// Exit code 0 if nothing differs, 1 if something does.
int run_verify(const VerifyCommandOptions& options);

}  // namespace sluice
