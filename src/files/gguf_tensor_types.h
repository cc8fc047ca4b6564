// The types of tensors that GGUF files number and that can be read or written, and the limits of a table entry.
// Thread safety: constants and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/dtype.h"

namespace sluice {

inline constexpr std::size_t kGgufMaxNameBytes = 63;
inline constexpr std::size_t kGgufMaxDimensions = 4;

std::optional<DType> gguf_tensor_dtype(std::uint32_t code);
std::optional<std::uint32_t> gguf_tensor_code(DType dtype);
// "F32 (0), F16 (1), ..."
std::string gguf_tensor_type_names();

}  // namespace sluice
