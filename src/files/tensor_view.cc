// Used by files, files/gguf and model/weights.
#include "files/tensor_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"
#include "files/gguf/gguf_types.h"

namespace sluice {

std::int64_t TensorView::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Result<std::size_t> tensor_bytes(DType dtype, const std::vector<std::int64_t>& shape) {
  // Without the zeros first, so that [2^62, 2^62, 0] overflows too and elements() can never.
  std::int64_t elements = 1;
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) return invalid_argument(fmt::format("shape {}: expected sizes of at least 0", shape_text(shape)));
    empty |= size == 0;
    if (size > 0 && __builtin_mul_overflow(elements, size, &elements)) {
      return invalid_argument(fmt::format("shape {}: the number of elements exceeds 2^63", shape_text(shape)));
    }
  }
  const DTypeBlock block = dtype_block(dtype);
  std::int64_t bits = 0;  // bits of all blocks; the limit is 2^60 bytes
  if (__builtin_mul_overflow(elements, std::int64_t{block.bytes} * 8, &bits)) {
    return invalid_argument(fmt::format("shape {}: the number of bits exceeds 2^63", shape_text(shape)));
  }
  if (is_block_dtype(dtype) && (shape.empty() || shape.back() % block.elements != 0)) {
    return invalid_argument(fmt::format("shape {}: expected rows of whole {} blocks of {} elements", shape_text(shape),
                                        dtype_name(dtype), block.elements));
  }
  if (empty) return std::size_t{0};
  if (elements % block.elements != 0) {
    return invalid_argument(
        fmt::format("shape {}: {} elements do not fill whole bytes", shape_text(shape), dtype_name(dtype)));
  }
  return static_cast<std::size_t>(elements / block.elements) * static_cast<std::size_t>(block.bytes);
}

Status check_no_overlaps(const std::vector<TensorView>& tensors) {
  std::vector<const TensorView*> by_address;
  for (const TensorView& tensor : tensors) {
    if (tensor.bytes > 0) by_address.push_back(&tensor);
  }
  std::ranges::sort(by_address, {}, &TensorView::data);
  for (std::size_t i = 1; i < by_address.size(); ++i) {
    const TensorView& before = *by_address[i - 1];
    if (before.data + before.bytes > by_address[i]->data) {
      return invalid_argument(
          fmt::format("tensors {} and {} overlap; the file is damaged", before.name, by_address[i]->name));
    }
  }
  return {};
}

bool has_float_rows(const TensorView& tensor) {
  return tensor.rows != nullptr || is_dequantizable(tensor.dtype);
}

void read_rows(const TensorView& tensor, std::int64_t first, std::int64_t count, float* out) {
  SLUICE_CHECK(has_float_rows(tensor), "only floats and blocks are read as f32");
  if (count == 0) return;
  SLUICE_CHECK(
      first >= 0 && count > 0 && tensor.row_length() > 0 && count <= tensor.elements() / tensor.row_length() - first,
      "the rows are the tensor's");
  if (tensor.rows != nullptr) return tensor.rows->read(first, count, out);
  const DTypeBlock block = dtype_block(tensor.dtype);
  const auto row_bytes = static_cast<std::size_t>(tensor.row_length() / block.elements * block.bytes);
  dequantize(tensor.dtype, tensor.data + static_cast<std::size_t>(first) * row_bytes,
             static_cast<std::size_t>(count * tensor.row_length()), out);
}

}  // namespace sluice
