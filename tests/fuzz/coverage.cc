#include "coverage.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace sluice::coverage {
namespace {

constexpr int kBits = 18;
constexpr std::size_t kPlaces = std::size_t{1} << kBits;

bool is_recording = false;
std::array<std::uint8_t, kPlaces> hits;      // this input's hits
std::array<std::uint8_t, kPlaces> seen;      // a bit for each range of hits that some input had
std::array<std::uint32_t, kPlaces> reached;  // the places with hits
std::size_t reached_count = 0;
std::size_t features = 0;

// 0 for 1, 1 for 2, 2 for 3, then the powers of two.
int range_of(std::uint8_t count) {
  return count < 4 ? count - 1 : std::bit_width(count);
}

void record(std::uintptr_t address) {
  const std::size_t place = static_cast<std::uint64_t>(address) * 0x9E3779B97F4A7C15U >> (64 - kBits);
  if (hits[place] == 0) reached[reached_count++] = static_cast<std::uint32_t>(place);
  if (hits[place] < UINT8_MAX) ++hits[place];
}

}  // namespace

void start() {
  for (std::size_t i = 0; i < reached_count; ++i) hits[reached[i]] = 0;
  reached_count = 0;
  is_recording = true;
}

std::size_t stop() {
  is_recording = false;
  std::size_t found = 0;
  for (std::size_t i = 0; i < reached_count; ++i) {
    const auto bit = static_cast<std::uint8_t>(1U << std::min(7, range_of(hits[reached[i]])));
    if ((seen[reached[i]] & bit) != 0) continue;
    seen[reached[i]] |= bit;
    ++found;
  }
  features += found;
  return found;
}

std::size_t total() {
  return features;
}

}  // namespace sluice::coverage

extern "C" void __sanitizer_cov_trace_pc() {
  if (!sluice::coverage::is_recording) return;
  sluice::coverage::record(reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)));
}
