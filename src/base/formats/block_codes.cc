// Used by base, cli, files, kernels and model.
#include "base/formats/block_codes.h"

#include "base/check.h"
#include "base/formats/block_types.h"

namespace sluice {

BlockCodes block_codes(DType dtype) {
  BlockCodes form;
  BlockTypes::with(dtype, [&]<class Type>() { form = Type::kForm; });
  return form;
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
