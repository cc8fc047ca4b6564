// CpuFeatures: the instructions that the kernels may use on this machine, and what is fast on it. This is the
// one detector: no other code asks the processor, and this set alone chooses the kernels (kernels/device/isa.h). Thread
// safety: constant values.
// Used by bench, cli/commands, engine, kernels/cpu and kernels/device.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "sluice/status.h"

namespace sluice {

enum class CpuFeature : std::uint8_t {
  kAvx2,               // AVX2, FMA, F16C, BMI2
  kAvxVnni,            // integer products of AVX2
  kAvx512,             // AVX-512 F, BW, DQ, VL, CD: Skylake and Cascade Lake servers
  kVnni,               // integer products of AVX-512
  kAvx512Vbmi,         // permutations of bytes: Ice Lake, Zen 4 and later
  kBf16Dot,            // AVX-512 BF16
  kAmx,                // AMX tiles and their integer products, if the system grants the process the tiles
  kAmxBf16,            // AMX's products of bf16 tiles
  kFastBf16Dot,        // the bf16 dot beats the f32 multiply-adds that give its bits: timed for a millisecond
  kReadsAhead,         // weights come faster from memory when prefetched, two tiles at once: Intel
  kScalesByExponents,  // scales cost less as integers added to exponents than as multiplications: AMD
  kEmulatedTiles       // bf16 products on tiles emulated in C++, for tests; never detected
};
inline constexpr int kCpuFeatures = 12;

class CpuFeatures {
 public:
  constexpr CpuFeatures() = default;
  constexpr CpuFeatures(std::initializer_list<CpuFeature> features) {
    for (const CpuFeature feature : features) bits_ |= bit(feature);
  }
  constexpr bool has(CpuFeature feature) const { return (bits_ & bit(feature)) != 0; }
  constexpr bool has_all(CpuFeatures features) const { return (features.bits_ & ~bits_) == 0; }
  constexpr CpuFeatures with(CpuFeature feature) const { return CpuFeatures(bits_ | bit(feature)); }
  // Returns the set without the feature and the features that build on it.
  CpuFeatures without(CpuFeature feature) const;
  // The best level of --isa: "avx512vbmi", "avx512", "avx2" or "scalar".
  const char* level() const;
  std::string text() const;  // the names, as in "avx2 avx512 vnni"
  friend constexpr bool operator==(CpuFeatures, CpuFeatures) = default;
  friend constexpr auto operator<=>(CpuFeatures, CpuFeatures) = default;

 private:
  constexpr explicit CpuFeatures(std::uint32_t bits) : bits_(bits) {}
  static constexpr std::uint32_t bit(CpuFeature feature) { return std::uint32_t{1} << static_cast<int>(feature); }

  std::uint32_t bits_ = 0;
};

// The name as in --kernels: "avx2", "vnni", "amx".
const char* name(CpuFeature feature);

// This machine's features, detected at the first call.
const CpuFeatures& cpu_features();

// Returns `features` changed by "-amx,-vnni,+reads_ahead". "-" removes a feature and all that build on it. "+" adds one
// of the last four: judgements that may be wrong, and tiles for tests. Instructions that the machine lacks cannot be
// added.
Result<CpuFeatures> changed_features(CpuFeatures features, std::string_view changes);

// The levels of --isa that this machine has, best first: "avx512vbmi, avx512, avx2, scalar".
std::string cpu_isas();

}  // namespace sluice
