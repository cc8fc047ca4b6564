// Used by download.cc.
#include "hub/part_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace sluice {
namespace {

constexpr std::size_t kMostAhead = 8;  // chunks
constexpr std::size_t kReadBytes = 1 << 20;

EVP_MD_CTX* as_context(void* digest) {
  return static_cast<EVP_MD_CTX*>(digest);
}

void add_to(void* digest, std::string_view bytes) {
  SLUICE_CHECK(EVP_DigestUpdate(as_context(digest), bytes.data(), bytes.size()) == 1, "a digest of bytes cannot fail");
}

}  // namespace

PartFile::PartFile(std::string path, RepositoryFile wanted)
    : path_(std::move(path)), wanted_(std::move(wanted)), digest_(EVP_MD_CTX_new()) {
  SLUICE_CHECK(digest_ != nullptr, "libcrypto gives a context");
}

PartFile::~PartFile() {
  EVP_MD_CTX_free(as_context(digest_));
  if (fd_ >= 0) ::close(fd_);
}

Status PartFile::failure(std::string_view what) const {
  const int error = errno;
  return {error == ENOSPC || error == EDQUOT ? StatusCode::kResourceExhausted : StatusCode::kInvalidArgument,
          fmt::format("{}: cannot be {} ({})", path_, what, std::strerror(error))};
}

// Git names a file by the SHA-1 of a head and its bytes.
void PartFile::begin_digest() {
  const EVP_MD* kind = wanted_.is_sha256 ? EVP_sha256() : EVP_sha1();
  SLUICE_CHECK(EVP_DigestInit_ex(as_context(digest_), kind, nullptr) == 1, "libcrypto has SHA-1 and SHA-256");
  if (!wanted_.is_sha256) add_to(digest_, fmt::format("blob {}", wanted_.bytes) + '\0');
}

Status PartFile::start_anew() {
  begin_digest();
  written_ = 0;
  if (::ftruncate(fd_, 0) != 0 || ::lseek(fd_, 0, SEEK_SET) != 0) return failure("cut");
  return {};
}

Status PartFile::open() {
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  struct stat found{};
  if (fd_ < 0 || ::fstat(fd_, &found) != 0) return failure("opened");
  if (!S_ISREG(found.st_mode)) return invalid_argument(fmt::format("{}: expected a regular file", path_));
  begin_digest();
  if (static_cast<std::uint64_t>(found.st_size) > wanted_.bytes) return start_anew();
  std::string bytes(kReadBytes, '\0');
  for (;;) {
    const ssize_t got = ::read(fd_, bytes.data(), bytes.size());
    if (got < 0) return failure("read");
    if (got == 0) return {};
    add_to(digest_, std::string_view(bytes).substr(0, static_cast<std::size_t>(got)));
    written_ += static_cast<std::uint64_t>(got);
  }
}

std::uint64_t PartFile::written() const {
  const std::scoped_lock lock(mutex_);
  return written_;
}

void PartFile::plan(std::uint64_t chunk_bytes) {
  chunks_.clear();
  head_ = next_ = 0;
  abandoned_ = false;
  for (std::uint64_t at = written_; at < wanted_.bytes; at += chunk_bytes) {
    const std::uint64_t end = std::min(wanted_.bytes, at + chunk_bytes);
    chunks_.push_back({.chunk = {.index = chunks_.size(), .begin = at, .end = end}, .received = 0, .ahead = {}});
  }
}

std::optional<PartFile::Chunk> PartFile::take() {
  std::unique_lock lock(mutex_);
  advanced_.wait(lock, [this] { return abandoned_ || next_ == chunks_.size() || next_ < head_ + kMostAhead; });
  if (abandoned_ || next_ == chunks_.size()) return std::nullopt;
  return chunks_[next_++].chunk;
}

Status PartFile::write(std::string_view bytes) {
  add_to(digest_, bytes);
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return failure("written");
    bytes.remove_prefix(static_cast<std::size_t>(put));
    written_ += static_cast<std::uint64_t>(put);
  }
  return {};
}

Status PartFile::put(const Chunk& chunk, std::string_view bytes) {
  const std::scoped_lock lock(mutex_);
  State& state = chunks_[chunk.index];
  state.received += bytes.size();
  if (chunk.index != head_) {
    state.ahead += bytes;
    return {};
  }
  SLUICE_RETURN_IF_ERROR(write(bytes));
  while (written_ == chunks_[head_].chunk.end && ++head_ < chunks_.size()) {
    const std::string ahead = std::exchange(chunks_[head_].ahead, {});
    SLUICE_RETURN_IF_ERROR(write(ahead));
  }
  advanced_.notify_all();
  return {};
}

void PartFile::abandon() {
  const std::scoped_lock lock(mutex_);
  abandoned_ = true;
  advanced_.notify_all();
}

Status PartFile::finish() {
  if (written_ != wanted_.bytes) {
    return unavailable(fmt::format("{}: expected {} bytes, found {}", wanted_.path, wanted_.bytes, written_));
  }
  if (::fsync(fd_) != 0) return failure("written");
  std::array<unsigned char, EVP_MAX_MD_SIZE> value{};
  unsigned count = 0;
  SLUICE_CHECK(EVP_DigestFinal_ex(as_context(digest_), value.data(), &count) == 1, "a digest ends");
  std::string found;
  for (unsigned i = 0; i < count; ++i) found += fmt::format("{:02x}", value[i]);
  wrong_ = found != wanted_.digest;
  if (!wrong_) return {};
  return invalid_argument(fmt::format("{}: the bytes that came are not the file's: expected {} {}, found {}",
                                      wanted_.path, wanted_.is_sha256 ? "SHA-256" : "git's SHA-1", wanted_.digest,
                                      found));
}

}  // namespace sluice
