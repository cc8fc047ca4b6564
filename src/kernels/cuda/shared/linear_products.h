// Products with packed weights, of which several ops are made.
// Used by kernels/cuda/shared and kernels/cuda/sm90.
#pragma once

#include <span>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/linear_layout.h"
#include "kernels/ops/linear.h"

namespace sluice::SLUICE_CUDA_OPS {

inline constexpr int kManyRows = 8;  // rows of a tile, if a product has more than one

// Rows of a product that share a weight, as found by a kernel before it: at most as many as a tile has.
struct RowGroup {
  const std::byte* data;  // the packed weight; unspecified if the group has no rows
  int first, rows;
};

// y [rows, out] = W x. Row r of x is row x_rows[r], or r where that is null.
struct LinearProduct {
  CudaLinear weight;
  InputForm form = InputForm::kF32;
  const float* x = nullptr;  // floats, or prepared: in the form `form` (kernels/weights/linear_inputs.h)
  std::ptrdiff_t ldx = 0;
  bool prepared = false;
  const std::int32_t* x_rows = nullptr;
  float* y = nullptr;
  std::ptrdiff_t ldy = 0;
  // Not null: a row's weight is its group's. There are `group_count` groups, some of them maybe empty.
  const RowGroup* groups = nullptr;
  int group_count = 0;
};

// A product and the first of its teams in a launch.
struct TiledProduct {
  LinearProduct product;
  int first_team, out_tiles;
};
inline constexpr int kMostProducts = 20;  // products of a launch

CudaLinear packed_linear(const LinearWeight& weight);

// Multiplies in tiles of one row, or of up to kManyRows (`many`), which is also the most rows of a group. `rows`: the
// rows of each product without groups.
void multiply(const Exec& exec, int rows, bool many, std::span<const LinearProduct> products);

// Computes a product by itself if few_outputs.cu has a kernel for it; false: it has none.
bool multiply_few_outputs(const Exec& exec, int rows, const LinearProduct& product);

// True if linear_row.h can compute the product with one row: its weights are whole chunks, and all values after the
// last input are 0.
bool has_row_kernel(const LinearProduct& product);
// True for products with one row, or groups of one row, that can share a launch.
bool share_a_row_launch(const LinearProduct& a, const LinearProduct& b);
void multiply_row(const Exec& exec, std::span<const LinearProduct> products);

}  // namespace sluice::SLUICE_CUDA_OPS
