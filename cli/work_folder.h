// WorkFolder: a folder for files in the making, which is gone when the object is, or, if the process dies, when the
// next one is made in the same place.
#pragma once

#include <filesystem>
#include <memory>

#include "sluice/status.h"

namespace sluice {

// Thread safety: none needed, a local object. Safe among processes: a folder in use is locked (flock).
class WorkFolder {
 public:
  // Makes one in `parent`, which exists, and removes those there whose process has died.
  static Result<std::unique_ptr<WorkFolder>> make(const std::filesystem::path& parent);
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  WorkFolder() = default;

  std::filesystem::path path_;
  int lock_ = -1;
};

}  // namespace sluice
