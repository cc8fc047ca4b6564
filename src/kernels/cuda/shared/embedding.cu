// embed (kernels/ops/embedding.h): each thread has a value, or a part of integer codes.
// Called through the table of ops (kernels/ops/ops.h).
#include "base/formats/block_codes.h"
#include "base/formats/block_types.h"
#include "kernels/cuda/launch.h"
#include "kernels/ops/embedding.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

struct EmbedValues {
  static constexpr int kThreads = 1;
  const TokenId* ids;
  const std::byte* table;
  bool f32;
  int dim, copies;
  float* out;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int t = team.index / dim, d = team.index % dim;
    const std::size_t at = static_cast<std::size_t>(ids[t]) * static_cast<std::size_t>(dim) + static_cast<unsigned>(d);
    const float value =
        f32 ? reinterpret_cast<const float*>(table)[at] : to_float(reinterpret_cast<const bf16*>(table)[at]);
    for (int c = 0; c < copies; ++c) out[(static_cast<std::ptrdiff_t>(t) * copies + c) * dim + d] = value;
  }
};

struct EmbedCodes {
  static constexpr int kThreads = 1;
  const TokenId* ids;
  const std::byte* table;
  std::size_t row_bytes;
  DType codes;
  BlockCodes form;
  DTypeBlock block;
  int dim, copies;
  float* out;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int parts = dim / form.inputs, t = team.index / parts, p = team.index % parts;
    const int of_block = block.elements / form.inputs;
    const std::byte* at = table + static_cast<std::size_t>(ids[t]) * row_bytes +
                          static_cast<std::size_t>(p / of_block) * static_cast<std::size_t>(block.bytes);
    CodedPart part;
    float values[32];
    read_part_of_block(codes, at, static_cast<std::size_t>(p % of_block), part);
    decode_part(form, part, values);
    for (int c = 0; c < copies; ++c) {
      float* to = out + (static_cast<std::ptrdiff_t>(t) * copies + c) * dim + p * form.inputs;
      for (int i = 0; i < form.inputs; ++i) to[i] = values[i];
    }
  }
};

}  // namespace

void embed(const Exec& exec, const EmbedArgs& args) {
  const WeightView& table = *args.table;
  const auto rows = static_cast<std::int64_t>(args.ids.size());
  if (table.format == WeightFormat::kCodes) {
    const BlockCodes form = block_codes(table.codes);
    launch(exec, rows * (table.in / form.inputs),
           EmbedCodes{args.ids.data(), table.data, table.row_bytes(), table.codes, form, dtype_block(table.codes),
                      table.in, args.copies, args.out});
    return;
  }
  SLUICE_CHECK(table.format == WeightFormat::kF32 || table.format == WeightFormat::kBf16,
               "embedding tables are f32, bf16 or codes");
  launch(exec, rows * table.in,
         EmbedValues{args.ids.data(), table.data, table.format == WeightFormat::kF32, table.in, args.copies, args.out});
}

}  // namespace sluice::SLUICE_CUDA_OPS
