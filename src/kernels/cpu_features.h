// Which instruction sets the kernels may use on this machine.
#pragma once

#include <string>

namespace sluice {

bool cpu_has_avx2();        // AVX2, FMA, F16C, BMI2
bool cpu_has_avx512();      // the above and AVX-512 F, BW, DQ, VL, CD: Skylake and Cascade Lake servers
bool cpu_has_avx512vbmi();  // the above and AVX-512 VBMI, VNNI: Ice Lake, Zen 4 and later

// The kernel ISAs that this machine has, best first: "avx512vbmi, avx512, avx2, scalar".
std::string cpu_isas();

}  // namespace sluice
