#include "kernels/cpu_features.h"

namespace sluice {

// The compiler's built-in checks that the operating system saves the registers, too.
bool cpu_has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
         __builtin_cpu_supports("bmi2");
}

bool cpu_has_avx512() {
  return cpu_has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
}

bool cpu_has_avx512vbmi() {
  return cpu_has_avx512() && __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni");
}

std::string cpu_isas() {
  std::string isas;
  if (cpu_has_avx512vbmi()) isas += "avx512vbmi, ";
  if (cpu_has_avx512()) isas += "avx512, ";
  if (cpu_has_avx2()) isas += "avx2, ";
  return isas + "scalar";
}

}  // namespace sluice
