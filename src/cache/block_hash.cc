#include "cache/block_hash.h"

#include <openssl/evp.h>

#include "base/check.h"

namespace sluice {
namespace {

// One context per thread: making one costs more than hashing a block.
class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()), digest_(EVP_MD_fetch(nullptr, "SHA256", nullptr)) {
    SLUICE_CHECK(context_ != nullptr && digest_ != nullptr, "libcrypto has SHA-256");
  }
  ~Sha256() {
    EVP_MD_CTX_free(context_);
    EVP_MD_free(digest_);
  }
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void begin() { check(EVP_DigestInit_ex2(context_, digest_, nullptr)); }
  void add(const void* bytes, std::size_t count) { check(EVP_DigestUpdate(context_, bytes, count)); }
  BlockHash finish() {
    BlockHash hash;
    check(EVP_DigestFinal_ex(context_, hash.bytes.data(), nullptr));
    return hash;
  }

 private:
  static void check(int ok) { SLUICE_CHECK(ok == 1, "SHA-256 of bytes in memory cannot fail"); }

  EVP_MD_CTX* context_;
  EVP_MD* digest_;
};

Sha256& sha256() {
  thread_local Sha256 instance;
  instance.begin();
  return instance;
}

// The length goes first, so that no two lists of parts run into each other.
void add_part(Sha256& sha, std::string_view part) {
  const auto size = static_cast<std::uint64_t>(part.size());
  sha.add(&size, sizeof(size));
  sha.add(part.data(), part.size());
}

}  // namespace

BlockHash root_hash(std::string_view profile, std::string_view cache_salt) {
  Sha256& sha = sha256();
  add_part(sha, "sluice block chain 1");
  add_part(sha, profile);
  add_part(sha, cache_salt);
  return sha.finish();
}

BlockHash child_hash(const BlockHash& parent, std::span<const TokenId> tokens) {
  SLUICE_DCHECK(tokens.size() == static_cast<std::size_t>(kBlockTokens), "a block has 128 tokens");
  Sha256& sha = sha256();
  sha.add(parent.bytes.data(), parent.bytes.size());
  sha.add(tokens.data(), tokens.size_bytes());
  return sha.finish();
}

}  // namespace sluice
