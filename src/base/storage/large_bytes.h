// LargeBytes: memory for large data that is read again and again (packed weights). In huge pages if the system has
// them, which avoids most TLB misses, and spread over all NUMA nodes, so that threads on any node read at the speed of
// all.
//
// Zeroed; takes no memory from the machine before it is touched. Aligned to huge pages. Owned, movable.
// Used by bench, engine/step, files, kernels/device and model/packing.
#pragma once

#include <cstddef>
#include <utility>

namespace sluice {

inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

class LargeBytes {
 public:
  LargeBytes() = default;
  // Throws std::bad_alloc like operator new; callers whose sizes come from user input check limits first.
  explicit LargeBytes(std::size_t size);
  LargeBytes(LargeBytes&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  LargeBytes& operator=(LargeBytes&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~LargeBytes();

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace sluice
