// CacheMemory: the memory of the pools, and everything that happens to its bytes outside of ops: pages and states
// copied, saved, brought back, digested.
//
// The memory is a Device's, and the host does not touch it (kernels/device/device.h). Functions that change it are
// enqueued in the order of the calls, between the steps enqueued before and after, and do not wait. Functions that give
// bytes to the host wait for them.
//
// There is one array per plane, indexed by page; one page id serves all layers. The open states come before the arrays:
// MemoryPlan::open_states of them for each slot, then the initial one. Each array begins at a multiple of 64 bytes. The
// memory is mapped but not touched, so a large budget costs nothing before pages are used. Bytes that no op has written
// are zero, and the padding of pages (model/cache_layout.h) is always zero.
//
// An image is the cached state of a sequence as host bytes, the same on every device. For each plane it has the plane's
// part of each of the sequence's pages of that kind, in the order of the blocks; then comes the open state. If
// ranks cache rows of their own (CacheLayout::differs_by_rank), it has all of this for each rank, in their order.
//
// Owns the memory; `device` and `layout` must outlive it. Thread safety: one thread at a time.
// Used by cache/cache_pools.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/index_types.h"
#include "cache/memory_plan.h"
#include "kernels/device/device.h"
#include "model/batch.h"
#include "model/cache_layout.h"
#include "sluice/status.h"

namespace sluice {

using StateSlot = StrongIndex<struct StateSlotTag>;  // the open states of one running sequence
using OpenState = StrongIndex<struct OpenStateTag>;  // one of them: slot * MemoryPlan::open_states + copy

class CacheMemory {
 public:
  // kResourceExhausted if the device cannot map that much.
  static Result<CacheMemory> create(Device& device, const CacheLayout& layout, const MemoryPlan& plan);

  // For ops; the addresses are the device's.
  const CacheView& view() const { return view_; }
  // The address of an open state, layout.open_bytes() long and 64-byte aligned; for ops as well.
  std::byte* address(OpenState state) const;

  // Writes the open state as it is before the first token, or as it is after the block in the given pages, all tokens
  // of which have been computed.
  void write_initial_state(OpenState to);
  void write_boundary_state(LatentPage latents, WindowPage windows, OpenState to);
  // Writes an Open plane's part as before the first token (deliberate faults).
  void write_initial_part(PlaneId plane, OpenState to);
  void copy_state(OpenState from, OpenState to);

  void copy_page(LatentPage from, LatentPage to) { copy_page(PlaneKind::kLatent, from.value, to.value); }
  void copy_page(WindowPage from, WindowPage to) { copy_page(PlaneKind::kWindow, from.value, to.value); }
  // A digest of all of a page's bytes.
  std::uint64_t digest(LatentPage page) const { return digest(PlaneKind::kLatent, page.value); }
  std::uint64_t digest(WindowPage page) const { return digest(PlaneKind::kWindow, page.value); }

  std::size_t image_bytes(std::size_t latent_pages, std::size_t window_pages) const;
  // `image` has the bytes of all these pages. restore() does not write a page of -1, which has its place in the image:
  // its bytes are in the cache already.
  void save(std::span<const LatentPage> latents, std::span<const WindowPage> windows, OpenState state,
            std::span<std::byte> image) const;
  void restore(std::span<const std::byte> image, std::span<const LatentPage> latents,
               std::span<const WindowPage> windows, OpenState state);

  // `count` coded rows of a plane from row `first` of a page on: their data parts, then their scale parts, as in a page
  // of `count` rows. An Open plane's row is the boundary bytes in a window page.
  struct Rows {
    PlaneId plane;
    std::int32_t page;
    int first, count;
  };
  std::vector<std::byte> read_rows(const Rows& rows) const;
  void write_rows(const Rows& rows, std::span<const std::byte> bytes);

 private:
  CacheMemory(Device& device, const CacheLayout& layout) : device_(&device), layout_(&layout) {}
  bool is_of(PlaneKind pool, std::size_t plane) const {  // an Open plane's boundary bytes are in the window pool
    return (layout_->planes[plane].kind == PlaneKind::kLatent) == (pool == PlaneKind::kLatent);
  }
  std::size_t members() const;  // number of devices whose bytes an image has
  std::byte* part(std::size_t plane, std::int32_t page) const;
  void copy_page(PlaneKind pool, std::int32_t from, std::int32_t to);
  std::uint64_t digest(PlaneKind pool, std::int32_t page) const;
  template <class Visit>  // (address, bytes, offset in the image) for each part of an image
  void visit_image(std::span<const LatentPage> latents, std::span<const WindowPage> windows, OpenState state,
                   std::size_t image_bytes, const Visit& visit) const;
  template <class Visit>  // (address, bytes, offset in the rows' bytes)
  void visit_rows(const Rows& rows, std::size_t bytes, const Visit& visit) const;

  Device* device_;
  const CacheLayout* layout_;
  DeviceMemory memory_;
  CacheView view_;
  OpenState initial_;                    // comes after the slots' open states
  mutable std::vector<ByteMove> moves_;  // used by the call under way
};

}  // namespace sluice
