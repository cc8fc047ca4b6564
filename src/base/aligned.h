// Memory aligned to 64 bytes (a cache line and an AVX-512 register): owned, movable, zeroed only on request.
// Used by bench, files, kernels, model and src/bench.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

namespace sluice {

class AlignedBytes {
 public:
  AlignedBytes() = default;
  // Throws std::bad_alloc like operator new; callers whose sizes come from user input check limits first.
  explicit AlignedBytes(std::size_t size, bool zero = false) : size_(size) {
    if (size == 0) return;
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(64, (size + 63) / 64 * 64)));
    if (!data_) throw std::bad_alloc();
    if (zero) std::memset(data_.get(), 0, size);
  }
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data_.get());
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_.get());
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

// A growing f32 buffer: get(n) returns at least n floats; contents are undefined after a growth.
class FloatBuffer {
 public:
  float* get(std::size_t n) {
    if (n * sizeof(float) > bytes_.size()) bytes_ = AlignedBytes(n * sizeof(float) + n * sizeof(float) / 4);
    return bytes_.as<float>();
  }

 private:
  AlignedBytes bytes_;
};

}  // namespace sluice
