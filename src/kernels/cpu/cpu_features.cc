#include "kernels/device/cpu_features.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include "kernels/cpu/avx512_bf16/dot_speed.h"

namespace sluice {
namespace {

struct Known {
  CpuFeature feature;
  const char* name;
  CpuFeatures builds_on;
  bool judgement = false;
};

using enum CpuFeature;
constexpr std::array<Known, kCpuFeatures> kKnown{{
    {kAvx2, "avx2", {}},
    {kAvxVnni, "avx_vnni", {kAvx2}},
    {kAvx512, "avx512", {kAvx2}},
    {kVnni, "vnni", {kAvx512}},
    {kAvx512Vbmi, "avx512vbmi", {kAvx512}},
    {kBf16Dot, "bf16_dot", {kAvx512Vbmi}},
    {kAmx, "amx", {kVnni, kAvx512Vbmi}},
    {kAmxBf16, "amx_bf16", {kAmx}},
    {kFastBf16Dot, "fast_bf16_dot", {kBf16Dot}, true},
    {kReadsAhead, "reads_ahead", {kAvx512}, true},
    {kScalesByExponents, "scales_by_exponents", {kVnni}, true},
    {kEmulatedTiles, "emulated_tiles", {kAvx512Vbmi}, true},
}};

bool has_amx_bf16() {
  constexpr unsigned kBf16 = 1U << 22;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & kBf16) != 0;
}

// The operating system gives a process the tiles' registers when it asks for them.
bool has_amx() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr unsigned kTile = 1U << 24, kInt8 = 1U << 25;
  if ((edx & kTile) == 0 || (edx & kInt8) == 0) return false;
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// The compiler's built-in function checks that the operating system saves the registers, too.
bool processor_has(CpuFeature feature) {
  switch (feature) {
    case kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
             __builtin_cpu_supports("bmi2");
    case kAvxVnni:
      return __builtin_cpu_supports("avxvnni") != 0;
    case kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512cd");
    case kVnni:
      return __builtin_cpu_supports("avx512vnni") != 0;
    case kAvx512Vbmi:
      return __builtin_cpu_supports("avx512vbmi") != 0;
    case kBf16Dot:
      return __builtin_cpu_supports("avx512bf16") != 0;
    case kAmx:
      return has_amx();
    case kAmxBf16:
      return has_amx_bf16();
    case kFastBf16Dot:
      return cpu::avx512_bf16::dot_is_fast();
    case kReadsAhead:
      return __builtin_cpu_is("intel") != 0;
    case kScalesByExponents:
      return __builtin_cpu_is("amd") != 0;
    case kEmulatedTiles:
      return false;
  }
  return false;
}

}  // namespace

CpuFeatures CpuFeatures::without(CpuFeature feature) const {
  CpuFeatures left;
  for (const Known& known : kKnown) {  // kKnown lists a feature after those that it builds on
    if (known.feature != feature && has(known.feature) && left.has_all(known.builds_on))
      left = left.with(known.feature);
  }
  return left;
}

const char* CpuFeatures::level() const {
  return has(kAvx512Vbmi) ? "avx512vbmi" : has(kAvx512) ? "avx512" : has(kAvx2) ? "avx2" : "scalar";
}

std::string CpuFeatures::text() const {
  std::string text;
  for (const Known& known : kKnown) {
    if (has(known.feature)) text += (text.empty() ? "" : " ") + std::string(known.name);
  }
  return text;
}

const char* name(CpuFeature feature) {
  return kKnown[static_cast<std::size_t>(feature)].name;
}

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = [] {
    CpuFeatures found;
    for (const Known& known : kKnown) {
      if (found.has_all(known.builds_on) && processor_has(known.feature)) found = found.with(known.feature);
    }
    return found;
  }();
  return features;
}

Result<CpuFeatures> changed_features(CpuFeatures features, std::string_view changes) {
  while (!changes.empty()) {
    const std::string change(changes.substr(0, changes.find(',')));
    changes.remove_prefix(std::min(changes.size(), change.size() + 1));
    const std::string wrong = "--kernels " + change + ": ";
    const Known* found = nullptr;
    std::string names;
    for (const Known& known : kKnown) {
      names += (names.empty() ? "" : ", ") + std::string(known.name);
      if (change.size() > 1 && change.substr(1) == known.name) found = &known;
    }
    if (found == nullptr || (change[0] != '-' && change[0] != '+')) {
      return invalid_argument(wrong + "expected - or + and one of " + names);
    }
    if (change[0] == '-') {
      features = features.without(found->feature);
    } else if (found->judgement && features.has_all(found->builds_on)) {
      features = features.with(found->feature);
    } else if (!features.has(found->feature)) {
      return invalid_argument(wrong + "this machine, as restricted, has " + features.text());
    }
  }
  return features;
}

std::string cpu_isas() {
  std::string isas;
  for (const CpuFeature level : {kAvx512Vbmi, kAvx512, kAvx2}) {
    if (cpu_features().has(level)) isas += name(level) + std::string(", ");
  }
  return isas + "scalar";
}

}  // namespace sluice
