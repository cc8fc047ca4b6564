// Used by bench, engine/step, files, kernels/device and model/packing.
#include "base/storage/large_bytes.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

#include "base/threads/cpu_topology.h"

namespace sluice {
namespace {

std::size_t whole_pages(std::size_t size) {
  return (size + kHugePage - 1) / kHugePage * kHugePage;
}

}  // namespace

LargeBytes::LargeBytes(std::size_t size) : size_(size) {
  if (size == 0) return;
  const std::size_t bytes = whole_pages(size);
  // Maps one huge page more and unmaps both ends, so that the bytes begin at a huge page.
  void* mapped =
      ::mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* base = static_cast<std::byte*>(mapped);
  const std::size_t before = (kHugePage - reinterpret_cast<std::uintptr_t>(base) % kHugePage) % kHugePage;
  if (before > 0) ::munmap(base, before);
  if (before < kHugePage) ::munmap(base + before + bytes, kHugePage - before);
  data_ = base + before;
  ::madvise(data_, bytes, MADV_HUGEPAGE);
  interleave_memory(data_, bytes, memory_nodes());
}

LargeBytes::~LargeBytes() {
  if (data_ != nullptr) ::munmap(data_, whole_pages(size_));
}

}  // namespace sluice
