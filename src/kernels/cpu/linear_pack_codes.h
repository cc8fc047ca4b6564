// Packs integer codes (WeightFormat::kCodes) into lines (cpu/linear_layout.h).
#pragma once

#include <cstddef>

#include "kernels/cpu/linear_layout.h"

namespace sluice {

// Tile `tile`, to `to`.
void pack_codes_tile(const WeightView& view, const LinearLayout& layout, int tile, std::byte* to);

// The same of WeightFormat::kTransposedCodes.
void pack_transposed_codes_tile(const WeightView& view, const LinearLayout& layout, int tile, std::byte* to);

}  // namespace sluice
