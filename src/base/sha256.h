// SHA-256, by OpenSSL's libcrypto. Thread safety: a hasher belongs to one thread at a time.
// Used by cache/pages, cli, model/packing, serve/generate and serve/guard.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "sluice/status.h"

namespace sluice {

using Sha256Digest = std::array<std::uint8_t, 32>;

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void begin();  // forgets earlier bytes
  void add(const void* bytes, std::size_t count);
  Sha256Digest finish();

 private:
  void* context_;
  void* digest_;
};

std::string to_hex(const Sha256Digest& digest);
// The digest of a file's bytes, in lower-case hexadecimal digits.
Result<std::string> sha256_of_file(const std::string& path);

}  // namespace sluice
