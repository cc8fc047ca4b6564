#include "base/block_codes.h"

#include "base/check.h"
#include "base/read_block_codes.h"

namespace sluice {

BlockCodes block_codes(DType dtype) {
  switch (dtype) {
    case DType::kQ8_0:
      return {.inputs = 32, .bits = 8, .lowest = -128, .min = false, .f16 = true};
    case DType::kQ4_0:
      return {.inputs = 32, .bits = 4, .lowest = -8, .min = false, .f16 = true};
    case DType::kQ4_1:
      return {.inputs = 32, .bits = 4, .lowest = 0, .min = true, .f16 = true};
    case DType::kQ4_K:
      return {.inputs = 32, .bits = 4, .lowest = 0, .min = true, .f16 = false};
    case DType::kQ5_K:
      return {.inputs = 32, .bits = 8, .lowest = 0, .min = true, .f16 = false};
    case DType::kQ6_K:
      return {.inputs = 16, .bits = 8, .lowest = -32, .min = false, .f16 = false};
    default:
      return {};
  }
}

void read_part(DType dtype, const std::byte* data, std::size_t part, CodedPart& out) {
  const int inputs = block_codes(dtype).inputs;
  SLUICE_CHECK(inputs > 0, "a type of integer codes");
  const DTypeBlock block = dtype_block(dtype);
  const auto parts = static_cast<std::size_t>(block.elements / inputs);
  const std::byte* at = data + part / parts * static_cast<std::size_t>(block.bytes);
  read_part_of_block(dtype, at, part % parts, out);
}

}  // namespace sluice
