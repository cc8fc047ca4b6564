// MappedFile: a whole file mapped read-only into memory.
//
// Owns the mapping; spans into it live as long as the object does (moving it keeps them valid). The pages are shared
// with the kernel's file cache, so that a mapped model costs memory only once. A file that another program shortens
// while it is mapped raises SIGBUS on access, as with every mapping: replace model files by renaming, never in place.
// Thread safety: a const object may be read from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "sluice/status.h"

namespace sluice {

// What identifies a file and its version. Times in nanoseconds; programs cannot set `changed` (ctime) back.
struct FileIdentity {
  std::uint64_t inode = 0, bytes = 0;
  std::int64_t modified = 0, changed = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};
Result<FileIdentity> identify_file(const std::string& path);

// Whether there is a file or folder of this name. An error, which says why, where the system does not tell: above all
// "Permission denied".
Result<bool> path_exists(const std::string& path);

class MappedFile {
 public:
  // Fails with kNotFound when the file is missing, and with kInvalidArgument when it is not a readable regular file, or
  // a git-lfs pointer.
  // An empty file is fine and gives an empty span.
  static Result<MappedFile> open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::size_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // As it was when the file was opened.
  const FileIdentity& identity() const { return identity_; }

  // Hints to the kernel about [offset, offset + length); they never fail and change no result.
  void will_need(std::size_t offset, std::size_t length) const;  // start reading ahead
  void populate(std::size_t offset, std::size_t length) const;   // read now, and make every page of it accessible
  void sequential() const;                                       // read once, front to back
  void random_access() const;                                    // no read-ahead: rows of a table picked by index
  void dont_need(std::size_t offset, std::size_t length) const;  // the pages were copied and may be dropped

 private:
  void advise(std::size_t offset, std::size_t length, int advice) const;

  std::string path_;
  FileIdentity identity_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// The first `count` bytes of a regular file, or fewer if it has no more.
Result<std::string> read_first_bytes(const std::string& path, std::size_t count);

// The content of a small text file (a config, a template); refuses more than `max_bytes`.
Result<std::string> read_text_file(const std::string& path, std::size_t max_bytes = std::size_t{256} << 20);

}  // namespace sluice
