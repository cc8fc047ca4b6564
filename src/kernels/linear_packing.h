// LinearPacking: the form in which the kernels of a device, or of an instruction set, want a weight (kernels/linear.h),
// made on the host. Thread safety: pack() of different outputs by any threads at once.
#pragma once

#include <cstddef>

#include "kernels/isa.h"
#include "kernels/linear.h"

namespace sluice {

struct LinearPacking {
  // Bytes of the packed form of `view`; 0: its kernels work on the view itself.
  std::size_t (*packed_bytes)(const WeightView& view);
  // Outputs [begin, end), multiples of `out_tile` but for the last, of the packed form that begins at `packed`, aligned
  // to 64 bytes.
  void (*pack)(const WeightView& view, int begin, int end, std::byte* packed);
  int out_tile;
};
const LinearPacking& linear_packing(const KernelTable& table);
// For a device of which the host need know nothing else: the scalar kernels with its packing and its name. One table
// for each packing, which must outlive it.
const KernelTable& kernels_that_pack(const char* device, const LinearPacking& packing);

}  // namespace sluice
