// Compiled for avx2 and avx512.
// Row codecs (kernels/ops/row_codec.h) over sixteen lanes V: coding, decoding and simulating many rows.
// Used by kernels/cpu/attention and kernels/cpu/linear.
#include "kernels/cpu/cpu_rows.h"

#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/vec.h"

namespace sluice::cpu::SLUICE_ISA {

template <class V, RowCodec kCodec>
[[gnu::always_inline]] inline void encode_one(const RowFormat& format, const float* x, RowRef row) {
  constexpr RowCodecInfo kInfo = row_codec(kCodec);
  if constexpr (kInfo.values == RowValues::kF32) {
    for (int i = 0; i < format.dims; i += 16) V::load(x + i).store(reinterpret_cast<float*>(row.data) + i);
  } else {
    const int in_blocks = kInfo.in_blocks(format.dims, format.rope_dims);
    if constexpr (kInfo.quantised()) {
      if constexpr (kInfo.scale_multiple > 1) {
        for (int i = 0; i < format.scale_bytes; ++i) row.scales[i] = std::byte{0};
      }
      for_blocks<kCodec>(in_blocks, [&](int first, int n, int at) __attribute__((always_inline)) {
        const V scale = block_scale<V, kInfo.values>(x + first, n);
        store_scale<kInfo.scales>(scale, row.scales + at);
        encode_block<V, kInfo.values>(x + first, n, scale, row.data + kInfo.code_bytes(first));
      });
    }
    encode_bf16<V>(x + in_blocks, format.dims - in_blocks, row.data + kInfo.code_bytes(in_blocks));
  }
}

// Rounds x[0..n) as a block would store it.
template <class V, RowValues kValues>
[[gnu::always_inline]] inline void simulate_block(float* x, int n) {
  const V scale = block_scale<V, kValues>(x, n);
  const V factor = inverse(scale);
  for (int i = 0; i < n; i += 16) {
    const V scaled = V::load(x + i) * factor;
    if constexpr (kValues == RowValues::kE4m3) {
      (e4m3_values<V>(e4m3_codes(scaled)) * scale).store(x + i);
    } else {
      (e2m1_values(e2m1_codes(scaled)) * scale).store(x + i);
    }
  }
}

template <class V, RowCodec kCodec>
[[gnu::always_inline]] inline void simulate_one(int dims, int rope_dims, float* x) {
  constexpr RowCodecInfo kInfo = row_codec(kCodec);
  if constexpr (kInfo.quantised()) {
    for_blocks<kCodec>(kInfo.in_blocks(dims, rope_dims), [&](int first, int n, int) __attribute__((always_inline)) {
      simulate_block<V, kInfo.values>(x + first, n);
    });
  } else if constexpr (kInfo.values == RowValues::kBf16) {
    for (int i = 0; i < dims; i += 16) as_float(shift_left<16>(bf16_codes(V::load(x + i)))).store(x + i);
  }
}

void encode_rows(const RowFormat& format, const float* x, std::ptrdiff_t ldx, const RowRef* rows, int count) {
  with_row_codec(format.codec, [&]<RowCodec kCodec>(std::integral_constant<RowCodec, kCodec>) {
    const bool fast = in_whole_vectors<kCodec>(format.dims, format.rope_dims);
    for (int i = 0; i < count; ++i) {
      fast ? encode_one<F32x16, kCodec>(format, x + i * ldx, rows[i]) : encode_row(format, x + i * ldx, rows[i]);
    }
  });
}

void decode_rows(const RowFormat& format, const RowRef* rows, int count, float* x, std::ptrdiff_t ldx) {
  with_row_codec(format.codec, [&]<RowCodec kCodec>(std::integral_constant<RowCodec, kCodec>) {
    const bool fast = in_whole_vectors<kCodec>(format.dims, format.rope_dims);
    for (int i = 0; i < count; ++i) {
      if (!fast || !decode_one<F32x16, kCodec>(format, rows[i], x + i * ldx)) decode_row(format, rows[i], x + i * ldx);
    }
  });
}

void simulate_rows(RowCodec codec, int dims, int rope_dims, float* x, std::ptrdiff_t ldx, int count) {
  with_row_codec(codec, [&]<RowCodec kCodec>(std::integral_constant<RowCodec, kCodec>) {
    const bool fast = in_whole_vectors<kCodec>(dims, rope_dims);
    for (int i = 0; i < count; ++i) {
      float* row = x + i * ldx;
      fast ? simulate_one<F32x16, kCodec>(dims, rope_dims, row) : simulate_row(kCodec, dims, rope_dims, row);
    }
  });
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
