// A reader of untrusted bytes that is fuzzed, and the shared part of all eight programs fuzz_NAME. docs/dev/testing.md
// says how to use them.
//
// Each program defines fuzz_target(); fuzz_main.cc runs it on the files of tests/fuzz/NAME and on mutations of them. An
// input has failed when the check ends the program (fuzz_expect, SLUICE_CHECK, a sanitizer, a signal), takes longer
// than kInputSeconds of processor time (six times as many with a sanitizer), takes more memory than kInputBytes, or
// leaves memory allocated.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"

namespace sluice {

inline constexpr int kInputSeconds = 10;
inline constexpr std::size_t kInputMegabytes = 2048;

struct FuzzTarget {
  const char* name = "";
  std::vector<std::string> words = {};  // words of the format; mutations put them in
  // More inputs to begin with, below tests/: files, whose parts are separated by lines "====", and folders.
  std::vector<std::string> more_inputs = {};
  std::size_t max_bytes = std::size_t{16} << 10;  // the most of a mutation: long inputs are slow, and find little more
  // Must return, and do the same for the same input.
  void (*check)(std::string_view input) = nullptr;
};

FuzzTarget fuzz_target();

// Checks a rule that holds for every input.
inline void fuzz_expect(bool holds, std::string_view what) {
  SLUICE_CHECK(holds, what);
}

// A number that depends on nothing but the input, for checks that choose among things.
inline std::size_t hash_of(std::string_view input) {
  std::size_t hash = 14695981039346656037U;
  for (const char byte : input) hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211U;
  return hash;
}

}  // namespace sluice
