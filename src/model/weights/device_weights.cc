#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/device/device.h"
#include "model/weights/weight_table.h"

namespace sluice {
namespace {

constexpr std::size_t kPieceAlignment = 256;

// Host bytes that shall lie on the device, each once, in one piece of its memory.
class Placement {
 public:
  void want(const void* bytes, std::size_t count) {
    if (count == 0) return;
    const auto [place, is_new] = places_.try_emplace({static_cast<const std::byte*>(bytes), count}, bytes_);
    if (is_new) bytes_ += (count + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment;
  }
  Status upload(Device& device, Checkpoint& checkpoint) {
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory memory, device.map(bytes_, "the model's weights"));
    base_ = memory.data();
    for (const auto& [piece, offset] : places_) device.upload({base_ + offset, piece.first, piece.second});
    checkpoint.keep(std::make_shared<DeviceMemory>(std::move(memory)));
    return {};
  }
  template <class T>
  const T* at(const T* bytes, std::size_t count) const {
    if (count == 0) return nullptr;
    return reinterpret_cast<const T*>(base_ + places_.at({reinterpret_cast<const std::byte*>(bytes), count}));
  }

 private:
  std::map<std::pair<const std::byte*, std::size_t>, std::size_t> places_;
  std::size_t bytes_ = 0;
  std::byte* base_ = nullptr;
};

// Scales cover a whole tensor: those that the rows of `view` need.
struct ScaleRows {
  const std::byte* data;
  std::size_t bytes;
};
ScaleRows scale_rows(const WeightView& view) {
  if (view.scale_format == ScaleFormat::kNone || view.out == 0) return {nullptr, 0};
  const auto row_bytes =
      static_cast<std::size_t>(view.scale_columns) * static_cast<std::size_t>(scale_bytes(view.scale_format));
  const auto first = static_cast<std::size_t>(view.first_row / view.block_out);
  const auto end = static_cast<std::size_t>((view.first_row + view.out - 1) / view.block_out) + 1;
  return {view.scales + first * row_bytes, (end - first) * row_bytes};
}

std::size_t data_bytes(const WeightView& view) {
  const int rows = view.transposed() ? view.in : view.out;
  return view.data == nullptr ? 0 : static_cast<std::size_t>(rows) * view.row_bytes();
}

void want(Placement& placement, const WeightView& view) {
  placement.want(view.data, data_bytes(view));
  const ScaleRows scales = scale_rows(view);
  placement.want(scales.data, scales.bytes);
}

WeightView placed(const Placement& placement, const WeightView& view) {
  WeightView there = view;
  const ScaleRows scales = scale_rows(view);
  there.data = placement.at(view.data, data_bytes(view));
  there.scales = placement.at(scales.data, scales.bytes);
  there.first_row = view.first_row % view.block_out;
  return there;
}

}  // namespace

bool weights_on_device(const Exec& exec) {
  return exec.device != nullptr && exec.device != &cpu_device();
}

Status place_weights(const Exec& exec, Checkpoint& checkpoint, std::span<const WeightSpec* const> bound) {
  Placement placement;
  const auto each = [&](const auto& linear, const auto& view, const auto& param) {
    for (const WeightSpec* spec : bound) {
      if (auto* const* weight = std::get_if<LinearWeight*>(&spec->into)) {
        linear(**weight);
      } else if (auto* const* in_place = std::get_if<WeightView*>(&spec->into)) {
        view(**in_place);
      } else if (auto* const* floats = std::get_if<Param<float>*>(&spec->into)) {
        param(**floats);
      } else {
        param(*std::get<Param<std::int32_t>*>(spec->into));
      }
    }
  };
  const auto bytes_of = [](const auto& param) { return param.size() * sizeof(*param.data()); };
  each(
      [&](const LinearWeight& weight) {
        if (weight.packed_bytes() == 0) return want(placement, weight.view());
        if (!weight.is_placed()) placement.want(weight.packed(), weight.packed_bytes());
      },
      [&](const WeightView& view) { want(placement, view); },
      [&](const auto& param) { placement.want(param.data(), bytes_of(param)); });
  SLUICE_RETURN_IF_ERROR(placement.upload(*exec.device, checkpoint));
  each(
      [&](LinearWeight& weight) {
        if (weight.packed_bytes() == 0) return weight.place(placed(placement, weight.view()), nullptr);
        if (weight.is_placed()) return;
        weight.place(weight.view(), placement.at(weight.packed(), weight.packed_bytes()));
      },
      [&](WeightView& view) { view = placed(placement, view); },
      [&](auto& param) { param.place(placement.at(param.data(), bytes_of(param))); });
  return exec.device->status();
}

}  // namespace sluice
