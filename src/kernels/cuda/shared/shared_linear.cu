// linear (kernels/ops/linear.h): the products of a call that share a weight format and a cut are one launch.
// Used by kernels/cuda/shared and kernels/cuda/sm90.
#include <algorithm>
#include <vector>

#include "kernels/cuda/shared/linear_products.h"
#include "kernels/cuda/shared/linear_tile.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

template <class Weights>
struct Linear {
  static constexpr int kRows = kManyRows;
  static constexpr int kThreads = kLinearThreads;
  TiledProduct products[kMostProducts];
  LinearCut cut;
  int count, rows;

  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    int i = 0;
    while (i + 1 < count && team.index >= products[i + 1].first_team) ++i;
    const LinearProduct& product = products[i].product;
    const int tile = team.index - products[i].first_team, out_tiles = products[i].out_tiles;
    RowGroup group{product.weight.data, tile / out_tiles * kRows, 0};
    group.rows = rows - group.first < kRows ? rows - group.first : kRows;
    if (product.groups != nullptr) group = product.groups[tile / out_tiles];
    if (group.rows <= 0) return;
    const auto x_row = [&](int r) {
      const std::ptrdiff_t row = product.x_rows != nullptr ? product.x_rows[group.first + r] : group.first + r;
      return product.x + row * product.ldx;
    };
    const auto y_row = [&](int r) { return product.y + (group.first + r) * product.ldy; };
    LinearTile<Weights, kRows, decltype(x_row), decltype(y_row)>(team, product.weight, group.data, cut, product.form,
                                                                 product.prepared, x_row, y_row)
        .run(tile % out_tiles * cut.parts * cut.outputs, group.rows);
  }
};

// Returns the blocks of a piece: 1,024 inputs of each row lie in shared memory at once.
int piece_of(const CudaLinear& weight) {
  return std::min(weight.blocks, std::max(1, 1024 / weight.block));
}

bool share_a_launch(const LinearProduct& a, const LinearProduct& b) {
  return a.form == b.form && a.weight.coding == b.weight.coding && a.weight.block == b.weight.block &&
         scaled_first(a.weight, a.form) == scaled_first(b.weight, b.form) &&
         piece_of(a.weight) == piece_of(b.weight);
}

int row_tiles(const LinearProduct& product, int rows, int of_tile) {
  return product.groups != nullptr ? product.group_count : (rows + of_tile - 1) / of_tile;
}

// Cuts products so that each thread has something to do. With many outputs, a tile has more of them, to share the cost
// of the inputs, so that about as many tiles are left as a GPU runs at once.
LinearCut cut_of(std::span<const LinearProduct> products, int rows) {
  constexpr int kTiles = 1024, kMostPartials = 1056, kMostSums = 1024;
  LinearCut cut{.rows = kManyRows, .piece = piece_of(products[0].weight), .int8 = products[0].form == InputForm::kInt8};
  cut.outputs = kLinearOutputs * std::max(1, kLinearThreads / cut.piece);
  const auto tiles = [&](int outputs) {
    std::int64_t count = 0;
    for (const LinearProduct& product : products) {
      count += std::int64_t{(product.weight.out + outputs - 1) / outputs} * row_tiles(product, rows, cut.rows);
    }
    return count;
  };
  while (tiles(2 * cut.outputs) >= kTiles && 2 * cut.outputs * cut.partial_stride() * cut.rows <= kMostPartials) {
    cut.outputs *= 2;
  }
  const std::int64_t parts = (tiles(cut.outputs) + kTiles - 1) / kTiles;
  cut.parts = static_cast<int>(
      std::clamp<std::int64_t>(parts, 1, std::max(1, kMostSums / (cut.outputs * cut.rows))));
  return cut;
}

template <class Weights>
void launch_products(const Exec& exec, int rows, const std::vector<LinearProduct>& products) {
  const LinearCut cut = cut_of(products, rows);
  const int outputs = cut.parts * cut.outputs;
  for (std::size_t from = 0; from < products.size(); from += kMostProducts) {
    Linear<Weights> kernel{};
    kernel.cut = cut;
    kernel.rows = rows;
    kernel.count = static_cast<int>(std::min<std::size_t>(kMostProducts, products.size() - from));
    int teams = 0;
    for (int i = 0; i < kernel.count; ++i) {
      const LinearProduct& product = products[from + static_cast<std::size_t>(i)];
      const int out_tiles = (product.weight.out + outputs - 1) / outputs;
      kernel.products[i] = {product, teams, out_tiles};
      teams += out_tiles * row_tiles(product, rows, kManyRows);
    }
    launch(exec, teams, kernel, cut.shared_bytes(products[from].weight.block));
  }
}

}  // namespace

CudaLinear packed_linear(const LinearWeight& weight) {
  CudaLinear packed(weight.view());
  packed.data = weight.packed();
  SLUICE_CHECK(packed.bytes() == weight.packed_bytes(), "a weight packed by cuda_linear_packing()");
  return packed;
}

void multiply(const Exec& exec, int rows, bool many, std::span<const LinearProduct> products) {
  std::vector<LinearProduct> left(products.begin(), products.end());
  while (!left.empty()) {
    const LinearProduct first = left[0];
    const bool row_kernel = !many && has_row_kernel(first);
    std::vector<LinearProduct> together, others;
    for (const LinearProduct& product : left) {
      const bool same = row_kernel ? has_row_kernel(product) && share_a_row_launch(product, first)
                                   : (many || !has_row_kernel(product)) && share_a_launch(product, first);
      (same ? together : others).push_back(product);
    }
    if (row_kernel) {
      multiply_row(exec, together);
    } else {
      with_variant(first.weight, first.form,
                   [&]<class Weights>(Weights) { launch_products<Weights>(exec, rows, together); });
    }
    left = std::move(others);
  }
}

void linear(const Exec& exec, const LinearArgs& args) {
  if (args.rows == 0) return;
  std::vector<LinearProduct> products;
  for (const LinearJob& job : args.jobs) {
    products.push_back({packed_linear(*job.weight), values_form(job.weight->input_form()), job.x, job.ldx, job.x_prepared,
                        job.x_rows, job.y, job.ldy});
  }
  if (products.size() == 1 && multiply_few_outputs(exec, args.rows, products[0])) return;
  multiply(exec, args.rows, args.rows > 1, products);
}

}  // namespace sluice::SLUICE_CUDA_OPS
