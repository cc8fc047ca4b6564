// PendingFile: a file that gets its name once it is complete, and is removed otherwise.
//
// The file is written in its final folder under a name with the process id, and then renamed. Devices and pipes are
// written directly, as a rename would replace them by a file. Errors name the file; a full disk is resource_exhausted.
// Thread safety: none, one thread at a time.
// Used by files/gguf/gguf_writer.cc and files/safetensors_writer.cc.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "sluice/status.h"

namespace sluice {

class PendingFile {
 public:
  static Result<PendingFile> create(const std::string& path);
  PendingFile(PendingFile&& other) noexcept;
  PendingFile& operator=(PendingFile&&) = delete;
  ~PendingFile();

  Status write(std::span<const std::byte> bytes);
  // Gives the file its name, replacing a file that has it already.
  Status finish();

 private:
  PendingFile() = default;
  Status failure(std::string_view verb) const;

  std::string path_, temporary_;
  int fd_ = -1;
};

}  // namespace sluice
