#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <ctime>
#include <fstream>
#include <sstream>

#include "base/threads/machine.h"
#include "bench/machine_probe.h"

namespace sluice {
namespace {

constexpr const char* kFeatures[] = {"avx2",       "fma",         "f16c",        "avx_vnni", "avx512f",  "avx512bw",
                                     "avx512vbmi", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16", "amx_int8"};

// The text after "key : " of the first processor in /proc/cpuinfo.
std::string cpu_entry(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || line.compare(0, key.size(), key) != 0) continue;
    if (line.find_first_not_of(" \t", key.size()) != colon) continue;
    return colon + 2 <= line.size() ? line.substr(colon + 2) : "";
  }
  return "";
}

}  // namespace

Fingerprint take_fingerprint() {
  Fingerprint f;
  f.cpu = cpu_entry("model name");
  f.cores = usable_cores();
  f.memory_bytes = usable_memory();
  std::istringstream flags(cpu_entry("flags"));
  for (std::string flag; flags >> flag;) {
    if (std::find(std::begin(kFeatures), std::end(kFeatures), flag) != std::end(kFeatures)) f.features.push_back(flag);
  }
  f.date = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  return f;
}

boost::json::object to_json(const Fingerprint& f) {
  boost::json::array features(f.features.begin(), f.features.end());
  return {{"cpu", f.cpu}, {"cores", f.cores}, {"memory_bytes", f.memory_bytes}, {"features", std::move(features)}};
}

}  // namespace sluice
