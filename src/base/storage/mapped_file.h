// MappedFile: a whole file mapped read-only into memory.
//
// share() hands the mapping to other owners; spans into it live as long as one owner does (moving an owner keeps them
// valid). The pages are those of the kernel's file cache, so a mapped model costs memory only once. A program that
// writes into the file changes the bytes here: replace model files by renaming, never in place. If it cuts the file,
// reading past the end raises SIGBUS, and base/storage/mapping_guard.h then supplies zeros.
// Thread safety: a const object may be read from any thread.
// Used by many folders, among them cli, config and engine.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/storage/mapping_guard.h"
#include "sluice/status.h"

namespace sluice {

// The identity of a file and its version. Times are in nanoseconds; programs cannot set `changed` (ctime) back.
struct FileIdentity {
  std::uint64_t inode = 0, bytes = 0;
  std::int64_t modified = 0, changed = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};
Result<FileIdentity> identify_file(const std::string& path);

// Returns whether there is a file or folder of this name. If the system does not tell, the error says why: above all
// "Permission denied".
Result<bool> path_exists(const std::string& path);

// The mapping, and the file itself, which stays open so that its later state can be read.
class FileMapping {
 public:
  // Takes ownership of the descriptor. `data` is the result of mmap() for identity.bytes; null if there are none.
  FileMapping(std::string path, int fd, const FileIdentity& identity, const std::byte* data);
  ~FileMapping();
  FileMapping(const FileMapping&) = delete;
  FileMapping& operator=(const FileMapping&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, data_ == nullptr ? 0 : identity_.bytes}; }
  const FileIdentity& identity() const { return identity_; }  // as it was when the file was opened
  int descriptor() const { return fd_; }
  Result<FileIdentity> identity_now() const;
  // True if bytes of it could not be read: since then all of them are zeros.
  bool lost() const { return range_.has_value() && range_->lost(); }

  // The checksum of all bytes, which are read the first time only. known_content() is nothing if it has never been
  // computed.
  std::uint64_t content() const;
  std::optional<std::uint64_t> known_content() const;

 private:
  const std::string path_;
  const int fd_;
  const FileIdentity identity_;
  const std::byte* const data_;
  std::optional<GuardedRange> range_;
  mutable std::atomic<std::uint64_t> content_{0};
  mutable std::atomic<bool> knows_content_{false};
};

class MappedFile {
 public:
  // Fails with kNotFound when the file is missing, and with kInvalidArgument when it is not a readable regular file, or
  // a git-lfs pointer.
  // An empty file is fine and gives an empty span.
  static Result<MappedFile> open(const std::string& path);

  MappedFile() = default;  // no file, no bytes
  MappedFile(MappedFile&&) = default;
  MappedFile& operator=(MappedFile&&) = default;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return mapping_->path(); }
  std::size_t size() const { return bytes().size(); }
  std::span<const std::byte> bytes() const {
    return mapping_ != nullptr ? mapping_->bytes() : std::span<const std::byte>();
  }
  // The identity that the file had when it was opened.
  const FileIdentity& identity() const { return mapping_->identity(); }
  const std::shared_ptr<const FileMapping>& share() const { return mapping_; }

  // Hints to the kernel about [offset, offset + length); they never fail and change no result.
  void will_need(std::size_t offset, std::size_t length) const;  // start reading ahead
  void populate(std::size_t offset, std::size_t length) const;   // read now, and make every page of it accessible
  void sequential() const;                                       // read once, front to back
  void random_access() const;                                    // no read-ahead: rows of a table picked by index
  void dont_need(std::size_t offset, std::size_t length) const;  // the pages were copied and may be dropped

 private:
  void advise(std::size_t offset, std::size_t length, int advice) const;

  std::shared_ptr<const FileMapping> mapping_;
};

// The first `count` bytes of a regular file, or fewer if it has no more.
Result<std::string> read_first_bytes(const std::string& path, std::size_t count);

// The content of a small text file (a config, a template); refuses more than `max_bytes`.
Result<std::string> read_text_file(const std::string& path, std::size_t max_bytes = std::size_t{256} << 20);

}  // namespace sluice
