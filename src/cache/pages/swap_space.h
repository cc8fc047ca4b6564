// SwapSpace: keeps the state of preempted sequences outside the pools: in memory, or in files of a directory. The files
// have no name, so none remains however the program ends. Thread safety: one thread at a time.
// Used by engine/runner/engine_cache.h.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/index_types.h"
#include "sluice/status.h"

namespace sluice {

using SwapHandle = StrongIndex<struct SwapHandleTag>;  // one image in the swap space

class SwapSpace {
 public:
  // `directory` empty: in memory. Fails if files cannot be created there.
  static Result<std::unique_ptr<SwapSpace>> create(std::size_t bytes, const std::string& directory);
  ~SwapSpace();
  SwapSpace(const SwapSpace&) = delete;
  SwapSpace& operator=(const SwapSpace&) = delete;

  std::size_t bytes_total() const { return total_; }
  std::size_t bytes_used() const { return used_; }
  int images() const;  // kept at present
  bool has_room(std::size_t bytes) const { return bytes <= total_ - used_; }

  // kResourceExhausted if there is no room, in the swap space or on the disk.
  Result<SwapHandle> store(std::vector<std::byte> image);
  // Returns the image and forgets it, even if it can no longer be read (kUnavailable).
  Result<std::vector<std::byte>> take(SwapHandle handle);
  void drop(SwapHandle handle);

 private:
  struct Image {
    std::vector<std::byte> bytes;  // in memory
    int file = -1;                 // or in this file
    std::size_t size = 0;
    bool used = false;
  };

  SwapSpace(std::size_t bytes, std::string directory) : total_(bytes), directory_(std::move(directory)) {}
  Result<int> make_file() const;
  Image& at(SwapHandle handle);

  std::size_t total_ = 0, used_ = 0;
  std::string directory_;
  std::vector<Image> images_;
};

}  // namespace sluice
