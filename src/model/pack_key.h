// The key of a packed form: a SHA-256 over everything that its bytes depend on, so forms of the same key are equal.
//
//   the files    inode, size, times of the last write and of the last change of any kind (which programs cannot set
//                back), the first megabyte and 64 samples of 4 KB of each; not their paths
//   the weights  name, shape, format, scales, input form and packed size of each, in their order
//   the layout   the ISA's name, and for each kind of weight in the model what its packing makes of a small weight of
//                known bytes: so a build that packs differently has different keys by itself
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "kernels/linear_packing.h"
#include "model/packed_file.h"

namespace sluice {

struct PackedWeightPlace {
  std::string name;  // the tensor and the part of it
  WeightView view;   // its bytes are not read
  InputForm inputs = InputForm::kF32;
  std::size_t bytes = 0;  // packed
};

PackedKey pack_key(std::span<const MappedFile* const> files, std::span<const PackedWeightPlace> weights,
                   const KernelTable& kernels);

}  // namespace sluice
