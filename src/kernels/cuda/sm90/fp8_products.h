// Products of FP8 weights with rows of FP8 codes, in the order and layouts of kernels/cuda/fp8_layout.h.
// Used by kernels/cuda/sm90.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/fp8_layout.h"
#include "kernels/cuda/shared/linear_products.h"
#include "kernels/cuda/sm90/sm90_ops.h"

namespace sluice::cuda_sm90 {

// Rows in the form of the kernels, in the workspace. `rows`: whole tiles of the kernel's.
struct Fp8Rows {
  std::byte* codes = nullptr;  // aligned to 128
  float* scales = nullptr;
  int rows = 0;
};

// y [rows, out] = W x. With groups, rows [group.first, + group.rows) of y are the product of x's rows from
// kernel_rows * (the group's number) on.
struct Fp8Product {
  Fp8Linear weight;
  const std::byte* data = nullptr;  // the packed weight, if there are no groups
  Fp8Rows x;
  float* y = nullptr;
  std::ptrdiff_t ldy = 0;
  const RowGroup* groups = nullptr;
};
inline constexpr int kMostFp8Products = 16;  // products of a launch

// kernel_rows: 8, 16, 32 or 64, which fp8_rows.cu multiplies at once, or 128 (fp8_tiles.cu). cluster: for fp8_rows.cu,
// the number of teams that share a tile; 0: the fastest. All give the same bits.
struct Fp8Launch {
  int rows = 0, group_count = 0;
  int kernel_rows = 128;
  int cluster = 0;

  int row_tiles() const { return group_count > 0 ? group_count : (rows + kernel_rows - 1) / kernel_rows; }
};
inline constexpr int kFp8TileRows = 128;

void multiply_fp8(const Exec& exec, const Fp8Launch& launch, std::span<const Fp8Product> products);
// Multiplies `rows` rows, with the kernel and the cluster that suit them.
void multiply_fp8(const Exec& exec, int rows, std::span<const Fp8Product> products);
// Multiplies with fp8_rows.cu, at most kMostFp8Products.
void multiply_fp8_rows(const Exec& exec, const Fp8Launch& launch, std::span<const Fp8Product> products);
// True if all teams of fp8_rows.cu, with 32 or 64 rows, run at once.
bool runs_at_once(const Exec& exec, const Fp8Launch& launch, std::span<const Fp8Product> products);
void multiply_fp8_tiles(const Exec& exec, const Fp8Launch& launch, std::span<const Fp8Product> products);

// The source of rows: floats; or m = SwiGLU of them, rounded to bf16, as experts' inner products are.
struct Fp8Inputs {
  const float* x = nullptr;
  std::ptrdiff_t ldx = 0;
  const std::int32_t* x_rows = nullptr;
  int in = 0;
  const std::uint16_t* rounded = nullptr;  // if not null, the rows as bf16 instead of x, `ldx` values apart
  const float* up = nullptr;               // if not null, x is the gate's product and this is up's, both [rows, in]
  const float* weights = nullptr;          // the factor of each row of m; null: 1
  Activation activation = {};
  // If not null, the rows of group i begin at row group_rows * i of the result.
  const RowGroup* groups = nullptr;
  int group_rows = 0;

  bool operator==(const Fp8Inputs&) const = default;
};
// Makes codes. `rows`: the rows of x, or of all groups, padded.
void make_fp8_rows(const Exec& exec, int rows, const Fp8Inputs& from, const Fp8Rows& to);
inline int fp8_blocks(int in) {
  return (in + kFp8Inputs - 1) / kFp8Inputs;
}

// True if a weight is packed in these tiles.
bool in_fp8_tiles(const LinearWeight& weight);
// Makes a product without its rows.
Fp8Product fp8_product(const LinearWeight& weight, float* y, std::ptrdiff_t ldy);
// Computes jobs of such weights.
void fp8_linear(const Exec& exec, int rows, std::span<const LinearJob> jobs);

}  // namespace sluice::cuda_sm90
