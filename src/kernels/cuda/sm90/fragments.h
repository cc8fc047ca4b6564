// The parts of the kernels of strips (kernels/cuda/strip_layout.h): cells of weights in registers, their bf16
// fragments, and the tensor-core instruction. A warp's lanes work together.
// Used by kernels/cuda/sm90.
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/cuda/strip_layout.h"

namespace sluice::cuda_sm90 {

// d += a b: 16 outputs x 16 inputs times 16 inputs x 8 rows. d: outputs g and g + 8 of rows 2t, 2t + 1.
SLUICE_DEVICE void multiply_step(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

SLUICE_DEVICE std::uint32_t shared_address(const void* at) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
}
// Loads four matrices of 8 rows of 16 bytes; eight lanes each have the addresses of a matrix.
SLUICE_DEVICE void load_matrices(std::uint32_t at, std::uint32_t* to) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(at)
               : "memory");
}

// Multiplies bf16 pairs; denormals are read and written as they are.
SLUICE_DEVICE std::uint32_t multiply_pairs(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
}
// Multiplies a pair by the lower or the upper value of another.
SLUICE_DEVICE std::uint32_t multiply_low(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product;
  asm("{\n.reg .b16 l, h;\n.reg .b32 twice;\nmov.b32 {l, h}, %2;\nmov.b32 twice, {l, l};\nmul.rn.bf16x2 %0, %1, "
      "twice;\n}"
      : "=r"(product)
      : "r"(a), "r"(b));
  return product;
}
SLUICE_DEVICE std::uint32_t multiply_high(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product;
  asm("{\n.reg .b16 l, h;\n.reg .b32 twice;\nmov.b32 {l, h}, %2;\nmov.b32 twice, {h, h};\nmul.rn.bf16x2 %0, %1, "
      "twice;\n}"
      : "=r"(product)
      : "r"(a), "r"(b));
  return product;
}

// A lane's part of one cell, as it is loaded: kWords times 16 bytes, and the scales of rows g and g + 8.
template <StripKind kKind>
struct Cell;

template <>
struct Cell<StripKind::kBf16> {
  // 16-byte words of a lane; cells of a warp under way, and more if there is room.
  static constexpr int kWords = 4, kAhead = 4, kDeep = 4;
  uint4 words[kWords];
  SLUICE_DEVICE void take_scales(const std::byte*, int) {}
  template <int kStep>
  SLUICE_DEVICE void fragment(std::uint32_t (&a)[4]) const {
    a[0] = words[kStep].x, a[1] = words[kStep].y, a[2] = words[kStep].z, a[3] = words[kStep].w;
  }
};

struct Fp8Words {
  static constexpr int kWords = 2, kAhead = 5, kDeep = 8;
  uint4 words[kWords];
  // The fragments of step kStep; values are times 2^-120.
  template <int kStep>
  SLUICE_DEVICE void values(std::uint32_t (&a)[4]) const {
    const uint4& both = words[kStep / 2];
    const std::uint32_t first = kStep % 2 == 0 ? both.x : both.z, second = kStep % 2 == 0 ? both.y : both.w;
    a[0] = strip_e4m3(first, false), a[1] = strip_e4m3(first, true);
    a[2] = strip_e4m3(second, false), a[3] = strip_e4m3(second, true);
  }
};

template <>
struct Cell<StripKind::kFp8> : Fp8Words {
  std::uint32_t scale;  // the exponents of rows g and g + 8, in bytes 0 and 1
  SLUICE_DEVICE void take_scales(const std::byte* at, int lane) {
    scale = reinterpret_cast<const std::uint16_t*>(at)[lane / 4];
  }
  template <int kStep>
  SLUICE_DEVICE void fragment(std::uint32_t (&a)[4]) const {
    values<kStep>(a);
    const std::uint32_t both = (scale << 7 & 0x7F80U) | (scale << 15 & 0x7F800000U);
    a[0] = multiply_low(a[0], both), a[1] = multiply_high(a[1], both);
    a[2] = multiply_low(a[2], both), a[3] = multiply_high(a[3], both);
  }
};

template <>
struct Cell<StripKind::kFp8Scaled> : Fp8Words {
  SLUICE_DEVICE void take_scales(const std::byte*, int) {}
  template <int kStep>
  SLUICE_DEVICE void fragment(std::uint32_t (&a)[4]) const {
    values<kStep>(a);
    constexpr std::uint32_t kExact = 0x7B807B80U;  // 2^120 in bf16, twice
    for (std::uint32_t& pair : a) pair = multiply_pairs(pair, kExact);
  }
};

template <>
struct Cell<StripKind::kMxfp4> {
  static constexpr int kWords = 1, kAhead = 8, kDeep = 8;
  uint4 words[kWords];
  std::uint32_t scale;
  SLUICE_DEVICE void take_scales(const std::byte* at, int lane) {
    scale = reinterpret_cast<const std::uint32_t*>(at)[lane / 4];
  }
  template <int kStep>
  SLUICE_DEVICE void fragment(std::uint32_t (&a)[4]) const {
    const std::uint32_t word = kStep == 0 ? words[0].x : kStep == 1 ? words[0].y : kStep == 2 ? words[0].z : words[0].w;
    const std::uint32_t both = (kStep < 2 ? scale << 7 : scale >> 1) & 0x7F807F80U;
    a[0] = multiply_low(strip_e2m1(word, 0), both), a[1] = multiply_high(strip_e2m1(word, 1), both);
    a[2] = multiply_low(strip_e2m1(word, 2), both), a[3] = multiply_high(strip_e2m1(word, 3), both);
  }
};

// Bytes of a cell in shared memory, with its scales.
template <StripKind kKind>
inline constexpr int kCellSharedBytes = Cell<kKind>::kWords * 512 + (kKind == StripKind::kMxfp4 ? 32
                                                                     : kKind == StripKind::kFp8 ? 16
                                                                                                : 0);

// Where a strip's cells and scales lie, and a lane's way to them.
struct StripAt {
  const std::byte *cells, *scales;

  StripAt() = default;
  SLUICE_DEVICE StripAt(const StripLinear& w, const std::byte* data, int strip)
      : cells(data + static_cast<std::size_t>(strip) * w.strip_bytes),
        scales(data + w.scales_at + static_cast<std::size_t>(strip) * w.strip_scale_bytes) {}

  // Copies a cell to shared memory, where it takes kCellSharedBytes. Each lane copies the part that it will read, and
  // some copy the scales, which all lanes see after a barrier.
  template <StripKind kKind>
  SLUICE_DEVICE void start(const StripLinear& w, int cell, int lane, std::byte* shared) const {
    const bool fp4 = kKind == StripKind::kMxfp4;
    const std::byte* at =
        cells + (fp4 ? fp4_cell_at(cell) : static_cast<std::size_t>(cell) * (Cell<kKind>::kWords * 512)) + lane * 16;
#pragma unroll
    for (int i = 0; i < Cell<kKind>::kWords; ++i) cuda_ops::copy_16(shared + i * 512 + lane * 16, at + i * 512);
    std::byte* to = shared + Cell<kKind>::kWords * 512 + lane * 16;
    if constexpr (kKind == StripKind::kFp8) {
      if (lane == 0) cuda_ops::copy_16(to, scales + static_cast<std::size_t>(cell / w.scale_cells) * 16);
    } else if constexpr (kKind == StripKind::kMxfp4) {
      if (lane < 2) cuda_ops::copy_16(to, cells + fp4_scales_at(cell) + lane * 16);
    }
  }
  template <StripKind kKind>
  static SLUICE_DEVICE void take(const std::byte* shared, int lane, Cell<kKind>& to) {
#pragma unroll
    for (int i = 0; i < Cell<kKind>::kWords; ++i) {
      to.words[i] = *reinterpret_cast<const uint4*>(shared + i * 512 + lane * 16);
    }
    to.take_scales(shared + Cell<kKind>::kWords * 512, lane);
  }
  // Returns the scale of segment `segment`, output `row` of the strip.
  template <StripKind kKind>
  SLUICE_DEVICE float segment_scale(int segment, int row) const {
    if constexpr (kKind != StripKind::kFp8Scaled) return 1.0F;
    return reinterpret_cast<const float*>(scales)[segment * kStripOutputs + row];
  }
};

}  // namespace sluice::cuda_sm90
