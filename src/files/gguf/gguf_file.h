// One GGUF file (version 3): metadata and a table of named tensors over a read-only mapping (docs/formats/gguf.md).
//
// Everything is checked when the file is opened, so that its contents can be used without further checks. Checked are
// every count, length and offset against the bytes that are there, types, names, alignment, byte size = type x shape,
// no overlaps. Errors name the file and the offset, key or tensor.
// Used by config/gguf, files/gguf and text/vocabulary_files.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/storage/mapped_file.h"
#include "files/gguf/gguf_value.h"
#include "files/tensor_view.h"
#include "sluice/status.h"

namespace sluice {

using GgufMetadata = std::map<std::string_view, GgufValue>;

// Owns the mapping, on which everything that it returns depends. Thread safety: const after opening.
class GgufFile {
 public:
  static Result<std::unique_ptr<GgufFile>> open(const std::string& path);
  // The same for bytes in memory, which must be 8-aligned and outlive the result; `name` stands for the path.
  static Result<std::unique_ptr<GgufFile>> parse(std::span<const std::byte> bytes, const std::string& name);

  const std::string& path() const { return path_; }
  const MappedFile& mapping() const { return mapping_; }  // empty where it was parsed from memory
  const GgufMetadata& metadata() const { return metadata_; }
  // Sorted by name. Shapes are row-major: the last dimension, which files list first, is contiguous.
  const std::vector<TensorView>& tensors() const { return tensors_; }

 private:
  class Parser;
  GgufFile() = default;

  std::string path_;
  std::string file_name_;
  MappedFile mapping_;
  GgufMetadata metadata_;
  std::vector<TensorView> tensors_;
};

// A model, in one file or split into several ("NAME-00001-of-00003.gguf": metadata in the first,
// tensors in all).
class GgufModel {
 public:
  // `path`: the file, the first one of several.
  static Result<std::unique_ptr<GgufModel>> open(const std::string& path);
  // The same when the first file is open already.
  static Result<std::unique_ptr<GgufModel>> of(std::unique_ptr<GgufFile> first);

  const std::string& path() const { return files_.front()->path(); }
  const std::vector<std::unique_ptr<GgufFile>>& files() const { return files_; }
  const GgufMetadata& metadata() const { return files_.front()->metadata(); }
  // Sorted by name.
  const std::vector<const TensorView*>& tensors() const { return tensors_; }
  const TensorView* find(std::string_view name) const;

 private:
  GgufModel() = default;
  Status open_others();
  Status build_table();

  std::vector<std::unique_ptr<GgufFile>> files_;
  std::vector<const TensorView*> tensors_;
};

}  // namespace sluice
