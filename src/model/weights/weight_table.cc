// Used by model.
#include "model/weights/weight_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/formats/block_codes.h"
#include "kernels/weights/narrow_weight.h"
#include "model/packing/weight_packer.h"
#include "model/weights/own_head.h"
#include "model/weights/scale_tensors.h"
#include "model/weights/unused_tensors.h"

namespace sluice {
namespace {

std::int64_t product(const std::vector<std::int64_t>& shape) {
  std::int64_t n = 1;
  for (const auto size : shape) n *= size;
  return n;
}

class Loader {
 public:
  Loader(const Exec& exec, Checkpoint& checkpoint, const QuantizationConfig& quantization, WeightPacker& packer)
      : exec_(exec), checkpoint_(checkpoint), quantization_(quantization), packer_(packer) {}

  // Returns null if no name of the spec is in the checkpoint.
  const TensorName* find(const WeightSpec& spec, const TensorView** tensor) const {
    for (const auto& name : spec.names) {
      if ((*tensor = checkpoint_.find(name.name)) != nullptr) return &name;
    }
    return nullptr;
  }

  // Returns a tensor that is known and not wanted, or null.
  void leave(const TensorView* tensor) {
    if (tensor == nullptr) return;
    left_.insert(tensor->name);
    for (const std::string& scales : scale_names(tensor->name)) left_.insert(scales);
  }
  // The bytes of tensors that are left and not bound under another spec.
  std::size_t bytes_left() const {
    std::size_t bytes = 0;
    std::set<const std::byte*> counted;  // made tensors may share their bytes
    for (const TensorView* tensor : checkpoint_.tensors()) {
      const bool is_left = left_.contains(tensor->name) && !used_.contains(tensor->name);
      if (is_left && counted.insert(tensor->data).second) bytes += tensor->bytes;
    }
    return bytes;
  }

  Status bind(const WeightSpec& spec, const TensorName& whole, const TensorView& tensor) {
    used_.insert(tensor.name);
    const OutputShare share = spec.share.count > 0 ? spec.share : OutputShare{0, spec.shape.front()};
    TensorName name = whole;
    name.first_row += share.first;
    const std::int64_t row = name.shape.back();
    if (!spec.for_drafts) {
      bytes_done_ += tensor.bytes / static_cast<std::size_t>(product(name.shape) / row) *
                     static_cast<std::size_t>(product(spec.shape) / row * share.count / spec.shape.front());
    }
    if (auto* const* floats = std::get_if<Param<float>*>(&spec.into)) {
      bring(tensor);
      return bind_floats(name, tensor, spec.share, **floats);
    }
    if (auto* const* ids = std::get_if<Param<std::int32_t>*>(&spec.into)) {
      bring(tensor);
      return bind_ids(spec, name, tensor, **ids);
    }
    WeightView view;
    view.out = static_cast<int>(name.transposed ? spec.shape[1] : share.count);
    view.in = static_cast<int>(spec.shape[name.transposed ? 0 : 1]);
    WeightPacker::MakeValues decode;  // makes the view's values, unless they are the checkpoint's
    if (spec.share.count > 0) {
      view.first_out = static_cast<int>(share.first), view.whole_out = static_cast<int>(spec.shape.front());
    }
    SLUICE_RETURN_IF_ERROR(bind_matrix(name, tensor, view, decode));
    auto* const* linear = std::get_if<LinearWeight*>(&spec.into);
    if (linear == nullptr || name.transposed || decode || !packer_.packs_later(view, spec.inputs)) {
      bring(tensor);
      if (view.scales != nullptr) checkpoint_.bring(view.scale_rows(), *exec_.pool);
    }
    if (auto* const* in_place = std::get_if<WeightView*>(&spec.into)) {
      if (weight_format(view.format).scaled) {
        return wrong_dtype(tensor, "floats that are not scaled in blocks apart");
      }
      if (decode) {
        AlignedBytes decoded(static_cast<std::size_t>(view.out) * view.row_bytes());
        decode(decoded.data());
        view.data = checkpoint_.keep(std::move(decoded));
      }
      **in_place = view;
      return {};
    }
    LinearWeight& weight = **linear;
    const bool of_drafts = spec.for_drafts || spec.as_int8;
    const std::string part =
        fmt::format("{} from row {}{}{}{}", tensor.name, name.first_row, name.transposed ? " transposed" : "",
                    of_drafts ? " for drafts" : "", view.whole_out > 0 ? fmt::format(", {} rows", view.out) : "");
    if (name.transposed && view.format == WeightFormat::kCodes && !decode && packs(transposed_codes(view))) {
      packer_.add(part, weight, transposed_codes(view), spec.inputs);
    } else if (of_drafts && can_be_int8(view, spec.inputs) && !decode) {
      bring(tensor);
      if (view.scales != nullptr) checkpoint_.bring(view.scale_rows(), *exec_.pool);
      packer_.add(part, weight, int8_shape(view), InputForm::kInt8,
                  [pool = exec_.pool, view](std::byte* to) { write_int8(pool, view, to); });
    } else if (spec.for_drafts && can_be_narrow(view, spec.inputs) && !decode) {
      bring(tensor);
      WeightView narrow = narrow_shape(view);
      AlignedBytes scales(narrow_scales(narrow));
      write_narrow_scales(exec_.pool, view, scales.data());
      narrow.scales = checkpoint_.keep(std::move(scales));
      packer_.add(
          part, weight, narrow, float_inputs(spec.inputs),
          [pool = exec_.pool, view, scales = narrow.scales](std::byte* to) { write_narrow(pool, view, scales, to); });
    } else if (name.transposed) {
      packer_.add(part, weight, transposed_shape(view), spec.inputs, transpose(view, std::move(decode)));
    } else {
      packer_.add(part, weight, view, spec.inputs, std::move(decode));
    }
    return {};
  }

  std::size_t bytes_done() const { return bytes_done_; }

  // Returns the tensors that no spec has asked for.
  std::vector<const TensorView*> unused() const {
    std::vector<const TensorView*> unused;
    for (const TensorView* tensor : checkpoint_.tensors()) {
      if (!used_.contains(tensor->name) && !left_.contains(tensor->name)) unused.push_back(tensor);
    }
    return unused;
  }

 private:
  void bring(const TensorView& tensor) const { checkpoint_.bring({tensor.data, tensor.bytes}, *exec_.pool); }

  static Status wrong_dtype(const TensorView& tensor, std::string_view expected) {
    return invalid_argument(fmt::format("tensor {} in {}: expected {}, found {} {}", tensor.name, tensor.file, expected,
                                        dtype_name(tensor.dtype), shape_text(tensor.shape)));
  }

  static Status check_shape(const TensorView& tensor, const std::vector<std::int64_t>& expected) {
    if (tensor.shape == expected) return {};
    return invalid_argument(fmt::format("tensor {} in {}: expected shape {}, found {} {}", tensor.name, tensor.file,
                                        shape_text(expected), dtype_name(tensor.dtype), shape_text(tensor.shape)));
  }

  Status bind_floats(const TensorName& name, const TensorView& tensor, const OutputShare& share,
                     Param<float>& into) const {
    SLUICE_RETURN_IF_ERROR(check_shape(tensor, name.shape));
    if (!has_float_rows(tensor)) return wrong_dtype(tensor, "floats");
    std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
    read_rows(tensor, 0, tensor.elements() / tensor.row_length(), values.data());
    if (share.count > 0) {
      values.erase(values.begin(), values.begin() + share.first);
      values.resize(static_cast<std::size_t>(share.count));
    }
    into = std::move(values);
    return {};
  }

  Status bind_ids(const WeightSpec& spec, const TensorName& name, const TensorView& tensor,
                  Param<std::int32_t>& into) const {
    SLUICE_RETURN_IF_ERROR(check_shape(tensor, name.shape));
    if (tensor.dtype != DType::kI64 && tensor.dtype != DType::kI32) return wrong_dtype(tensor, "i64 or i32");
    std::vector<std::int32_t> ids(static_cast<std::size_t>(tensor.elements()));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::int64_t id = tensor.dtype == DType::kI64 ? reinterpret_cast<const std::int64_t*>(tensor.data)[i]
                                                          : reinterpret_cast<const std::int32_t*>(tensor.data)[i];
      if (id < 0 || id >= spec.id_limit) {
        return invalid_argument(fmt::format("tensor {} in {}: expected ids in [0, {}), found {} at element {}",
                                            tensor.name, tensor.file, spec.id_limit, id, i));
      }
      ids[i] = static_cast<std::int32_t>(id);
    }
    into = std::move(ids);
    return {};
  }

  // Returns whether the kernels cannot read the tensor as it is stored, but f32 can hold it.
  static bool needs_decoding(const TensorView& tensor) {
    return tensor.rows != nullptr ||
           (has_float_rows(tensor) && tensor.dtype != DType::kF32 && tensor.dtype != DType::kBF16);
  }

  // Integer codes, where they lie or, if the rows are in another order, brought into this one.
  Status bind_codes(const TensorName& name, const TensorView& tensor, WeightView& view,
                    WeightPacker::MakeValues& gather) const {
    SLUICE_RETURN_IF_ERROR(check_shape(tensor, name.shape));
    view.format = WeightFormat::kCodes;
    view.codes = tensor.dtype;
    if (tensor.rows == nullptr) {
      view.data = tensor.data + static_cast<std::size_t>(name.first_row) * view.row_bytes();
      return {};
    }
    gather = [rows = tensor.rows, first = name.first_row, out = view.out, bytes = view.row_bytes()](std::byte* to) {
      for (int n = 0; n < out; ++n, to += bytes) std::memcpy(to, rows->stored(first + n), bytes);
    };
    return {};
  }

  Status decode_matrix(const TensorName& name, const TensorView& tensor, WeightView& view,
                       WeightPacker::MakeValues& decode) const {
    SLUICE_RETURN_IF_ERROR(check_shape(tensor, name.shape));
    view.format = WeightFormat::kF32;
    decode = [pool = exec_.pool, &tensor, first_row = name.first_row, rows = view.out, in = view.in](std::byte* to) {
      constexpr int kPieceRows = 64;
      pool->run((rows + kPieceRows - 1) / kPieceRows, [&](int piece, int) {
        const KeepDenormals exact;
        const int first = piece * kPieceRows;
        read_rows(tensor, first_row + first, std::min(kPieceRows, rows - first),
                  reinterpret_cast<float*>(to) + static_cast<std::size_t>(first) * static_cast<std::size_t>(in));
      });
    };
    return {};
  }

  // Returns whether floats can become codes: the profile rounds inputs, and the kernels multiply codes.
  bool can_be_int8(const WeightView& view, InputForm inputs) const {
    const bool floats =
        view.format == WeightFormat::kBf16 || view.format == WeightFormat::kF32 || view.format == WeightFormat::kFp8;
    return floats && float_inputs(inputs) != InputForm::kF32 && view.in % kInt8Block == 0 && !weights_on_device(exec_);
  }

  // Returns whether floats can be narrowed for a device's kernels, which then read half of the bytes.
  bool can_be_narrow(const WeightView& view, InputForm inputs) const {
    const bool floats = view.format == WeightFormat::kBf16 || view.format == WeightFormat::kF32;
    return floats && float_inputs(inputs) != InputForm::kF32 && weights_on_device(exec_);
  }

  // Kernels that read weights as they lie would take each value of a transpose from another row.
  bool packs(const WeightView& view) const { return linear_packing(*exec_.kernels).packed_bytes(view) > 0; }

  // `decode`: empty where the view's bytes are the checkpoint's.
  WeightPacker::MakeValues transpose(const WeightView& view, WeightPacker::MakeValues decode) const {
    return [pool = exec_.pool, view, decode = std::move(decode)](std::byte* to) {
      WeightView source = view;
      AlignedBytes decoded(decode ? static_cast<std::size_t>(view.out) * view.row_bytes() : 0);
      if (decode) {
        decode(decoded.data());
        source.data = decoded.data();
      }
      write_transpose(pool, source, to);
    };
  }

  // `view` has its shape.
  Status bind_matrix(const TensorName& name, const TensorView& tensor, WeightView& view,
                     WeightPacker::MakeValues& decode) {
    const bool stored_rows = tensor.rows == nullptr || tensor.rows->stored(0) != nullptr;
    if (block_codes(tensor.dtype).inputs > 0 && stored_rows) return bind_codes(name, tensor, view, decode);
    if (needs_decoding(tensor)) return decode_matrix(name, tensor, view, decode);
    std::vector<std::int64_t> stored = name.shape;
    const WeightFormatInfo* info = stored_format(tensor.dtype);
    if (info == nullptr) return wrong_dtype(tensor, "floats, fp8 (e4m3) or packed fp4 (i8)");
    view.format = info->format;
    stored.back() /= info->values / dtype_block(tensor.dtype).elements;
    if (info->scale_block > 0 && view.in % info->scale_block != 0) {
      return invalid_argument(
          fmt::format("tensor {} in {}: expected a row length that is a multiple of {} for {}, found {}", tensor.name,
                      tensor.file, info->scale_block, info->name, view.in));
    }
    SLUICE_RETURN_IF_ERROR(check_shape(tensor, stored));
    view.data = tensor.data + static_cast<std::size_t>(name.first_row) * view.row_bytes();
    return info->scaled ? bind_scales(name, tensor, view) : Status();
  }

  Status bind_scales(const TensorName& name, const TensorView& tensor, WeightView& view) {
    const TensorView* scales = nullptr;
    std::string tried;
    for (const auto& candidate : scale_names(tensor.name)) {
      tried += (tried.empty() ? "" : " or ") + candidate;
      if ((scales = checkpoint_.find(candidate)) != nullptr) break;
    }
    if (scales == nullptr) {
      return invalid_argument(fmt::format("tensor {} in {} is {} and needs scales: expected {}, found none",
                                          tensor.name, tensor.file, dtype_name(tensor.dtype), tried));
    }
    used_.insert(scales->name);
    bytes_done_ += scales->bytes / static_cast<std::size_t>(product(name.shape) / (std::int64_t{view.out} * view.in));
    set_scale_blocks(view, quantization_.block_rows, quantization_.block_columns);
    view.scale_columns = (view.in + view.block_in - 1) / view.block_in;
    view.first_row = static_cast<int>(name.first_row);
    std::vector<std::int64_t> expected = name.shape;
    expected.back() = view.scale_columns;
    auto& rows = expected[expected.size() - 2];
    if (expected.size() > 2 && rows % view.block_out != 0) {
      return invalid_argument(fmt::format("tensor {} in {}: expected rows in multiples of the scale block {}, found {}",
                                          tensor.name, tensor.file, view.block_out, rows));
    }
    rows = (rows + view.block_out - 1) / view.block_out;
    SLUICE_RETURN_IF_ERROR(check_scale_shape(tensor, view, *scales, expected));
    const bool f32_scales = weight_format(view.format).f32_scales;
    view.scales = scales->data;
    if (scales->dtype == DType::kF8E8M0 || scales->dtype == DType::kU8) {
      view.scale_format = ScaleFormat::kE8m0;  // raw bytes: a numeric cast would destroy them
    } else if (scales->dtype == DType::kF32 && f32_scales) {
      view.scale_format = ScaleFormat::kF32;
    } else if (are_half_scales(*scales) && f32_scales) {
      view.scale_format = ScaleFormat::kF32;
      view.scales = widened(*scales);
    } else {
      return wrong_dtype(*scales, f32_scales ? "e8m0, f32, bf16 or f16 scales" : "e8m0 scales");
    }
    return {};
  }

  // The scales as f32, made once for all views of a tensor.
  const std::byte* widened(const TensorView& scales) {
    const std::byte*& kept = widened_[&scales];
    if (kept == nullptr) {
      bring(scales);
      kept = checkpoint_.keep(widened_scales(scales));
    }
    return kept;
  }

  const Exec& exec_;
  Checkpoint& checkpoint_;
  const QuantizationConfig& quantization_;
  std::set<std::string, std::less<>> used_, left_;
  std::map<const TensorView*, const std::byte*> widened_;
  WeightPacker& packer_;
  std::size_t bytes_done_ = 0;
};

WeightRole role_of(const WeightSpec& spec) {
  if (!spec.group.empty()) return spec.role;
  if (spec.routed_expert) return WeightRole::kRoutedExpert;
  const bool looked_up =
      std::holds_alternative<WeightView*>(spec.into) || std::holds_alternative<Param<std::int32_t>*>(spec.into);
  return looked_up ? WeightRole::kLookedUp : spec.role;
}

BoundWeight describe(const WeightSpec& spec, std::size_t stored_bytes) {
  BoundWeight bound{.name = spec.names.front().name, .role = role_of(spec)};
  bound.stored_bytes = bound.used_bytes = stored_bytes;
  if (bound.role == WeightRole::kLookedUp) bound.out = spec.shape.front();
  if (auto* const* into = std::get_if<LinearWeight*>(&spec.into)) {
    const LinearWeight& weight = **into;
    bound.out = weight.out();
    bound.in = weight.in();
    bound.inputs = weight.input_form();
    bound.format = weight.view().format;
    if (weight.packed_bytes() > 0) bound.used_bytes = weight.packed_bytes();
  }
  return bound;
}

Status missing_error(const std::vector<const WeightSpec*>& missing, const Checkpoint& checkpoint) {
  std::string text = fmt::format("the checkpoint in {} lacks {} tensor{}:", checkpoint.path(), missing.size(),
                                 missing.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < missing.size() && i < 5; ++i) {
    text += fmt::format(" {} {}{}", missing[i]->names.front().name, shape_text(missing[i]->shape),
                        i + 1 < missing.size() ? "," : "");
  }
  if (missing.size() > 5) text += " ...";
  if (const std::string hint = naming_hint(checkpoint, missing.front()->names.front().name); !hint.empty())
    return invalid_argument(text + hint);
  const bool no_head = missing.size() == 1 && missing.front()->names.back().name == kHeadName;
  if (no_head) {
    return invalid_argument(text +
                            "; it was saved without its head: take one with it, or set 'tie_word_embeddings' in "
                            "config.json if the embedding is the head");
  }
  const bool of_mtp = std::ranges::all_of(missing, [](const WeightSpec* spec) { return !spec->group.empty(); });
  return invalid_argument(text + (of_mtp ? "; it cannot draft tokens: leave speculation with MTP out"
                                         : "; is it complete, and does config.json belong to it?"));
}

}  // namespace

std::vector<std::string> scale_names(const std::string& weight_name) {
  std::vector<std::string> names;
  constexpr std::string_view kSuffix = ".weight";
  std::string stem = weight_name;
  if (stem.ends_with(kSuffix)) {
    stem.resize(stem.size() - kSuffix.size());
    names = {stem + ".scale", stem + ".weight_scale_inv", stem + ".weight_scale"};
  } else {
    names = {stem + "_scale_inv", stem + "_scale"};
  }
  return names;
}

Status load_weights(const Exec& exec, Checkpoint& checkpoint, const WeightTable& table, const ModelConfig& config,
                    const Loading& loading) {
  const auto start = std::chrono::steady_clock::now();
  LoadReport* const report = loading.report;
  WeightPacker packer(exec, loading.packing);
  Loader loader(exec, checkpoint, config.quantization, packer);
  std::vector<const WeightSpec*> missing;
  std::vector<std::pair<const WeightSpec*, std::size_t>> bound;  // with the bytes of the checkpoint
  for (const auto& spec : table) {
    const TensorView* tensor = nullptr;
    const TensorName* name = loader.find(spec, &tensor);
    if (spec.left || (!spec.group.empty() && !loading.mtp)) {
      loader.leave(tensor);
      continue;
    }
    if (name == nullptr) {
      missing.push_back(&spec);
      continue;
    }
    const std::size_t bytes_before = loader.bytes_done();
    SLUICE_RETURN_IF_ERROR(loader.bind(spec, *name, *tensor));
    bound.emplace_back(&spec, loader.bytes_done() - bytes_before);
  }
  if (!missing.empty()) return missing_error(missing, checkpoint);
  SLUICE_ASSIGN_OR_RETURN(UnusedTensors unused, judge_unused(loader.unused(), checkpoint, config));
  for (const TensorView* tensor : unused.harmless) loader.leave(tensor);
  SLUICE_RETURN_IF_ERROR(packer.finish(checkpoint, loading.progress));
  if (weights_on_device(exec)) {
    std::vector<const WeightSpec*> specs;
    for (const auto& [spec, bytes] : bound) specs.push_back(spec);
    SLUICE_RETURN_IF_ERROR(place_weights(exec, checkpoint, specs));
  }
  if (report != nullptr) {
    report->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    report->checkpoint_bytes = checkpoint.total_bytes() - loader.bytes_left();
    report->packed_bytes = packer.packed_bytes();
    report->packing = packer.outcome();
    for (const auto& [spec, bytes] : bound) report->weights.push_back(describe(*spec, bytes));
    for (const std::string& note : {unused.note, checkpoint.note()}) {
      if (!note.empty()) report->notes.push_back(note);
    }
  }
  return {};
}

}  // namespace sluice
