#include "cli/work_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "bringing-";

// A descriptor of the folder that holds its lock; -1: another process has it, or there are no locks here.
int lock_folder(const fs::path& folder, int operation) {
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (file >= 0 && ::flock(file, operation) == 0) return file;
  if (file >= 0) ::close(file);
  return -1;
}

void remove_abandoned(const fs::path& parent) {
  std::error_code error;
  for (auto it = fs::directory_iterator(parent, error); !error && it != fs::directory_iterator(); it.increment(error)) {
    if (!it->path().filename().string().starts_with(kPrefix)) continue;
    const int lock = lock_folder(it->path(), LOCK_EX | LOCK_NB);
    if (lock < 0) continue;
    std::error_code ignored;
    fs::remove_all(it->path(), ignored);
    ::close(lock);
  }
}

}  // namespace

Result<std::unique_ptr<WorkFolder>> WorkFolder::make(const fs::path& parent) {
  std::unique_ptr<WorkFolder> made(new WorkFolder);
  std::string name = (parent / fmt::format("{}XXXXXX", kPrefix)).string();
  const int turn = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (turn >= 0) ::flock(turn, LOCK_EX);  // so that nobody removes the new folder before it is locked
  remove_abandoned(parent);
  if (::mkdtemp(name.data()) != nullptr) {
    made->path_ = name;
    made->lock_ = lock_folder(name, LOCK_EX);
  }
  const int reason = errno;
  if (turn >= 0) ::close(turn);
  if (!made->path_.empty()) return made;
  return resource_exhausted(
      fmt::format("{}: no folder can be made there ({})", parent.string(), std::strerror(reason)));
}

WorkFolder::~WorkFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

}  // namespace sluice
