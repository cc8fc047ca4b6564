// Fingerprint: the machine on which something was measured, without anything that identifies it.
#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <string>
#include <vector>

namespace sluice {

struct Fingerprint {
  std::string cpu;                    // "AMD EPYC", as the system calls it
  int cores = 0;                      // that this process may use
  std::size_t memory_bytes = 0;       // likewise
  std::vector<std::string> features;  // of those that kernels may use: "avx512_vnni"
  std::string date;                   // UTC, "2026-11-21T22:13:45Z"
};

Fingerprint take_fingerprint();
boost::json::object to_json(const Fingerprint& fingerprint);

}  // namespace sluice
