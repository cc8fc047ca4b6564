#include <algorithm>
#include <cstring>
#include <set>

#include "base/aligned.h"
#include "base/sha256.h"
#include "model/packing/pack_cache.h"

namespace sluice {
namespace {

template <class T>
void add(Sha256& hash, const T& value) {
  static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
  hash.add(&value, sizeof(value));
}

void add_text(Sha256& hash, std::string_view text) {
  add(hash, text.size());
  hash.add(text.data(), text.size());
}

void add_file(Sha256& hash, const MappedFile& file) {
  const FileIdentity& identity = file.identity();
  add(hash, identity.inode);
  add(hash, identity.bytes);
  add(hash, identity.modified);
  add(hash, identity.changed);
  constexpr std::size_t kHead = std::size_t{1} << 20, kSample = 4096, kSamples = 64;
  const auto bytes = file.bytes();
  hash.add(bytes.data(), std::min(kHead, bytes.size()));
  if (bytes.size() < kHead) return;
  for (std::size_t i = 1; i <= kSamples; ++i) {
    hash.add(bytes.data() + (bytes.size() - kSample) / kSamples * i, kSample);
  }
}

// The values that packing depends on besides the bytes.
using Kind = std::vector<std::int64_t>;
Kind kind_of(const PackedWeightPlace& weight) {
  const WeightView& view = weight.view;
  return {static_cast<int>(view.format),
          static_cast<int>(view.scale_format),
          static_cast<int>(weight.inputs),
          view.block_out,
          view.block_in,
          view.in % 256,
          weight_format(view.format).has_codes() ? static_cast<int>(view.codes) : -1};
}

// A weight like this one of known bytes, one tile and a part of one, as it is packed.
void add_packed_sample(Sha256& hash, const WeightView& like, const LinearPacking& packing) {
  constexpr int kInputs = 256;
  WeightView view = like;
  view.in = std::min(like.in, 2 * kInputs + like.in % kInputs);
  view.out =
      packing.out_tile + (view.transposed() ? dtype_block(view.codes).elements : 5);  // stored rows are whole blocks
  view.first_row = 0;
  view.scale_columns = view.scale_format == ScaleFormat::kNone ? 0 : (view.in + view.block_in - 1) / view.block_in;
  const auto fill = [](AlignedBytes& bytes, std::uint32_t state) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      state = state * 1664525U + 1013904223U;
      bytes.data()[i] = static_cast<std::byte>(state >> 24);
    }
  };
  AlignedBytes data(static_cast<std::size_t>(view.transposed() ? view.in : view.out) * view.row_bytes());
  AlignedBytes scales(static_cast<std::size_t>(view.out) * static_cast<std::size_t>(view.scale_columns) *
                      sizeof(float));
  fill(data, 1);
  fill(scales, 2);
  view.data = data.data();
  view.scales = scales.data();
  AlignedBytes packed(packing.packed_bytes(view), /*zero=*/true);
  packing.pack(view, 0, view.out, packed.data());
  hash.add(packed.data(), packed.size());
}

}  // namespace

PackedKey pack_key(std::span<const MappedFile* const> files, std::span<const PackedWeightPlace> weights,
                   const KernelTable& kernels) {
  Sha256 hash;
  hash.begin();
  add_text(hash, isa_name(kernels));
  add(hash, files.size());
  for (const MappedFile* file : files) add_file(hash, *file);
  add(hash, weights.size());
  std::set<Kind> kinds;
  for (const PackedWeightPlace& weight : weights) {
    const WeightView& view = weight.view;
    add_text(hash, weight.name);
    add(hash, view.out);
    add(hash, view.in);
    add(hash, view.scale_columns);
    add(hash, view.first_row);
    add(hash, weight.bytes);
    const Kind kind = kind_of(weight);
    for (const std::int64_t part : kind) add(hash, part);
    if (kinds.insert(kind).second) add_packed_sample(hash, view, linear_packing(kernels).of(view, weight.inputs));
  }
  return hash.finish();
}

}  // namespace sluice
