// The weight table of a family: what tensors it needs, where each goes, and how `synth` would store it.
//
// One list per family serves three purposes: binding and checking a checkpoint, writing a random one (`sluice synth`),
// and documenting the family's tensors. A spec may be found under several names (the official one first, then
// transformers'). Thread safety: build and load on one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "config/model_config.h"
#include "files/checkpoint.h"
#include "kernels/device/exec.h"
#include "kernels/ops/linear.h"
#include "model/model.h"
#include "model/weights/param.h"

namespace sluice {

// A tensor of the checkpoint, or rows [first_row, first_row + rows) of it seen as a matrix of its last dimension.
struct TensorName {
  std::string name;                 // with its suffix: "layers.0.attn.wq_a.weight"
  std::vector<std::int64_t> shape;  // of the whole tensor, in elements
  std::int64_t first_row = 0;
  bool transposed = false;  // what is bound is the transpose of these rows (LinearWeight only)
};

// Outputs [first, first + count) of a weight, or of its biases; count 0: all of them.
struct OutputShare {
  std::int64_t first = 0, count = 0;
};

struct WeightSpec {
  std::vector<TensorName> names;              // tried in order
  std::vector<std::int64_t> shape;            // of what is bound: [out, in] or [n]
  WeightFormat stored = WeightFormat::kBf16;  // how the official checkpoint stores it; ids: as i64
  // LinearWeight: packed for the kernels. WeightView: used where it lies. floats: widened. ids: token or expert ids.
  // Types that the kernels cannot read (f16, GGUF's MXFP4, transposed halves) become f32 first.
  std::variant<LinearWeight*, WeightView*, Param<float>*, Param<std::int32_t>*> into;
  InputForm inputs = InputForm::kF32;       // LinearWeight: what it should multiply, if its format can
  int id_limit = 0;                         // ids: each in [0, id_limit)
  std::string group = {};                   // "": of every use. Else a layer for multi-token prediction ("mtp.0")
  bool routed_expert = false;               // of a routed expert: a token uses num_experts_per_tok of n_routed_experts
  bool for_drafts = false;                  // once more what other specs bind: as codes of 8 bits if that saves bytes
  bool as_int8 = false;                     // of drafts alone: codes of 8 bits may stand for it where they cost less
  bool left = false;                        // known, but never bound: a copy of another tensor
  WeightRole role = WeightRole::kEveryRow;  // what the rest of the spec does not say already

  OutputShare share = {};  // what a rank of a group binds (model/weights/shares.h)

  bool is_ids() const { return std::holds_alternative<Param<std::int32_t>*>(into); }
};

using WeightTable = std::vector<WeightSpec>;

// Finds, checks and binds every spec, in memory that the ops of `exec` read. A missing or
// misshapen tensor is an error that names it, what was expected and what was found, and so is one that no spec asks
// for, unless it is harmless (model/weights/unused_tensors.h). Groups are bound with loading.mtp only. The checkpoint
// must outlive what is bound; it keeps the copies that are made for that.
Status load_weights(const Exec& exec, Checkpoint& checkpoint, const WeightTable& table, const ModelConfig& config,
                    const Loading& loading);

// The names under which the scales of a weight may be found, the official one first.
std::vector<std::string> scale_names(const std::string& weight_name);

// Weights in the memory of a device whose ops cannot read the host's: every address that load_weights() bound becomes
// one of the device, and the host keeps no copy except the checkpoint's own pages. Thread safety: one thread.

// Whether the ops of `exec` read weights from its device's memory.
bool weights_on_device(const Exec& exec);

// Moves what the specs have bound, except what the packer (model/packing/weight_packer.h) has already moved. The
// checkpoint keeps the device's memory. kResourceExhausted names the bytes.
Status place_weights(const Exec& exec, Checkpoint& checkpoint, std::span<const WeightSpec* const> bound);

}  // namespace sluice
