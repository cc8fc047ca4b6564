// The rows of FP8 products, and linear (kernels/ops/linear.h) of weights that are packed for them.
#include <algorithm>
#include <vector>

#include "base/formats/number_formats.h"
#include "kernels/cuda/shared/expert_pairs.h"
#include "kernels/cuda/sm90/fp8_products.h"

namespace sluice::cuda_sm90 {
namespace {

using cuda_ops::Team;

// Codes a block of a row: four values a thread. kRounded: from bf16 values.
template <bool kRounded>
struct MakeFp8Rows {
  static constexpr int kThreads = 32;
  Fp8Inputs from;
  Fp8Rows to;
  int blocks;
  bool whole;  // the rows' floats can be read four at a time

  SLUICE_DEVICE float value(std::ptrdiff_t row, float weight, int k) const {
    if (k >= from.in) return 0.0F;
    if constexpr (kRounded) return to_float(bf16{from.rounded[row * from.ldx + k]});
    const float x = from.x[row * from.ldx + k];
    if (from.up == nullptr) return x;
    return round_to_bf16(activated<true>(from.activation, x, from.up[row * from.ldx + k], weight));
  }
  SLUICE_DEVICE void operator()(const Team<kThreads>& team) const {
    const int at = team.index / blocks, block = team.index % blocks, lane = static_cast<int>(threadIdx.x) % kThreads;
    std::ptrdiff_t row = at;
    if (from.groups != nullptr) {
      const RowGroup& group = from.groups[at / from.group_rows];
      if (at % from.group_rows >= group.rows) return;
      row = group.first + at % from.group_rows;
    }
    const float weight = from.weights != nullptr ? from.weights[row] : 1.0F;
    if (from.x_rows != nullptr) row = from.x_rows[row];
    float values[4], largest = 1e-4F;
    const int k = block * kFp8Inputs + lane * 4;
    if (whole) {
      const float4 four = *reinterpret_cast<const float4*>(from.x + row * from.ldx + k);
      values[0] = four.x, values[1] = four.y, values[2] = four.z, values[3] = four.w;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (!whole) values[i] = value(row, weight, k + i);
      const float magnitude = std::fabs(values[i]);
      largest = magnitude > largest ? magnitude : largest;
    }
#pragma unroll
    for (int half = 16; half > 0; half /= 2) {
      const float other = __shfl_xor_sync(0xFFFFFFFFU, largest, half);
      largest = other > largest ? other : largest;
    }
    const float scale = pow2_ceil(largest * (1.0F / 448.0F));
    std::uint32_t codes = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) codes |= static_cast<std::uint32_t>(float_to_e4m3(values[i] / scale)) << (8 * i);
    const std::size_t of_block = static_cast<std::size_t>(block) * to.rows;
    *reinterpret_cast<std::uint32_t*>(to.codes + of_block * kFp8Inputs +
                                      static_cast<std::size_t>(at / 8) * (8 * kFp8Inputs) +
                                      fp8_byte(at % 8, lane * 4)) = codes;
    if (lane == 0) to.scales[of_block + at] = scale;
  }
};

}  // namespace

void make_fp8_rows(const Exec& exec, int rows, const Fp8Inputs& from, const Fp8Rows& to) {
  const int blocks = fp8_blocks(from.in);
  if (from.rounded != nullptr) {
    return cuda_ops::launch(exec, std::int64_t{rows} * blocks, MakeFp8Rows<true>{from, to, blocks, false});
  }
  const bool whole = from.up == nullptr && from.in % kFp8Inputs == 0 && from.ldx % 4 == 0 &&
                     reinterpret_cast<std::uintptr_t>(from.x) % 16 == 0;
  cuda_ops::launch(exec, std::int64_t{rows} * blocks, MakeFp8Rows<false>{from, to, blocks, whole});
}

void multiply_fp8(const Exec& exec, const Fp8Launch& launch, std::span<const Fp8Product> products) {
  for (; !products.empty(); products = products.subspan(std::min<std::size_t>(products.size(), kMostFp8Products))) {
    const auto some = products.first(std::min<std::size_t>(products.size(), kMostFp8Products));
    launch.kernel_rows == kFp8TileRows ? multiply_fp8_tiles(exec, launch, some)
                                       : multiply_fp8_rows(exec, launch, some);
  }
}

void multiply_fp8(const Exec& exec, int rows, std::span<const Fp8Product> products) {
  Fp8Launch launch{.rows = rows, .kernel_rows = rows <= 8 ? 8 : rows <= 16 ? 16 : rows <= 32 ? 32 : 64};
  if (rows > 16 && !runs_at_once(exec, launch, products)) launch.kernel_rows = kFp8TileRows;
  multiply_fp8(exec, launch, products);
}

bool in_fp8_tiles(const LinearWeight& weight) {
  return weight.input_form() == InputForm::kFp8Blocks && Fp8Linear::takes(weight.view());
}

Fp8Product fp8_product(const LinearWeight& weight, float* y, std::ptrdiff_t ldy) {
  Fp8Product product{.weight = Fp8Linear(weight.view()), .data = weight.packed(), .x = {}, .y = y, .ldy = ldy};
  SLUICE_CHECK(product.weight.bytes() == weight.packed_bytes(), "a weight packed by sm90_fp8_linear_packing()");
  return product;
}

void fp8_linear(const Exec& exec, int rows, std::span<const LinearJob> jobs) {
  const auto inputs = [](const LinearJob& job) {
    SLUICE_CHECK(!job.x_prepared, "rows of floats: FP8 products make their own codes");
    return Fp8Inputs{.x = job.x, .ldx = job.ldx, .x_rows = job.x_rows, .in = job.weight->in()};
  };
  std::vector<Fp8Inputs> sources;
  std::size_t row_blocks = 0;
  for (const LinearJob& job : jobs) {
    const Fp8Inputs from = inputs(job);
    if (std::ranges::find(sources, from) != sources.end()) continue;
    sources.push_back(from);
    row_blocks += static_cast<std::size_t>(fp8_blocks(from.in));
  }
  const auto padded = [](int count) { return (count + kFp8TileRows - 1) / kFp8TileRows * kFp8TileRows; };
  constexpr std::size_t kBlockBytes = kFp8Inputs + sizeof(float);
  const auto bytes = [&](int count) {
    return static_cast<std::size_t>(padded(count)) * row_blocks * kBlockBytes + sources.size() * 512;
  };
  int piece = rows;
  while (piece > 1 && bytes(piece) > cuda_ops::workspace_bytes(exec)) piece = (piece + 1) / 2;
  for (int first = 0; first < rows; first += piece) {
    const int count = std::min(piece, rows - first);
    cuda_ops::Carver carver(cuda_ops::workspace(exec, bytes(count)));
    std::vector<Fp8Rows> made;
    for (Fp8Inputs from : sources) {
      const std::size_t values = static_cast<std::size_t>(padded(count)) * static_cast<std::size_t>(fp8_blocks(from.in));
      auto* codes = carver.take<std::byte>(values * kFp8Inputs);
      made.push_back({codes, carver.take<float>(values), padded(count)});
      if (from.x_rows != nullptr) {
        from.x_rows += first;
      } else {
        from.x += first * from.ldx;
      }
      make_fp8_rows(exec, count, from, made.back());
    }
    std::vector<Fp8Product> products;
    for (const LinearJob& job : jobs) {
      products.push_back(fp8_product(*job.weight, job.y + first * job.ldy, job.ldy));
      products.back().x = made[static_cast<std::size_t>(std::ranges::find(sources, inputs(job)) - sources.begin())];
    }
    multiply_fp8(exec, count, products);
  }
}

}  // namespace sluice::cuda_sm90
