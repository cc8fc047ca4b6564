// Param: values of a checkpoint that ops read as they are: norms, biases, sinks, ids.
// They are in host memory until place() moves them to the memory of the ops' device (model/weights/weight_table.h).
// Thread safety: as a vector's.
// Used by model/feed_forward.h, model/residual_stream.h and weight_table.h.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace sluice {

template <class T>
class Param {
 public:
  Param() = default;
  Param(std::vector<T> values) : host_(std::move(values)) { point(); }  // NOLINT(google-explicit-constructor)
  Param(const Param&) = delete;
  Param& operator=(const Param&) = delete;
  Param(Param&&) = default;
  Param& operator=(Param&&) = default;

  // For ops.
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // Its values are now at `data`, which must outlive it; those on the host are freed.
  void place(const T* data) {
    data_ = data;
    host_ = {};
  }

 private:
  void point() {
    data_ = host_.data();
    size_ = host_.size();
  }

  std::vector<T> host_;
  const T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace sluice
