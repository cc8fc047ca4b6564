// LargeBytes: memory for what is large and read again and again (packed weights): in huge pages where the system has
// them, which spares most of the misses of the address cache, and with its pages spread over the memory of all NUMA
// nodes, so that the threads of each read at the speed of all.
//
// Zero, and not taken from the machine before it is touched. Aligned to huge pages. Owned, movable.
#pragma once

#include <cstddef>
#include <utility>

namespace sluice {

inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

class LargeBytes {
 public:
  LargeBytes() = default;
  // Throws std::bad_alloc like operator new; callers that size by user input check limits first.
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
