// The seed of a property test: a fresh one each time, or the one in SLUICE_TEST_SEED, to run a failure again.
// Its user prints it: SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed).
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>

namespace sluice {

inline std::uint32_t test_seed() {
  const char* given = std::getenv("SLUICE_TEST_SEED");
  return given != nullptr ? static_cast<std::uint32_t>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
}

}  // namespace sluice
