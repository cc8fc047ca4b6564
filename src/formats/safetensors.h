// One safetensors file: a table of named tensors over a read-only mapping (docs/formats/safetensors.md).
//
// Everything is checked when the file is opened, so that a TensorView can be used without another check: known dtype, a
// shape whose product does not overflow, byte size = shape x dtype, offsets inside the file, no overlaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/mapped_file.h"
#include "sluice/status.h"

namespace sluice {

// A named tensor in raw bytes, row-major. Views into the file that opened it: valid while that lives.
// `data` is aligned for the dtype (a file that places a tensor askew has that tensor copied on opening).
struct TensorView {
  std::string name;
  DType dtype = DType::kU8;
  std::vector<std::int64_t> shape;  // empty: a scalar
  const std::byte* data = nullptr;  // never null, even when bytes is 0
  std::size_t bytes = 0;
  std::string_view file;  // the file's name without its folder, for messages

  std::int64_t elements() const;
};

// "[128, 256]"
std::string shape_text(const std::vector<std::int64_t>& shape);
// bytes of a tensor of this dtype and shape; fails on a negative size, overflow, or an F4 shape of half a byte.
Result<std::size_t> tensor_bytes(DType dtype, const std::vector<std::int64_t>& shape);

inline constexpr std::size_t kMaxSafetensorsHeaderBytes = std::size_t{100} * 1000 * 1000;

// Owns the mapping. Thread safety: const after opening.
class SafetensorsFile {
 public:
  static Result<std::unique_ptr<SafetensorsFile>> open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const MappedFile& mapping() const { return file_; }
  // Sorted by name.
  const std::vector<TensorView>& tensors() const { return tensors_; }
  const TensorView* find(std::string_view name) const;
  // The header's "__metadata__".
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  SafetensorsFile() = default;
  Status read_header();
  void align_tensors();

  MappedFile file_;
  std::string file_name_;
  std::vector<TensorView> tensors_;
  std::map<std::string, std::string> metadata_;
  std::vector<std::unique_ptr<std::byte[]>> aligned_copies_;
};

}  // namespace sluice
