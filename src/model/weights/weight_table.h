// The weight table of a family: the tensors that it needs, the place of each, and the format in which `synth` stores
// it.
//
// One list per family serves three purposes: binding and checking a checkpoint, writing a random one (`sluice synth`),
// and documenting the family's tensors. A spec may be found under several names (the official one first, then
// transformers'). Thread safety: build and load on one thread.
// Used by model.
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
  std::vector<std::int64_t> shape;  // the whole tensor's, in elements
  std::int64_t first_row = 0;
  bool transposed = false;  // the transpose of these rows is bound (LinearWeight only)
};

// Outputs [first, first + count) of a weight, or of its biases; count 0: all of them.
struct OutputShare {
  std::int64_t first = 0, count = 0;
};

struct WeightSpec {
  std::vector<TensorName> names;              // tried in order
  std::vector<std::int64_t> shape;            // the bound weight's: [out, in] or [n]
  WeightFormat stored = WeightFormat::kBf16;  // its format in the official checkpoint; ids: i64
  // A LinearWeight is packed for the kernels, a WeightView used where it lies; floats are widened; ids are token or
  // expert ids. Types that the kernels cannot read (f16, GGUF's MXFP4, transposed halves) become f32 first.
  std::variant<LinearWeight*, WeightView*, Param<float>*, Param<std::int32_t>*> into;
  InputForm inputs = InputForm::kF32;  // LinearWeight: the inputs it should multiply, if its format can
  int id_limit = 0;                    // ids: each in [0, id_limit)
  std::string group = {};              // "": always needed; else a layer for multi-token prediction ("mtp.0")
  bool routed_expert = false;          // a token uses num_experts_per_tok of n_routed_experts
  bool for_drafts = false;  // a second binding of another spec's weight: as codes of 8 bits if that saves bytes
  bool as_int8 = false;     // used by drafts alone: codes of 8 bits may replace it if they cost less
  bool left = false;        // known, but never bound: a copy of another tensor
  WeightRole role = WeightRole::kEveryRow;  // the part that the rest of the spec does not tell

  OutputShare share = {};  // outputs that a rank of a group binds (model/weights/shares.h)

  bool is_ids() const { return std::holds_alternative<Param<std::int32_t>*>(into); }
};

using WeightTable = std::vector<WeightSpec>;

// Finds, checks and binds every spec, in memory that the ops of `exec` read. A missing or misshapen tensor is an error
// that names it, with the expected and the found shape. A tensor that no spec asks for is one too, unless it is
// harmless (model/weights/unused_tensors.h). Groups are bound with loading.mtp only. The checkpoint must outlive the
// bound weights; it keeps the copies that are made for them.
Status load_weights(const Exec& exec, Checkpoint& checkpoint, const WeightTable& table, const ModelConfig& config,
                    const Loading& loading);

// The names under which the scales of a weight may be found, the official one first.
std::vector<std::string> scale_names(const std::string& weight_name);

// The functions below put weights in the memory of a device whose ops cannot read the host's. Every address that
// load_weights() bound becomes one of the device, and the host keeps no copy except the checkpoint's own pages. Thread
// safety: one thread.

// Returns whether the ops of `exec` read weights from its device's memory.
bool weights_on_device(const Exec& exec);

// Moves the bound weights, except those that the packer (model/packing/weight_packer.h) has already moved. The
// checkpoint keeps the device's memory. kResourceExhausted names the bytes.
Status place_weights(const Exec& exec, Checkpoint& checkpoint, std::span<const WeightSpec* const> bound);

}  // namespace sluice
