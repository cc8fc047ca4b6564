// Used by cache/pages, cli, model/packing, serve/generate and serve/guard.
#include "base/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"

namespace sluice {
namespace {

EVP_MD_CTX* context(void* pointer) {
  return static_cast<EVP_MD_CTX*>(pointer);
}

void must(int ok) {
  SLUICE_CHECK(ok == 1, "SHA-256 of bytes in memory cannot fail");
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new()), digest_(EVP_MD_fetch(nullptr, "SHA256", nullptr)) {
  SLUICE_CHECK(context_ != nullptr && digest_ != nullptr, "libcrypto has SHA-256");
  begin();
}

Sha256::~Sha256() {
  EVP_MD_CTX_free(context(context_));
  EVP_MD_free(static_cast<EVP_MD*>(digest_));
}

void Sha256::begin() {
  must(EVP_DigestInit_ex2(context(context_), static_cast<EVP_MD*>(digest_), nullptr));
}

void Sha256::add(const void* bytes, std::size_t count) {
  must(EVP_DigestUpdate(context(context_), bytes, count));
}

Sha256Digest Sha256::finish() {
  Sha256Digest digest;
  must(EVP_DigestFinal_ex(context(context_), digest.data(), nullptr));
  return digest;
}

std::string to_hex(const Sha256Digest& digest) {
  std::string text;
  for (const std::uint8_t byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

Result<std::string> sha256_of_file(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) return not_found(fmt::format("{}: cannot be opened ({})", path, std::strerror(errno)));
  Sha256 hasher;
  std::vector<char> buffer(1 << 18);
  for (;;) {
    const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), file.get());
    if (count == 0) break;
    hasher.add(buffer.data(), count);
  }
  if (std::ferror(file.get()) != 0) return unavailable(fmt::format("{}: cannot be read", path));
  return to_hex(hasher.finish());
}

}  // namespace sluice
