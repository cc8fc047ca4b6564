// Products of FP8 weights with rows of FP8 codes, in the order and layouts of kernels/cuda/fp8_layout.h.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/fp8_layout.h"
#include "kernels/cuda/shared/linear_products.h"
#include "kernels/cuda/sm90/sm90_ops.h"

namespace sluice::cuda_sm90 {

// Rows as the kernels take them, in the workspace. `rows`: whole tiles of the kernel's.
struct Fp8Rows {
  std::byte* codes = nullptr;  // aligned to 128
  float* scales = nullptr;
  int rows = 0;
};

// y [rows, out] = W x. With groups, rows [group.first, + group.rows) of y are the product of x's rows from
// kernel_rows * (the group's number) on.
struct Fp8Product {
  Fp8Linear weight;
  const std::byte* data = nullptr;  // the packed weight, where there are no groups
  Fp8Rows x;
  float* y = nullptr;
  std::ptrdiff_t ldy = 0;
  const RowGroup* groups = nullptr;
};
inline constexpr int kMostFp8Products = 16;  // of a launch

// kernel_rows: 8, 16, 32 or 64, which fp8_rows.cu multiplies at once, or 128 (fp8_tiles.cu). cluster: of the former, so
// many teams share a tile; 0: as it suits. All give the same bits.
struct Fp8Launch {
  int rows = 0, group_count = 0;
  int kernel_rows = 128;
  int cluster = 0;

  int row_tiles() const { return group_count > 0 ? group_count : (rows + kernel_rows - 1) / kernel_rows; }
};
inline constexpr int kFp8TileRows = 128;

void multiply_fp8(const Exec& exec, const Fp8Launch& launch, std::span<const Fp8Product> products);
// As it suits so many rows.
void multiply_fp8(const Exec& exec, int rows, std::span<const Fp8Product> products);
// At most kMostFp8Products.
void multiply_fp8_rows(const Exec& exec, const Fp8Launch& launch, std::span<const Fp8Product> products);
// Whether all teams of the former, with 32 or 64 rows, run at once.
bool runs_at_once(const Exec& exec, const Fp8Launch& launch, std::span<const Fp8Product> products);
void multiply_fp8_tiles(const Exec& exec, const Fp8Launch& launch, std::span<const Fp8Product> products);

// What rows are made of: floats; or m = SwiGLU of them, rounded to bf16, as experts' inner products are.
struct Fp8Inputs {
  const float* x = nullptr;
  std::ptrdiff_t ldx = 0;
  const std::int32_t* x_rows = nullptr;
  int in = 0;
  const std::uint16_t* rounded = nullptr;  // not null: x as bf16 values, `ldx` from one row to the next; no x then
  const float* up = nullptr;               // not null: x is the gate's product, both [rows, in]
  const float* weights = nullptr;          // of rows; null: 1
  Activation activation = {};
  // Not null: row i of these groups is that of `group_rows` i.
  const RowGroup* groups = nullptr;
  int group_rows = 0;

  bool operator==(const Fp8Inputs&) const = default;
};
// `rows`: of x, or of all groups with what they lack.
void make_fp8_rows(const Exec& exec, int rows, const Fp8Inputs& from, const Fp8Rows& to);
inline int fp8_blocks(int in) {
  return (in + kFp8Inputs - 1) / kFp8Inputs;
}

// Whether a weight is packed so.
bool in_fp8_tiles(const LinearWeight& weight);
// Without its rows.
Fp8Product fp8_product(const LinearWeight& weight, float* y, std::ptrdiff_t ldy);
// Jobs of such weights.
void fp8_linear(const Exec& exec, int rows, std::span<const LinearJob> jobs);

}  // namespace sluice::cuda_sm90
