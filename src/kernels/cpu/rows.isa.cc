// Compiled for avx2 and avx512.
// Row codecs (kernels/plane.h) over sixteen lanes V: coding, decoding and simulating many rows.
#include "kernels/cpu/rows.h"

#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/vec.h"

namespace sluice::cpu::SLUICE_ISA {

template <class V>
void encode_one(const RowFormat& format, const float* x, RowRef row) {
  const int plain = format.dims - format.rope_dims;
  switch (format.codec) {
    case RowCodec::kF32:
      for (int i = 0; i < format.dims; i += 16) V::load(x + i).store(reinterpret_cast<float*>(row.data) + i);
      break;
    case RowCodec::kBf16:
      encode_bf16<V>(x, format.dims, row.data);
      break;
    case RowCodec::kV4Fp8:
      for (int i = plain / 64; i < format.scale_bytes; ++i) row.scales[i] = std::byte{0};
      for (int i = 0; i < plain; i += 64) {
        const V scale = block_scale<V, true>(x + i, 64);
        row.scales[i / 64] = e8m0_code(scale);
        encode_e4m3(x + i, 64, scale, row.data + i);
      }
      encode_bf16<V>(x + plain, format.rope_dims, row.data + plain);
      break;
    case RowCodec::kMlaFp8:
      for (int i = 0; i < plain; i += 128) {
        const int n = plain - i < 128 ? plain - i : 128;
        const V scale = block_scale<V, true>(x + i, n);
        const float value = scale.first_lane();
        __builtin_memcpy(row.scales + i / 128 * 4, &value, sizeof value);
        encode_e4m3(x + i, n, scale, row.data + i);
      }
      encode_bf16<V>(x + plain, format.rope_dims, row.data + plain);
      break;
    case RowCodec::kIndexFp8: {
      const V scale = block_scale<V, true>(x, format.dims);
      const float value = scale.first_lane();
      __builtin_memcpy(row.scales, &value, sizeof value);
      encode_e4m3(x, format.dims, scale, row.data);
      break;
    }
    case RowCodec::kIndexFp4:
      for (int i = 0; i < format.dims; i += 32) {
        const V scale = block_scale<V, false>(x + i, 32);
        row.scales[i / 32] = e8m0_code(scale);
        encode_e2m1(x + i, 32, scale, row.data + i / 2);
      }
      break;
  }
}

// x[0..n) as `kFp8` ? e4m3 : e2m1 would store it in one block.
template <class V, bool kFp8>
[[gnu::always_inline]] inline void simulate_block(float* x, int n) {
  const V scale = block_scale<V, kFp8>(x, n);
  const V factor = inverse(scale);
  for (int i = 0; i < n; i += 16) {
    const V scaled = V::load(x + i) * factor;
    if constexpr (kFp8) {
      (e4m3_values<V>(e4m3_codes(scaled)) * scale).store(x + i);
    } else {
      (e2m1_values(e2m1_codes(scaled)) * scale).store(x + i);
    }
  }
}

template <class V>
void simulate_one(RowCodec codec, int dims, int rope_dims, float* x) {
  switch (codec) {
    case RowCodec::kF32:
      break;
    case RowCodec::kBf16:
      for (int i = 0; i < dims; i += 16) as_float(shift_left<16>(bf16_codes(V::load(x + i)))).store(x + i);
      break;
    case RowCodec::kV4Fp8:
      for (int i = 0; i < dims - rope_dims; i += 64) simulate_block<V, true>(x + i, 64);
      break;
    case RowCodec::kMlaFp8:
      for (int i = 0, plain = dims - rope_dims; i < plain; i += 128) {
        simulate_block<V, true>(x + i, plain - i < 128 ? plain - i : 128);
      }
      break;
    case RowCodec::kIndexFp8:
      simulate_block<V, true>(x, dims);
      break;
    case RowCodec::kIndexFp4:
      for (int i = 0; i < dims; i += 32) simulate_block<V, false>(x + i, 32);
      break;
  }
}

void encode_rows(const RowFormat& format, const float* x, std::ptrdiff_t ldx, const RowRef* rows, int count) {
  using V = F32x16;
  const bool fast = in_whole_vectors(format.codec, format.dims, format.rope_dims);
  for (int i = 0; i < count; ++i) {
    fast ? encode_one<V>(format, x + i * ldx, rows[i]) : encode_row(format, x + i * ldx, rows[i]);
  }
}

void decode_rows(const RowFormat& format, const RowRef* rows, int count, float* x, std::ptrdiff_t ldx) {
  using V = F32x16;
  const bool fast = in_whole_vectors(format.codec, format.dims, format.rope_dims);
  for (int i = 0; i < count; ++i) {
    if (!fast || !decode_fast<V>(format, rows[i], x + i * ldx)) decode_row(format, rows[i], x + i * ldx);
  }
}

void simulate_rows(RowCodec codec, int dims, int rope_dims, float* x, std::ptrdiff_t ldx, int count) {
  using V = F32x16;
  const bool fast = in_whole_vectors(codec, dims, rope_dims);
  for (int i = 0; i < count; ++i) {
    fast ? simulate_one<V>(codec, dims, rope_dims, x + i * ldx) : simulate_row(codec, dims, rope_dims, x + i * ldx);
  }
}

namespace {

constexpr Kernel kKernels[] = {
    SLUICE_KERNEL(encode_rows, encode_rows),
    SLUICE_KERNEL(decode_rows, decode_rows),
    SLUICE_KERNEL(simulate_rows, simulate_rows),
};

}  // namespace

SLUICE_KERNELS(rows, kKernels, {});

}  // namespace sluice::cpu::SLUICE_ISA
