// Used by engine/runner/engine_cache.h.
#include "cache/pages/swap_space.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace sluice {

Result<std::unique_ptr<SwapSpace>> SwapSpace::create(std::size_t bytes, const std::string& directory) {
  std::unique_ptr<SwapSpace> space(new SwapSpace(bytes, directory));
  if (!directory.empty()) {
    SLUICE_ASSIGN_OR_RETURN(const int file, space->make_file());
    ::close(file);
  }
  return space;
}

SwapSpace::~SwapSpace() {
  for (const Image& image : images_) {
    if (image.file >= 0) ::close(image.file);
  }
}

Result<int> SwapSpace::make_file() const {
  int file = ::open(directory_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {  // the file system has no nameless files
    std::string path = directory_ + "/sluice-swap-XXXXXX";
    file = ::mkostemp(path.data(), O_CLOEXEC);
    if (file >= 0) ::unlink(path.c_str());
  }
  if (file >= 0) return file;
  return invalid_argument(fmt::format("--swap-dir: expected a directory where files can be made, found '{}' ({})",
                                      directory_, std::strerror(errno)));
}

int SwapSpace::images() const {
  return static_cast<int>(std::count_if(images_.begin(), images_.end(), [](const Image& i) { return i.used; }));
}

SwapSpace::Image& SwapSpace::at(SwapHandle handle) {
  SLUICE_CHECK(handle && static_cast<std::size_t>(handle.value) < images_.size() &&
                   images_[static_cast<std::size_t>(handle.value)].used,
               "an image that is in the swap space");
  return images_[static_cast<std::size_t>(handle.value)];
}

Result<SwapHandle> SwapSpace::store(std::vector<std::byte> bytes) {
  const std::size_t size = bytes.size();
  if (!has_room(size)) {
    return resource_exhausted(fmt::format("--swap-space: {} bytes do not fit, {} of {} are used", size, used_, total_));
  }
  Image image{.bytes = {}, .file = -1, .size = size, .used = true};
  if (directory_.empty()) {
    image.bytes = std::move(bytes);
  } else {
    const Result<int> file = make_file();
    if (!file.ok()) return resource_exhausted(file.status().message());  // too many open files, or the folder is gone
    image.file = *file;
    for (std::size_t done = 0; done < size;) {
      const ssize_t written = ::pwrite(image.file, bytes.data() + done, size - done, static_cast<off_t>(done));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) {
        const std::string why = std::strerror(errno);
        ::close(image.file);
        return resource_exhausted(fmt::format("--swap-dir {}: cannot write {} bytes ({})", directory_, size, why));
      }
      done += static_cast<std::size_t>(written);
    }
  }
  used_ += size;
  const auto vacant = std::find_if(images_.begin(), images_.end(), [](const Image& i) { return !i.used; });
  const auto index = static_cast<std::int32_t>(vacant - images_.begin());
  vacant == images_.end() ? images_.push_back(std::move(image)) : static_cast<void>(*vacant = std::move(image));
  return SwapHandle(index);
}

Result<std::vector<std::byte>> SwapSpace::take(SwapHandle handle) {
  Image& image = at(handle);
  std::vector<std::byte> bytes = std::move(image.bytes);
  Status status;
  if (image.file >= 0) {
    bytes.resize(image.size);
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t read = ::pread(image.file, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
      if (read < 0 && errno == EINTR) continue;
      if (read <= 0) {
        status = unavailable(fmt::format("--swap-dir {}: cannot read {} bytes back ({})", directory_, bytes.size(),
                                         read < 0 ? std::strerror(errno) : "the file is shorter"));
        break;
      }
      done += static_cast<std::size_t>(read);
    }
  }
  drop(handle);
  if (!status.ok()) return status;
  return bytes;
}

void SwapSpace::drop(SwapHandle handle) {
  Image& image = at(handle);
  if (image.file >= 0) ::close(image.file);
  used_ -= image.size;
  image = {};
}

}  // namespace sluice
