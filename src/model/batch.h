// CacheView: the memory of the cache that a step computes in; the step's other input is its StepTables. Views only;
// they own nothing.
//
// Every layer, for all rows of a step: project, write the cache, then attend through the cache.
// Used by cache, cache/pages and model.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "base/index_types.h"
#include "kernels/ops/plane.h"
#include "kernels/step/step_tables.h"

namespace sluice {

// The pools' memory, per plane (PlaneSpec::view()), and the open states, by the numbers of RowSpan. The addresses are a
// device's (kernels/device/device.h), for ops only.
struct CacheView {
  std::vector<PlaneView> planes;          // by PlaneId
  std::vector<std::size_t> open_offsets;  // by PlaneId, in an open state
  std::byte* open_base = nullptr;         // open state i lies at open_base + i * open_stride
  std::size_t open_stride = 0;            // CacheLayout::open_bytes()
  const PlaneView& operator[](PlaneId id) const { return planes[static_cast<std::size_t>(id.value)]; }
  std::size_t open_offset(PlaneId id) const { return open_offsets[static_cast<std::size_t>(id.value)]; }
  // The part of state 0 that belongs to an Open plane.
  std::byte* states(PlaneId id) const { return open_base + open_offset(id); }
  std::byte* state(std::int32_t index) const { return open_base + static_cast<std::size_t>(index) * open_stride; }
  // The place in a window page of the boundary bytes of an Open plane: the first bytes of its state after the block.
  std::byte* boundary(PlaneId open, WindowPage page) const { return (*this)[open].row(page.value, 0).data; }
};

// Sees intermediate values, [rows, columns], by name ("layers.3.attn.q"), to compare them with references or between
// runs. Only values whose names end with `only` are brought from the device.
class Observer : public std::function<void(std::string_view name, const float* values, int rows, int columns)> {
 public:
  using function::function;
  bool wants(std::string_view name) const { return name.ends_with(only); }

  std::string_view only;
};

}  // namespace sluice
