// GgufTensors: the tensors of a GGUF model as the family's official checkpoint would have them: its names and shapes,
// whatever types the file stores. `naming` says which those are; without, all keep the
// names and shapes of the file.
//
// Stacked experts are views, one an expert; rows in another order and tensors in two halves are TensorRows. A tensor
// whose name the naming does not know keeps its own. Nothing is copied.
// Thread safety: const after opening.
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

  // In no order; names may occur twice when the file is wrong.
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
