// TempFolder: a folder for one test, removed with everything in it at the end.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/check.h"

namespace sluice {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "sluice-test-XXXXXX").string();
    SLUICE_CHECK(::mkdtemp(pattern.data()) != nullptr, "cannot make a temporary folder");
    path_ = pattern;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }

  // Writes a file below the folder and returns its path.
  std::string write(std::string_view name, std::string_view content) const {
    std::string target = file(name);
    std::remove(target.c_str());  // a new file each time: ext4 waits for the disk when an old one is truncated
    std::ofstream(target, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
    return target;
  }

 private:
  std::string path_;
};

}  // namespace sluice
