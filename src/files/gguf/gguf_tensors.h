// GgufTensors: the tensors of a GGUF model under the names and shapes of the family's official checkpoint, whatever
// types the file stores. `naming` says which these are; without it, and for names that it does not know, those of the
// file stay.
//
// Stacked experts become one view per expert; rows in another order and tensors in two halves become TensorRows.
// Nothing is copied. Thread safety: const after opening.
// Used by files/checkpoint.cc and gguf_rows.cc.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "files/gguf/gguf_file.h"
#include "files/gguf/gguf_names.h"
#include "files/tensor_view.h"
#include "sluice/status.h"

namespace sluice {

class GgufTensors {
 public:
  static Result<std::unique_ptr<GgufTensors>> open(const std::string& path, GgufNaming naming = nullptr);
  static Result<std::unique_ptr<GgufTensors>> of(std::unique_ptr<GgufModel> model, GgufNaming naming = nullptr);

  // The tensors in no order; a faulty file may have a name twice.
  const std::vector<TensorView>& tensors() const { return tensors_; }
  const GgufModel& model() const { return *model_; }

 private:
  explicit GgufTensors(std::unique_ptr<GgufModel> model) : model_(std::move(model)) {}
  Status add(const GgufNames& names, const TensorView& tensor);
  Status add_as(const GgufName& name, const std::string& layer, const std::string& prefix, const TensorView& tensor);
  Status add_experts(const std::string& official, const TensorView& tensor);
  Status add_interleaved(const std::string& official, std::string_view heads_key, const TensorView& tensor);
  Status add_split(const std::string& official, const TensorView& keys, const TensorView& values);

  std::unique_ptr<GgufModel> model_;
  std::vector<std::unique_ptr<TensorRows>> rows_;
  std::vector<TensorView> tensors_;
};

// TensorRows of the layouts that differ from the official one (GgufLayout).
// The source tensors must outlive these. Thread safety: const after construction.

// The official order of a tensor of `heads` heads whose rows are interleaved: Row i of a head's first half is its
// stored row 2i, row i of its second half its stored row 2i + 1. A tensor of one dimension has rows of one element
// (a bias). `source.shape[0]` is a multiple of 2 * heads.
std::unique_ptr<TensorRows> make_interleaved_rows(const TensorView& source, std::int64_t heads);

// [heads * (nope + v), rank] from keys [heads, rank, nope] and values [heads, v, rank].
std::unique_ptr<TensorRows> make_split_kv_rows(const TensorView& keys, const TensorView& values);

}  // namespace sluice
