// Which places of the fuzzed code an input reaches, and about how often. In builds with the address sanitizer every
// basic block of src/files, config, jinja and text calls here (-fsanitize-coverage=trace-pc); in others nothing is ever
// recorded. Thread safety: none; one thread records.
#pragma once

#include <cstddef>

namespace sluice::coverage {

// Forgets the last input and records the next.
void start();
// Stops recording; how many features (a place reached once, twice, 3, 4-7, 8-15, ... times) no earlier input had.
std::size_t stop();
// Features found by all inputs.
std::size_t total();

}  // namespace sluice::coverage
