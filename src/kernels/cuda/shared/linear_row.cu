// Products with one row (linear_row.h).
#include <algorithm>
#include <vector>

#include "kernels/cuda/shared/linear_products.h"
#include "kernels/cuda/shared/linear_row.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

template <class Weights>
struct LinearRow {
  static constexpr int kThreads = kRowThreadsOfTile;
  static constexpr int kResident = kRowResident;
  static constexpr bool kWaits = true;
  struct Tiles {
    int first_team, out_tiles;
  };
  LinearProduct products[kMostProducts];
  Tiles tiles[kMostProducts];
  RowCut cut;
  int count;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    int i = 0;
    while (i + 1 < count && team.index >= tiles[i + 1].first_team) ++i;
    const LinearProduct& product = products[i];
    const int tile = team.index - tiles[i].first_team, out_tiles = tiles[i].out_tiles;
    RowGroup group{product.weight.data, tile / out_tiles, 1};
    if (product.groups != nullptr) {
      wait_for_kernels();
      group = product.groups[tile / out_tiles];
    }
    if (group.rows <= 0) return;
    const auto x_row = [&](int) {
      const std::ptrdiff_t row = product.x_rows != nullptr ? product.x_rows[group.first] : group.first;
      return product.x + row * product.ldx;
    };
    RowTile<Weights, decltype(x_row)>(team, product.weight, group.data, cut, product.form, product.prepared, x_row,
                                      product.y + group.first * product.ldy)
        .run(tile % out_tiles * cut.parts * cut.outputs);
  }
};

std::size_t bits_of(Coding coding) {
  switch (coding) {
    case Coding::kF32:
      return 32;
    case Coding::kBf16:
      return 16;
    case Coding::kE4m3:
    case Coding::kInt8:
      return 8;
    default:
      return 4;
  }
}

int rounded_up(std::int64_t value, int to) {
  return static_cast<int>((value + to - 1) / to * to);
}

std::int64_t row_count(const LinearProduct& product) {
  return product.groups != nullptr ? product.group_count : 1;
}

// Cuts products into one tile for each team that the GPU runs at once, with as many outputs as that leaves, and
// `inputs` of each at once. In a part of a tile each thread has a block, or some if a block is short.
RowCut cut_of(std::span<const LinearProduct> products, int together, int teams, int inputs) {
  constexpr int kMostPartials = 2112, kMostScales = 4096;  // words
  const CudaLinear& first = products[0].weight;
  RowCut cut{.together = together};
  std::int64_t all = 0, most = 0, scale_words = 0;
  for (const LinearProduct& product : products) {
    const CudaLinear& w = product.weight;
    cut.piece = std::max(cut.piece, std::min(w.blocks, std::max(1, inputs / w.block)));
    cut.int8 = product.form == InputForm::kInt8;
    cut.floats = cut.floats || !cut.int8 || !product.prepared;
    scale_words = std::max(scale_words, static_cast<std::int64_t>(w.scale_row_bytes / 4));
    all += row_count(product) * w.out;
    most = std::max(most, std::int64_t{w.out});
  }
  cut.scale_words = static_cast<int>(scale_words);
  const int passes = first.chunks >= 4 ? 1 : 4;
  const int busy = together * std::max(1, kRowThreadsOfTile * passes / cut.piece);
  const int room = kMostPartials / cut.partial_stride() / together * together;
  const int limit = std::max(together, std::min(busy, room));
  const auto tiles = [&] {
    std::int64_t count = 0;
    for (const LinearProduct& product : products) {
      count += row_count(product) * ((product.weight.out + cut.parts * cut.outputs - 1) / (cut.parts * cut.outputs));
    }
    return count;
  };
  const std::int64_t share = std::min((all + teams - 1) / teams, most);
  cut.parts = static_cast<int>((share + limit - 1) / limit);
  cut.outputs = rounded_up((share + cut.parts - 1) / cut.parts, together);
  while (tiles() > teams && cut.parts * cut.outputs < most) {
    if (cut.outputs + together <= limit) {
      cut.outputs += together;
    } else {
      ++cut.parts;
    }
  }
  while (cut.parts > 1 && cut.scales() > kMostScales) --cut.parts;
  return cut;
}

RowCut cut_of(const Exec& exec, std::span<const LinearProduct> products, int together) {
  const int teams = kRowResident * processors(exec), block = products[0].weight.block;
  const RowCut cut = cut_of(products, together, teams, 8192);
  return cut.shared_bytes(block) <= kMostRowShared ? cut : cut_of(products, together, teams, 4096);
}

}  // namespace

bool has_row_kernel(const LinearProduct& product) {
  const CudaLinear& w = product.weight;
  const bool whole =
      w.row_bytes * 8 == static_cast<std::size_t>(w.blocks) * static_cast<std::size_t>(w.block) * bits_of(w.coding);
  return whole && !(scaled_first(w, product.form) && w.in % w.block != 0);
}

bool share_a_row_launch(const LinearProduct& a, const LinearProduct& b) {
  return a.form == b.form && a.weight.coding == b.weight.coding && a.weight.block == b.weight.block &&
         scaled_first(a.weight, a.form) == scaled_first(b.weight, b.form);
}

void multiply_row(const Exec& exec, std::span<const LinearProduct> products) {
  with_variant(products[0].weight, products[0].form, [&]<class Weights>(Weights) {
    const RowCut cut = cut_of(exec, products, Weights::kRowOutputs);
    const int outputs = cut.parts * cut.outputs;
    for (std::size_t from = 0; from < products.size(); from += kMostProducts) {
      LinearRow<Weights> kernel{};
      kernel.cut = cut;
      kernel.count = static_cast<int>(std::min<std::size_t>(kMostProducts, products.size() - from));
      std::int64_t teams = 0;
      for (int i = 0; i < kernel.count; ++i) {
        const LinearProduct& product = products[from + static_cast<std::size_t>(i)];
        const int out_tiles = (product.weight.out + outputs - 1) / outputs;
        kernel.products[i] = product;
        kernel.tiles[i] = {static_cast<int>(teams), out_tiles};
        teams += out_tiles * row_count(product);
      }
      launch(exec, teams, kernel, cut.shared_bytes(products[0].weight.block));
    }
  });
}

}  // namespace sluice::SLUICE_CUDA_OPS
