// Used by many folders, among them cli, config and engine.
#include "base/storage/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/checksum.h"
#include "base/storage/file_form.h"

namespace sluice {
namespace {

// An open file descriptor, closed at the end of the scope.
struct Descriptor {
  explicit Descriptor(int number) : fd(number) {}
  int release() { return std::exchange(fd, -1); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  int fd;
};

Status open_failure(const std::string& path, int error) {
  if (error == ENOENT || error == ENOTDIR) {
    std::error_code no_link;
    const std::filesystem::path target = std::filesystem::read_symlink(path, no_link);
    if (no_link) return not_found(fmt::format("{}: no such file", path));
    return not_found(fmt::format("{}: no such file: it is a link to {}, which does not exist; was it downloaded whole?",
                                 path, target.string()));
  }
  return invalid_argument(fmt::format("{}: cannot be opened: {}", path, std::strerror(error)));
}

// The identity of a regular file. O_NONBLOCK at opening keeps a named pipe from blocking before it is refused here.
Result<FileIdentity> identify(int fd, const std::string& path) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) return open_failure(path, errno);
  if (S_ISDIR(info.st_mode)) return invalid_argument(fmt::format("{}: expected a file, found a folder", path));
  if (!S_ISREG(info.st_mode)) return invalid_argument(fmt::format("{}: expected a regular file", path));
  const auto nanoseconds = [](const timespec& time) {
    return std::int64_t{time.tv_sec} * 1'000'000'000 + std::int64_t{time.tv_nsec};
  };
  return FileIdentity{.inode = info.st_ino,
                      .bytes = static_cast<std::uint64_t>(info.st_size),
                      .modified = nanoseconds(info.st_mtim),
                      .changed = nanoseconds(info.st_ctim)};
}

}  // namespace

Result<FileIdentity> identify_file(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd < 0) return open_failure(path, errno);
  return identify(file.fd, path);
}

FileMapping::FileMapping(std::string path, int fd, const FileIdentity& identity, const std::byte* data)
    : path_(std::move(path)), fd_(fd), identity_(identity), data_(data) {
  if (data_ != nullptr) range_.emplace(data_, identity_.bytes, path_);
}

FileMapping::~FileMapping() {
  range_.reset();
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), identity_.bytes);
  ::close(fd_);
}

Result<FileIdentity> FileMapping::identity_now() const {
  return identify(fd_, path_);
}

// Two threads may compute this at once; they find the same value.
std::uint64_t FileMapping::content() const {
  if (knows_content_) return content_;
  content_ = checksum(bytes());
  knows_content_ = true;
  return content_;
}

std::optional<std::uint64_t> FileMapping::known_content() const {
  return knows_content_ ? std::optional(content_.load()) : std::nullopt;
}

Result<bool> path_exists(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) == 0) return true;
  const int error = errno;
  if (error == ENOENT || error == ENOTDIR) return false;
  return invalid_argument(fmt::format("{}: cannot be reached: {}", path, std::strerror(error)));
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd < 0) return open_failure(path, errno);
  SLUICE_ASSIGN_OR_RETURN(const FileIdentity identity, identify(file.fd, path));
  void* address = nullptr;  // null for an empty file, which mmap refuses
  if (identity.bytes > 0) address = ::mmap(nullptr, identity.bytes, PROT_READ, MAP_SHARED, file.fd, 0);
  if (address == MAP_FAILED) {
    return resource_exhausted(
        fmt::format("{}: cannot map {} bytes into memory: {}", path, identity.bytes, std::strerror(errno)));
  }
  MappedFile mapped;
  mapped.mapping_ =
      std::make_shared<const FileMapping>(path, file.release(), identity, static_cast<const std::byte*>(address));
  SLUICE_RETURN_IF_ERROR(check_no_lfs_pointer(path, {static_cast<const char*>(address), mapped.size()}, mapped.size()));
  return mapped;
}

void MappedFile::advise(std::size_t offset, std::size_t length, int advice) const {
  const auto all = bytes();
  if (offset >= all.size()) return;
  length = std::min(length, all.size() - offset);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t begin = offset / page * page;
  ::madvise(const_cast<std::byte*>(all.data()) + begin, offset - begin + length, advice);
}

void MappedFile::will_need(std::size_t offset, std::size_t length) const {
  advise(offset, length, MADV_WILLNEED);
}
void MappedFile::populate(std::size_t offset, std::size_t length) const {
#ifdef MADV_POPULATE_READ
  advise(offset, length, MADV_POPULATE_READ);
#else
  advise(offset, length, MADV_WILLNEED);
#endif
}
void MappedFile::sequential() const {
  advise(0, size(), MADV_SEQUENTIAL);
}
void MappedFile::random_access() const {
  advise(0, size(), MADV_RANDOM);
}
void MappedFile::dont_need(std::size_t offset, std::size_t length) const {
  advise(offset, length, MADV_DONTNEED);
}

Result<std::string> read_first_bytes(const std::string& path, std::size_t count) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd < 0) return open_failure(path, errno);
  SLUICE_ASSIGN_OR_RETURN(const FileIdentity identity, identify(file.fd, path));
  std::string bytes(std::min<std::uint64_t>(count, identity.bytes), '\0');
  const ssize_t got = ::pread(file.fd, bytes.data(), bytes.size(), 0);
  if (got < 0) return invalid_argument(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  bytes.resize(static_cast<std::size_t>(got));
  return bytes;
}

Result<std::string> read_text_file(const std::string& path, std::size_t max_bytes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd < 0) return open_failure(path, errno);
  SLUICE_ASSIGN_OR_RETURN(const FileIdentity identity, identify(file.fd, path));
  const std::size_t size = identity.bytes;
  if (size > max_bytes) {
    return invalid_argument(fmt::format("{}: expected at most {} bytes, found {}", path, max_bytes, size));
  }
  std::string text(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(file.fd, text.data() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return invalid_argument(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
    if (got == 0) break;  // the file was shortened meanwhile
    done += static_cast<std::size_t>(got);
  }
  text.resize(done);
  SLUICE_RETURN_IF_ERROR(check_no_lfs_pointer(path, text, done));
  return text;
}

}  // namespace sluice
