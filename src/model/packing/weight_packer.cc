// Used by model/weights/weight_table.cc.
#include "model/packing/weight_packer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/storage/cache_folder.h"
#include "base/storage/large_bytes.h"
#include "kernels/device/device.h"
#include "kernels/ops/linear.h"
#include "model/packing/pack_cache.h"
#include "model/weights/weight_table.h"

namespace sluice {
namespace {

// Weights begin at cache lines.
constexpr std::size_t kAlignment = 64;

bool unchanged(const std::vector<std::pair<std::string, FileIdentity>>& files) {
  return std::ranges::all_of(files, [](const auto& file) {
    const auto now = identify_file(file.first);
    return now.ok() && now.value() == file.second;
  });
}

// A file that was written at this very moment may be written again without its times telling.
bool settled(const std::vector<const MappedFile*>& files, int seconds) {
  const auto now =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  return std::ranges::all_of(files, [&](const MappedFile* file) {
    const std::int64_t age = now - file->identity().changed;
    return age >= std::int64_t{seconds} * 1'000'000'000 && file->identity().bytes > 0;
  });
}

Result<PackCache> open_cache_folder(const PackingOptions& options) {
  if (!options.cache_folder.empty()) return PackCache::open(options.cache_folder);
  SLUICE_ASSIGN_OR_RETURN(const std::filesystem::path folder, cache_folder());
  return PackCache::open(folder / "packed");
}

std::optional<PackCache> open_cache(const PackingOptions& options) {
  auto cache = open_cache_folder(options);
  if (cache.ok()) return std::move(cache).value();
  log_warning("packed weights: not kept for the next start: {}", cache.status().message());
  return std::nullopt;
}

// Objects that outlive the loading of weights that were packed now. The keeper is destroyed first, as it reads the
// bytes.
struct PackedNow {
  LargeBytes bytes;
  std::optional<PackKeeper> keeper;
};

}  // namespace

bool WeightPacker::packs_later(const WeightView& view, InputForm inputs) const {
  return options_.pack && linear_packing(*exec_.kernels).of(view, inputs).packed_bytes(view) > 0;
}

void WeightPacker::add(std::string name, LinearWeight& into, const WeightView& view, InputForm inputs,
                       MakeValues values) {
  const LinearPacking& packing = linear_packing(*exec_.kernels).of(view, inputs);
  const std::size_t bytes = packing.packed_bytes(view);
  if (bytes > 0 && options_.pack) {
    into = LinearWeight::make(view, inputs, {.packed = nullptr, .packed_bytes = bytes});
    if (!values && !view.transposed()) {
      const auto [before, is_new] =
          packed_before_.try_emplace({view.data, view.scales, view.out, view.in, inputs}, items_.size());
      if (!is_new) return copies_.push_back({&into, before->second});
    }
    items_.push_back({&into, {std::move(name), view, inputs, bytes}, std::move(values), arena_bytes_});
    arena_bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  } else if (values) {  // the values are made: no file holds them
    AlignedBytes made(static_cast<std::size_t>(view.out) * view.row_bytes());
    values(made.data());
    WeightView of_made = view;
    of_made.data = made.data();
    into = LinearWeight::make(of_made, inputs, packs_for(exec_, std::move(made)));
  } else if (view.transposed()) {  // its rows cannot be packed one by one later
    into = LinearWeight::make(view, inputs, packs_for(exec_));
  } else {
    into = LinearWeight::make(view, inputs, {.packing = &packing, .when_used = true});
  }
  packed_bytes_ += into.packed_bytes();
}

Status WeightPacker::finish(Checkpoint& checkpoint, const LoadProgress& progress) {
  if (items_.empty()) return {};
  if (weights_on_device(exec_)) return pack_to_device(checkpoint, progress);
  const std::vector<const MappedFile*> files = checkpoint.mappings();
  const bool cached = options_.cache && !files.empty() && arena_bytes_ >= options_.cache_from &&
                      settled(files, options_.settled_seconds);
  std::optional<PackCache> cache = cached ? open_cache(options_) : std::nullopt;
  const PackedKey key = cache ? key_of(checkpoint) : PackedKey{};
  if (cache) {
    auto found = cache->find(key, arena_bytes_, *exec_.pool, progress);
    if (found.ok()) {
      auto file = std::make_shared<PackedFile>(std::move(found).value());
      point_all(file->bytes().data());
      outcome_ = fmt::format("mapped from {}", cache->path_of(key));
      if (checkpoint.served() != nullptr) checkpoint.served()->add(file->share(), file->comparison());
      checkpoint.keep(std::move(file));
      return {};
    }
  }
  auto now = std::make_shared<PackedNow>();
  now->bytes = LargeBytes(arena_bytes_);
  pack_items(items_, checkpoint, now->bytes.data(), progress);
  point_all(now->bytes.data());
  outcome_ = "packed now";
  if (cache) {
    std::vector<std::pair<std::string, FileIdentity>> identities;
    for (const MappedFile* file : files) identities.emplace_back(file->path(), file->identity());
    now->keeper.emplace(*std::move(cache), key, std::span(std::as_const(now->bytes).data(), arena_bytes_),
                        [identities = std::move(identities)] { return unchanged(identities); });
  }
  checkpoint.keep(std::move(now));
  return {};
}

// Some weights at a time, so that the host never holds them all.
Status WeightPacker::pack_to_device(Checkpoint& checkpoint, const LoadProgress& progress) {
  constexpr std::size_t kBytesAtOnce = std::size_t{256} << 20;
  Device& device = *exec_.device;
  SLUICE_ASSIGN_OR_RETURN(DeviceMemory memory, device.map(arena_bytes_, "the model's packed weights"));
  if (!checkpoint.version().empty() && arena_bytes_ >= options_.copy_made_from) {
    copy_to_device(checkpoint, memory.data(), progress);
    return keep_on_device(checkpoint, std::move(memory));
  }
  LargeBytes bytes;
  for (std::size_t first = 0, end = 0; first < items_.size(); first = end) {
    const std::size_t begin = items_[first].offset;
    const auto bytes_to = [&](std::size_t i) { return (i < items_.size() ? items_[i].offset : arena_bytes_) - begin; };
    do ++end;
    while (end < items_.size() && bytes_to(end + 1) <= kBytesAtOnce);
    if (bytes.size() < bytes_to(end)) bytes = LargeBytes(bytes_to(end));
    pack_items(std::span(items_).subspan(first, end - first), checkpoint, bytes.data(), progress);
    device.upload({memory.data() + begin, bytes.data(), bytes_to(end)});
  }
  return keep_on_device(checkpoint, std::move(memory));
}

// Copies the weights to the device. Among made weights only the first of each shape is packed; the others are copies of
// its bytes.
void WeightPacker::copy_to_device(Checkpoint& checkpoint, std::byte* memory, const LoadProgress& progress) {
  std::map<std::tuple<WeightFormat, ScaleFormat, int, int, InputForm, std::size_t>, const Item*> firsts;
  AlignedBytes packed;
  for (const Item& item : items_) {
    const WeightView& view = item.place.view;
    const auto [first, is_new] = firsts.try_emplace(
        {view.format, view.scale_format, view.out, view.in, item.place.inputs, item.place.bytes}, &item);
    if (is_new) {
      if (packed.size() < item.place.bytes) packed = AlignedBytes(item.place.bytes);
      pack_items({&item, 1}, checkpoint, packed.data(), {});
      exec_.device->upload({memory + item.offset, packed.data(), item.place.bytes});
    } else {
      exec_.device->copy({memory + item.offset, memory + first->second->offset, item.place.bytes});
    }
    if (progress) progress(item.offset + item.place.bytes, arena_bytes_);
  }
}

Status WeightPacker::keep_on_device(Checkpoint& checkpoint, DeviceMemory memory) {
  const Device& device = *exec_.device;
  point_all(memory.data());
  for (const Item& item : items_) item.into->place(item.into->view(), memory.data() + item.offset);
  for (const Copy& copy : copies_) {
    copy.into->place(copy.into->view(), memory.data() + items_[copy.of].offset);
  }
  checkpoint.keep(std::make_shared<DeviceMemory>(std::move(memory)));
  outcome_ = fmt::format("packed now for {}", device.name());
  return device.status();
}

PackedKey WeightPacker::key_of(const Checkpoint& checkpoint) const {
  std::vector<PackedWeightPlace> places;
  for (const Item& item : items_) places.push_back(item.place);
  return pack_key(checkpoint.mappings(), places, *exec_.kernels);
}

void WeightPacker::pack_items(std::span<const Item> items, const Checkpoint& checkpoint, std::byte* to,
                              const LoadProgress& progress) const {
  const LinearPacking& packing = linear_packing(*exec_.kernels);
  struct Piece {
    const Item* item;
    int begin, end;
  };
  std::vector<Piece> pieces;
  // Pieces of many weights at once, so that no thread waits for another at the end of each.
  constexpr std::size_t kBytesAtOnce = std::size_t{64} << 20;
  constexpr int kPieceOutputs = 256;
  std::size_t bytes = 0;
  std::vector<std::span<const std::byte>> read;  // bytes of the checkpoint that the pieces read
  const std::size_t begin_offset = items.front().offset;
  const auto pack_pieces = [&](const std::byte* values) {
    for (const auto& bytes_of_view : read) checkpoint.bring(bytes_of_view, *exec_.pool);
    exec_.pool->run(static_cast<int>(pieces.size()), [&](int i, int) {
      const Piece& piece = pieces[static_cast<std::size_t>(i)];
      WeightView view = piece.item->place.view;
      if (values != nullptr) view.data = values;
      packing.of(view, piece.item->place.inputs)
          .pack(view, piece.begin, piece.end, to + (piece.item->offset - begin_offset));
    });
    if (progress && !pieces.empty())
      progress(pieces.back().item->offset + pieces.back().item->place.bytes, arena_bytes_);
    for (const auto& bytes_of_view : read) checkpoint.leave(bytes_of_view);
    read.clear();
    pieces.clear();
    bytes = 0;
  };
  const auto add_pieces = [&](const Item& item) {
    const int out = item.place.view.out, tile = packing.of(item.place.view, item.place.inputs).out_tile;
    const int step = (kPieceOutputs + tile - 1) / tile * tile;
    for (int begin = 0; begin < out; begin += step) pieces.push_back({&item, begin, std::min(out, begin + step)});
    bytes += item.place.bytes;
  };
  AlignedBytes made;
  for (const Item& item : items) {
    if (item.values) {
      pack_pieces(nullptr);
      const WeightView& view = item.place.view;
      const std::size_t needed = static_cast<std::size_t>(view.out) * view.row_bytes();
      if (made.size() < needed) made = AlignedBytes(needed);
      item.values(made.data());
      add_pieces(item);
      pack_pieces(made.data());
    } else {
      const WeightView& view = item.place.view;
      read.push_back(view.stored_rows());
      if (view.scales != nullptr) read.push_back(view.scale_rows());
      add_pieces(item);
      if (bytes >= kBytesAtOnce) pack_pieces(nullptr);
    }
  }
  pack_pieces(nullptr);
}

void WeightPacker::point_all(const std::byte* base) {
  for (const Item& item : items_) {
    *item.into = LinearWeight::make(item.place.view, item.place.inputs,
                                    {.packed = base + item.offset, .packed_bytes = item.place.bytes});
  }
  for (const Copy& copy : copies_) {
    const Item& item = items_[copy.of];
    *copy.into = LinearWeight::make(item.place.view, item.place.inputs,
                                    {.packed = base + item.offset, .packed_bytes = item.place.bytes});
  }
}

}  // namespace sluice
