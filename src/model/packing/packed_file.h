// The file that holds the packed form of a model's weights (docs/loading.md has its bytes).
//
// It is written in one go under a temporary name, and gets its own once it is complete and on the disk. Opening it
// reads all of it once, through the mapping that is then used, and compares checksums: weights that a disk or a torn
// write has changed are never used.
// Used by pack_cache.h and weight_packer.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/storage/mapped_file.h"
#include "base/threads/thread_pool.h"
#include "sluice/status.h"

namespace sluice {

using PackedKey = std::array<std::uint8_t, 32>;

// Immutable; may be read from any thread.
class PackedFile {
 public:
  // Fails with kNotFound if there is none, and with kInvalidArgument if it is not a complete file of this key and size.
  // `progress` receives the number of bytes compared.
  static Result<PackedFile> open(const std::string& path, const PackedKey& key, std::size_t bytes, ThreadPool& pool,
                                 const std::function<void(std::size_t done, std::size_t total)>& progress);

  std::span<const std::byte> bytes() const;

  // For ServedFiles: the file, and a function that returns whether its bytes still match its checksums; empty: there
  // are too many bytes.
  const std::shared_ptr<const FileMapping>& share() const { return file_.share(); }
  std::function<bool()> comparison() const;

 private:
  Status check_header(const PackedKey& key, std::size_t bytes) const;
  Status check_bytes(ThreadPool& pool, const std::function<void(std::size_t, std::size_t)>& progress) const;

  MappedFile file_;
  std::size_t bytes_ = 0;  // as in the header
};

// Writes a PackedFile. Thread safety: one thread at a time.
class PackedFileWriter {
 public:
  // `making`: the name until finish(). The file is locked as long as the writer lives, so that no other process writes
  // or removes it: kUnavailable if another process has it. Fails with kResourceExhausted if the disk cannot take
  // `bytes` more.
  static Result<std::unique_ptr<PackedFileWriter>> create(const std::string& making, const PackedKey& key,
                                                          std::size_t bytes);
  ~PackedFileWriter();  // removes an unfinished file
  PackedFileWriter(const PackedFileWriter&) = delete;
  PackedFileWriter& operator=(const PackedFileWriter&) = delete;

  // Appends the next part: kPart bytes, except the last.
  static constexpr std::size_t kPart = std::size_t{4} << 20;
  Status write(std::span<const std::byte> part);
  // Waits for the disk, then gives the file its name.
  Status finish(const std::string& path);

 private:
  PackedFileWriter() = default;
  Status write_at(std::size_t offset, std::span<const std::byte> bytes);
  Status failure() const;

  std::string making_;
  int fd_ = -1;
  std::size_t bytes_ = 0, written_ = 0;
  std::vector<std::uint64_t> checksums_;
};

// Removes a file that a writer left unfinished and that no writer locks any more.
void remove_abandoned_packed_file(const std::string& making);

}  // namespace sluice
