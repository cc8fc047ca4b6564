// TensorView: a named tensor of a checkpoint, whatever file holds it.
// Thread safety: plain values; a const TensorRows may be read from any thread.
// Used by files, files/gguf and model/weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/formats/dtype.h"
#include "sluice/status.h"

namespace sluice {

// The rows of a tensor that its container keeps in another order or spread over several tensors.
class TensorRows {
 public:
  virtual ~TensorRows() = default;
  // Writes rows [first, first + count) as f32, `row length` values each. Row r of a tensor of more than two dimensions
  // is its r-th run of the last dimension.
  virtual void read(std::int64_t first, std::int64_t count, float* out) const = 0;
  // Row `row` as it is stored, if it is stored in one piece; else null.
  virtual const std::byte* stored(std::int64_t) const { return nullptr; }
};

// Row-major. A view into the checkpoint that opened it, valid while that lives.
struct TensorView {
  std::string name;
  DType dtype = DType::kU8;
  std::vector<std::int64_t> shape;  // in elements; empty: a scalar
  // Aligned for the dtype (a tensor that its file does not align is copied on opening); never null, even if bytes is 0.
  // Not to be used if `rows` is set: the bytes are then not this tensor's, or not in this order.
  const std::byte* data = nullptr;
  std::size_t bytes = 0;             // bytes as stored
  std::string_view file = {};        // the file's name without its folder, for messages
  const TensorRows* rows = nullptr;  // if set, the only way to read the tensor

  std::int64_t elements() const;
  std::int64_t row_length() const { return shape.empty() ? 1 : shape.back(); }
};

// "[128, 256]"
std::string shape_text(const std::vector<std::int64_t>& shape);
// bytes of a tensor of this dtype and shape; fails on a negative size, overflow, an F4 shape of half a byte, or rows
// that are not a whole number of blocks.
Result<std::size_t> tensor_bytes(DType dtype, const std::vector<std::int64_t>& shape);
// Fails when two of `tensors` share bytes. `data` must point into one mapping.
Status check_no_overlaps(const std::vector<TensorView>& tensors);

// Returns whether read_rows() can read it: floats of at least 16 bits, blocks, and whatever has `rows`.
bool has_float_rows(const TensorView& tensor);
// Rows [first, first + count) as f32: exactly, but for F64, whose values are rounded.
void read_rows(const TensorView& tensor, std::int64_t first, std::int64_t count, float* out);

}  // namespace sluice
