// One safetensors file: a table of named tensors over a read-only mapping (docs/formats/safetensors.md).
//
// Everything is checked when the file is opened, so that a TensorView can be used without another check. Checked are
// the dtype, a shape whose product does not overflow, byte size = shape x dtype, offsets inside the file, no overlaps.
// Used by checkpoint.h, cli/commands/inspect_text.cc and safetensors_writer.cc.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/storage/mapped_file.h"
#include "files/tensor_view.h"
#include "sluice/status.h"

namespace sluice {

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
