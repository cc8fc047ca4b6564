// linear (kernels/linear.h): the products of a call that share a weight format and a cut are one launch.
#include <algorithm>
#include <vector>

#include "kernels/cuda/shared/linear_products.h"
#include "kernels/cuda/shared/linear_tile.h"

namespace sluice::SLUICE_CUDA_OPS {
namespace {

struct TiledProduct {
  LinearProduct product;
  int first_team, out_tiles;
};

constexpr int kMostProducts = 20;  // of a launch

template <class Weights, int kRows>
struct Linear {
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

// Whether the scale multiplies each weight instead of a block's sum.
bool scaled_first(const CudaLinear& weight, InputForm form) {
  return form == InputForm::kF32 && weight.scale_kind == CudaScaleKind::kF32;
}

// Calls run(Weights{}) with the format of the kernel.
template <class Run>
void with_variant(const CudaLinear& weight, InputForm form, const Run& run) {
  const bool int8 = form == InputForm::kInt8;
  switch (weight.kind) {
    case CudaWeightKind::kF32:
      return run(F32Weights{});
    case CudaWeightKind::kBf16:
      return run(Bf16Weights{});
    case CudaWeightKind::kFp8:
      return scaled_first(weight, form) ? run(Fp8Weights<false>{}) : run(Fp8Weights<true>{});
    case CudaWeightKind::kMxfp4:
      return int8 ? run(Mxfp4Integers{}) : run(Mxfp4Weights{});
    case CudaWeightKind::kCodes4:
      return int8 ? run(CodeIntegers<true>{}) : run(CodeWeights<true>{});
    case CudaWeightKind::kCodes8:
      return int8 ? run(CodeIntegers<false>{}) : run(CodeWeights<false>{});
  }
}

// Inputs of 4,096 floats lie in shared memory at once, of one row, or 1,024 of each of eight.
int piece_of(const CudaLinear& weight, bool many) {
  return std::min(weight.blocks, std::max(1, (many ? 1024 : 4096) / weight.block));
}

bool share_a_launch(const LinearProduct& a, const LinearProduct& b, bool many) {
  return a.form == b.form && a.weight.kind == b.weight.kind && a.weight.block == b.weight.block &&
         scaled_first(a.weight, a.form) == scaled_first(b.weight, b.form) &&
         piece_of(a.weight, many) == piece_of(b.weight, many);
}

int row_tiles(const LinearProduct& product, int rows, int of_tile) {
  return product.groups != nullptr ? product.group_count : (rows + of_tile - 1) / of_tile;
}

// Each thread has something to do. Where there are many outputs, a tile has more of them, for what the inputs cost, so
// that about as many tiles are left as a GPU runs at once.
LinearCut cut_of(std::span<const LinearProduct> products, int rows, bool many) {
  constexpr int kTiles = 1024, kMostPartials = 1056, kMostSums = 1024;
  LinearCut cut{.rows = many ? kManyRows : 1,
                .piece = piece_of(products[0].weight, many),
                .int8 = products[0].form == InputForm::kInt8};
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

template <class Weights, int kRows>
void launch_products(const Exec& exec, int rows, const std::vector<LinearProduct>& products) {
  const LinearCut cut = cut_of(products, rows, kRows > 1);
  const int outputs = cut.parts * cut.outputs;
  for (std::size_t from = 0; from < products.size(); from += kMostProducts) {
    Linear<Weights, kRows> kernel{};
    kernel.cut = cut;
    kernel.rows = rows;
    kernel.count = static_cast<int>(std::min<std::size_t>(kMostProducts, products.size() - from));
    int teams = 0;
    for (int i = 0; i < kernel.count; ++i) {
      const LinearProduct& product = products[from + static_cast<std::size_t>(i)];
      const int out_tiles = (product.weight.out + outputs - 1) / outputs;
      kernel.products[i] = {product, teams, out_tiles};
      teams += out_tiles * row_tiles(product, rows, kRows);
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
    std::vector<LinearProduct> together, others;
    for (const LinearProduct& product : left) {
      (share_a_launch(product, first, many) ? together : others).push_back(product);
    }
    with_variant(first.weight, first.form, [&]<class Weights>(Weights) {
      if (many) {
        launch_products<Weights, kManyRows>(exec, rows, together);
      } else {
        launch_products<Weights, 1>(exec, rows, together);
      }
    });
    left = std::move(others);
  }
}

void linear(const Exec& exec, const LinearArgs& args) {
  if (args.rows == 0) return;
  std::vector<LinearProduct> products;
  for (const LinearJob& job : args.jobs) {
    products.push_back({packed_linear(*job.weight), job.weight->input_form(), job.x, job.ldx, job.x_prepared,
                        job.x_rows, job.y, job.ldy});
  }
  multiply(exec, args.rows, args.rows > 1, products);
}

}  // namespace sluice::SLUICE_CUDA_OPS
