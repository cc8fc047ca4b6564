// MadeTensors: tensors whose bytes no file holds. They have a place in the address space from the beginning, and are
// made there when a caller is about to read them.
//
// The place takes no memory before it is filled, and gives most of it back when its bytes are left, so that tensors
// that are larger than the machine's memory can be read one after the other. Thread safety: const functions may be
// called by one thread at a time; what they bring may be read by any.
// Used by checkpoint.h and model/weights/dummy_checkpoint.cc.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/formats/dtype.h"
#include "base/storage/large_bytes.h"
#include "base/threads/thread_pool.h"
#include "files/tensor_view.h"
#include "sluice/status.h"

namespace sluice {

class MadeTensors {
 public:
  struct Spec {
    std::string name;
    DType dtype = DType::kF32;
    std::vector<std::int64_t> shape;
    std::string same_as = {};  // if set: the listed tensor whose bytes and place this one has
  };
  // Writes the bytes [offset, offset + to.size()) of tensor `spec`, whole elements. Called from several threads.
  using Make = std::function<void(std::size_t spec, std::size_t offset, std::span<std::byte> to)>;

  // Refuses shapes that are none, names that occur twice, and a same_as of another type or shape or that is not listed.
  static Result<MadeTensors> create(std::vector<Spec> specs, Make make);

  const std::vector<TensorView>& tensors() const { return views_; }
  std::size_t bytes() const { return bytes_; }  // the sum over all tensors, each place once
  // Makes the bytes of whole elements of one tensor, at the address that its view has for them.
  void bring(std::span<const std::byte> bytes, ThreadPool& pool) const;
  // They will not be read before they are brought again.
  void leave(std::span<const std::byte> bytes) const;

 private:
  struct Place {
    std::size_t begin, bytes, spec;
  };

  Make make_;
  std::vector<TensorView> views_;
  std::vector<Place> places_;  // ascending
  std::size_t bytes_ = 0;
  mutable LargeBytes memory_;
};

}  // namespace sluice
