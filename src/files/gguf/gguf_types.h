// The types of tensors in GGUF files: their numbers, and what their blocks stand for.
// Used by files/tensor_view.cc, gguf_file.cc and gguf_writer.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/formats/dtype.h"

namespace sluice {

// The types of tensors that GGUF files number and that can be read or written, and the limits of a table entry.
// Thread safety: constants and pure functions.

inline constexpr std::size_t kGgufMaxNameBytes = 63;
inline constexpr std::size_t kGgufMaxDimensions = 4;

std::optional<DType> gguf_tensor_dtype(std::uint32_t code);
std::optional<std::uint32_t> gguf_tensor_code(DType dtype);
// "IQ2_XXS (16)", or "type 99" of a number without a name: of types that are not read.
std::string gguf_tensor_code_name(std::uint32_t code);
// "F32 (0), F16 (1), ..."
std::string gguf_tensor_type_names();

// The block types of GGUF files, as numbers.
//
// A block is 32 or 256 neighbours of a row with their scales (docs/formats/gguf.md has the bytes). The values are the
// reference implementation's, bit for bit: every product and sum is rounded to f32, in the order of the formulas.
// Infinite or NaN scales give infinities and NaN. Thread safety: pure functions. Not to be called where denormals are
// flushed (base/threads/thread_pool.h): some values are.

// F32, F16, BF16, F64, whose values are rounded to f32, and the block types.
bool is_dequantizable(DType dtype);

// Writes the `elements` values (whole blocks of them) stored at `data` (any alignment) as f32. `dtype` is
// dequantizable.
void dequantize(DType dtype, const std::byte* data, std::size_t elements, float* out);

}  // namespace sluice
