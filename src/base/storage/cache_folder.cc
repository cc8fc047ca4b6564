// Used by cli/known_model.cc and model/packing/weight_packer.cc.
#include "base/storage/cache_folder.h"

#include <fmt/format.h>

#include <cstdlib>
#include <system_error>

namespace sluice {

namespace fs = std::filesystem;

Result<fs::path> cache_folder() {
  const char* given = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  fs::path folder;
  if (given != nullptr && given[0] == '/') {
    folder = given;
  } else if (home != nullptr && home[0] != '\0') {
    folder = fs::path(home) / ".cache";
  } else {
    return invalid_argument("the cache folder: expected XDG_CACHE_HOME or HOME to be set, found neither");
  }
  folder /= "sluice";
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return resource_exhausted(fmt::format("{}: cannot be made ({})", folder.string(), error.message()));
  return folder;
}

}  // namespace sluice
