// GgufTensors: the tensors of a GGUF model under the names and shapes of the family's official checkpoint, whatever
// types the file stores. `naming` says which these are; without it, and for names that it does not know, those of the
// file stay.
//
// Stacked experts become one view per expert; rows in another order and tensors in two halves become TensorRows.
// Nothing is copied. Thread safety: const after opening.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "files/gguf_file.h"
#include "files/gguf_names.h"
#include "files/tensor_view.h"
#include "sluice/status.h"

namespace sluice {

class GgufTensors {
 public:
  static Result<std::unique_ptr<GgufTensors>> open(const std::string& path, GgufNaming naming = nullptr);
  static Result<std::unique_ptr<GgufTensors>> of(std::unique_ptr<GgufModel> model, GgufNaming naming = nullptr);

  // In no order; a faulty file may have a name twice.
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

}  // namespace sluice
