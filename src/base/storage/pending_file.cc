// Used by files/gguf/gguf_writer.cc and files/safetensors_writer.cc.
#include "base/storage/pending_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace sluice {

Result<PendingFile> PendingFile::create(const std::string& path) {
  PendingFile file;
  file.path_ = path;
  struct stat there{};
  if (::stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    file.fd_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);  // fails for a folder
    if (file.fd_ < 0) return file.failure("written");
    return file;
  }
  file.temporary_ = fmt::format("{}.{}.tmp", path, ::getpid());
  file.fd_ = ::open(file.temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file.fd_ < 0) return file.failure("created");
  return file;
}

PendingFile::PendingFile(PendingFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      fd_(std::exchange(other.fd_, -1)) {}

PendingFile::~PendingFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status PendingFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failure("written");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Status PendingFile::finish() {
  const int fd = std::exchange(fd_, -1);
  const bool closed = ::close(fd) == 0;
  if (closed && (temporary_.empty() || std::rename(temporary_.c_str(), path_.c_str()) == 0)) return {};
  Status status = failure("completed");
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  return status;
}

Status PendingFile::failure(std::string_view verb) const {
  const int error = errno;
  std::string message = fmt::format("{}: cannot be {}: {}", path_, verb, std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) return resource_exhausted(std::move(message));
  return invalid_argument(std::move(message));
}

}  // namespace sluice
