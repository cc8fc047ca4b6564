// Used by pack_cache.h and weight_packer.h.
#include "model/packing/packed_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/checksum.h"
#include "files/served_files.h"

namespace sluice {
namespace {

constexpr char kMagic[8] = {'S', 'L', 'U', 'I', 'C', 'E', 'P', 'K'};
constexpr std::uint64_t kVersion = 1;
// The packed bytes begin here, at a huge page.
constexpr std::size_t kPayload = std::size_t{2} << 20;
constexpr std::size_t kPart = PackedFileWriter::kPart;

struct Header {
  char magic[8];
  std::uint64_t version, payload, bytes, part;
  PackedKey key;
};
static_assert(sizeof(Header) == 72);

Header make_header(const PackedKey& key, std::size_t bytes) {
  Header header{.magic = {}, .version = kVersion, .payload = kPayload, .bytes = bytes, .part = kPart, .key = key};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  return header;
}

std::size_t parts_of(std::size_t bytes) {
  return (bytes + kPart - 1) / kPart;
}

// The checksums of the parts, then the one of these.
std::size_t table_bytes(std::size_t bytes) {
  return (parts_of(bytes) + 1) * sizeof(std::uint64_t);
}

Status damaged(const std::string& path, std::string_view what) {
  return invalid_argument(fmt::format("{}: {}", path, what));
}

// Returns a descriptor of the file of this name, with its lock; -1 if another process has the lock or the file was
// renamed.
int open_locked(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (fd < 0) return -1;
  struct stat locked{}, named{};
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0 && ::fstat(fd, &locked) == 0 && ::stat(path.c_str(), &named) == 0 &&
      locked.st_ino == named.st_ino && locked.st_dev == named.st_dev) {
    return fd;
  }
  ::close(fd);
  errno = EWOULDBLOCK;
  return -1;
}

}  // namespace

Result<PackedFile> PackedFile::open(const std::string& path, const PackedKey& key, std::size_t bytes, ThreadPool& pool,
                                    const std::function<void(std::size_t, std::size_t)>& progress) {
  PackedFile opened;
  SLUICE_ASSIGN_OR_RETURN(opened.file_, MappedFile::open(path));
  SLUICE_RETURN_IF_ERROR(opened.check_header(key, bytes));
  opened.bytes_ = bytes;
  SLUICE_RETURN_IF_ERROR(opened.check_bytes(pool, progress));
  return opened;
}

std::span<const std::byte> PackedFile::bytes() const {
  return file_.bytes().subspan(kPayload, bytes_);
}

std::function<bool()> PackedFile::comparison() const {
  const std::size_t bytes_used = bytes().size();
  if (bytes_used > ServedFiles::kComparedBytes) return {};
  std::vector<std::uint64_t> sums(parts_of(bytes_used));
  std::memcpy(sums.data(), file_.bytes().data() + kPayload + bytes_used, sums.size() * sizeof(sums[0]));
  return [file = file_.share(), bytes_used, sums = std::move(sums)] {
    const auto payload = file->bytes().subspan(kPayload, bytes_used);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (checksum(payload.subspan(i * kPart, std::min(kPart, bytes_used - i * kPart))) != sums[i]) return false;
    }
    return true;
  };
}

Status PackedFile::check_header(const PackedKey& key, std::size_t bytes) const {
  const auto file = file_.bytes();
  const std::size_t expected = kPayload + bytes + table_bytes(bytes);
  if (file.size() != expected) {
    return damaged(file_.path(), fmt::format("expected {} bytes, found {}", expected, file.size()));
  }
  const Header header = make_header(key, bytes);
  if (std::memcmp(file.data(), &header, sizeof(header)) != 0) return damaged(file_.path(), "expected another header");
  const auto table = file.subspan(kPayload + bytes);
  std::uint64_t of_table = 0;
  std::memcpy(&of_table, table.data() + table.size() - sizeof(of_table), sizeof(of_table));
  if (of_table == checksum(table.first(table.size() - sizeof(of_table)))) return {};
  return damaged(file_.path(), "its checksums are damaged");
}

Status PackedFile::check_bytes(ThreadPool& pool, const std::function<void(std::size_t, std::size_t)>& progress) const {
  const auto payload = bytes();
  const std::byte* table = file_.bytes().data() + kPayload + payload.size();
  const auto parts = static_cast<int>(parts_of(payload.size()));
  std::atomic<bool> ok{true};
  constexpr int kPartsBetweenReports = 32;
  for (int first = 0; first < parts && ok.load(); first += kPartsBetweenReports) {
    const int count = std::min(kPartsBetweenReports, parts - first);
    pool.run(count, [&](int tile, int) {
      const auto part = static_cast<std::size_t>(first + tile);
      const std::size_t size = std::min(kPart, payload.size() - part * kPart);
      file_.populate(kPayload + part * kPart, size);
      std::uint64_t right = 0;
      std::memcpy(&right, table + part * sizeof(right), sizeof(right));
      if (checksum(payload.subspan(part * kPart, size)) != right) ok.store(false);
    });
    if (progress) progress(std::min(payload.size(), static_cast<std::size_t>(first + count) * kPart), payload.size());
  }
  return ok.load() ? Status() : damaged(file_.path(), "its bytes are not those that were written");
}

Result<std::unique_ptr<PackedFileWriter>> PackedFileWriter::create(const std::string& making, const PackedKey& key,
                                                                   std::size_t bytes) {
  std::unique_ptr<PackedFileWriter> writer(new PackedFileWriter);
  writer->making_ = making;
  writer->bytes_ = bytes;
  const int fd = open_locked(making, O_CREAT);
  if (fd < 0 && errno == EWOULDBLOCK) return unavailable(fmt::format("{}: another start is writing it", making));
  if (fd < 0) return writer->failure();
  writer->fd_ = fd;
  if (::ftruncate(fd, 0) != 0) return writer->failure();
  // A file system that can already tell that there is no room reports it here.
  const auto size = static_cast<off_t>(kPayload + bytes + table_bytes(bytes));
  if (::fallocate(fd, 0, 0, size) != 0 && errno != EOPNOTSUPP && errno != ENOSYS) return writer->failure();
  const Header header = make_header(key, bytes);
  SLUICE_RETURN_IF_ERROR(writer->write_at(0, std::as_bytes(std::span(&header, 1))));
  return writer;
}

PackedFileWriter::~PackedFileWriter() {
  if (fd_ < 0) return;
  if (!making_.empty()) ::unlink(making_.c_str());
  ::close(fd_);
}

Status PackedFileWriter::write(std::span<const std::byte> part) {
  SLUICE_RETURN_IF_ERROR(write_at(kPayload + written_, part));
  checksums_.push_back(checksum(part));
  // Starts writing to the disk now, so that the wait at the end is short.
  ::sync_file_range(fd_, static_cast<off_t>(kPayload + written_), static_cast<off_t>(part.size()),
                    SYNC_FILE_RANGE_WRITE);
  written_ += part.size();
  return {};
}

Status PackedFileWriter::finish(const std::string& path) {
  const auto table = std::as_bytes(std::span(checksums_));
  checksums_.push_back(checksum(table));
  SLUICE_RETURN_IF_ERROR(write_at(kPayload + bytes_, std::as_bytes(std::span(checksums_))));
  if (::fsync(fd_) != 0 || std::rename(making_.c_str(), path.c_str()) != 0) return failure();
  making_.clear();
  const int folder = ::open(std::filesystem::path(path).parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    ::fsync(folder);
    ::close(folder);
  }
  return {};
}

Status PackedFileWriter::write_at(std::size_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failure();
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::size_t>(written);
  }
  return {};
}

Status PackedFileWriter::failure() const {
  return resource_exhausted(fmt::format("{}: cannot be written ({})", making_, std::strerror(errno)));
}

void remove_abandoned_packed_file(const std::string& making) {
  const int fd = open_locked(making, 0);
  if (fd < 0) return;
  ::unlink(making.c_str());
  ::close(fd);
}

}  // namespace sluice
