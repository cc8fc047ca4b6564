// Compiled for avx2 and avx512.
// Attention in the order of AMX tiles (kernels/ops/attention.h) by multiply-adds: scores with a lane for each column,
// values with a lane for each dim. Keys are rows of f32 in whole slices.
// Used by attend_tiles.isa.cc and kernels/cpu/avx512vbmi/column_tiles.h.
#include "kernels/cpu/attention/attend_columns.h"

#include <cstring>

#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/vec.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

template <class V>
class ColumnFloats {
  static constexpr int kHalf = kSliceInputs / 2;
  // Register tiles: kKeys keys, or kColumns columns x 16 dims. Each has an even chain, an odd chain and a sum.
  static constexpr int kKeys = V::kDotHeads == 4 ? 8 : 2, kColumns = V::kDotHeads == 4 ? 4 : 2;
  static constexpr int kVectors = V::kDotHeads == 4 ? 2 : 1;

 public:
  static std::size_t bytes(const ColumnShape& shape, int slots, int shared) {
    return sizeof(float) * (static_cast<std::size_t>(slots + shared) * stride(shape) + 2 * query_floats(shape));
  }
  ColumnFloats(const ColumnShape& shape, int slots, std::byte* memory) : shape_(shape), stride_(stride(shape)) {
    queries_[0] = reinterpret_cast<float*>(memory);
    queries_[1] = queries_[0] + query_floats(shape);
    keys_ = queries_[1] + query_floats(shape);
    shared_ = keys_ + static_cast<std::size_t>(slots) * stride_;
  }

  void begin() { finite_ = true; }
  void decode(int slot, const RowFormat& format, RowRef row) { finite_ = decode_to(key(slot), format, row) && finite_; }
  void zero(int slot) { std::memset(key(slot), 0, stride_ * sizeof(float)); }
  void finish(int) {}
  bool finite() const { return finite_; }
  void share(int entry, const RowFormat& format, RowRef row) { decode_to(shared(entry), format, row); }
  void take(int slot, int entry) { std::memcpy(key(slot), shared(entry), stride_ * sizeof(float)); }

  void queries(int b, int column, const float* q) {
    float* to = queries_[b] + column;
    alignas(64) float values[16];
    for (int d = 0; d < slices_of(shape_.dims) * kSliceInputs; d += 16) {
      const int left = shape_.dims - d;
      const V x = q != nullptr && left > 0 ? load_up_to_16<V>(q + d, left) : V::zero();
      as_float(shift_left<16>(bf16_codes(x))).store(values);
      for (const float value : values) *to = value, to += 16;
    }
  }

  void scores(int blocks, int first, int last, float* const (&s)[2]) const {
    for (int i = first; i < last; i += kKeys) {
      for (int b = 0; b < blocks; ++b) score_keys(queries_[b], i, s[b] + 16 * i);
    }
  }

  template <class Use>
  void values(int blocks, int first, int last, float* const (&s)[2], const Use& use) const {
    for (int b = 0; b < blocks; ++b) {
      for (int j = 0; j < 16; j += kColumns) {
        int d = 0;
        for (; d + 16 * kVectors <= shape_.value_dims; d += 16 * kVectors) {
          weigh<kVectors>(s[b], b, j, d, first, last, use);
        }
        for (; d < shape_.value_dims; d += 16) weigh<1>(s[b], b, j, d, first, last, use);
      }
    }
  }

 private:
  static std::size_t stride(const ColumnShape& shape) {
    // + 16: the last vector of values may end past the row.
    return static_cast<std::size_t>(shape.slices() * kSliceInputs + 16);
  }
  static std::size_t query_floats(const ColumnShape& shape) {
    return static_cast<std::size_t>(slices_of(shape.dims)) * kSliceInputs * 16;
  }
  float* key(int slot) const { return keys_ + static_cast<std::size_t>(slot) * stride_; }
  float* shared(int entry) const { return shared_ + static_cast<std::size_t>(entry) * stride_; }

  // Decodes a row; returns whether all values are finite.
  bool decode_to(float* to, const RowFormat& format, RowRef row) const {
    using I = typename V::Int;
    const float* values = key_values<V>(format, row, to);
    if (values != to) std::memcpy(to, values, static_cast<std::size_t>(padded_dims(format.dims)) * sizeof(float));
    for (auto d = static_cast<std::size_t>(padded_dims(format.dims)); d < stride_; d += 16) V::zero().store(to + d);
    I most = I::broadcast(0);
    for (std::size_t d = 0; d < stride_; d += 16) most = max_of(most, as_bits(magnitude(V::load(to + d))));
    return bits(greater(most, I::broadcast(0x7F7FFFFF))) == 0;
  }

  void score_keys(const float* q, int slot, float* s) const {
    V sum[kKeys];
    for (V& of_key : sum) of_key = V::zero();
    const float* keys[kKeys];
    for (int k = 0; k < kKeys; ++k) keys[k] = key(slot + k);
    for (int d = 0; d < slices_of(shape_.dims) * kSliceInputs; d += kSliceInputs) {
      V even[kKeys], odd[kKeys];
#pragma GCC unroll 8
      for (int k = 0; k < kKeys; ++k) even[k] = odd[k] = V::zero();
      for (int i = d; i < d + kSliceInputs; i += 2) {
        const V x = V::load(q + 16 * i), y = V::load(q + 16 * i + 16);
#pragma GCC unroll 8
        for (int k = 0; k < kKeys; ++k) {
          even[k] = fma(x, V::broadcast(keys[k][i]), even[k]);
          odd[k] = fma(y, V::broadcast(keys[k][i + 1]), odd[k]);
        }
      }
#pragma GCC unroll 8
      for (int k = 0; k < kKeys; ++k) sum[k] = sum[k] + (even[k] + odd[k]);
    }
    for (int k = 0; k < kKeys; ++k) sum[k].store(s + 16 * k);
  }

  template <int kD, class Use>
  void weigh(const float* weights, int b, int column, int d, int first, int last, const Use& use) const {
    V sum[kColumns][kD];
    for (auto& of_column : sum) {
      for (V& v : of_column) v = V::zero();
    }
    for (int slice = first; slice < last; slice += kSliceInputs) {
      V even[kColumns][kD], odd[kColumns][kD];
#pragma GCC unroll 4
      for (int h = 0; h < kColumns; ++h) {
#pragma GCC unroll 2
        for (int j = 0; j < kD; ++j) even[h][j] = odd[h][j] = V::zero();
      }
      for (int i = slice; i < slice + kSliceInputs; i += 2) {
        add_value<kD>(weights, column, i, d, even);
        add_value<kD>(weights, column, i + 1, d, odd);
      }
#pragma GCC unroll 4
      for (int h = 0; h < kColumns; ++h) {
#pragma GCC unroll 2
        for (int j = 0; j < kD; ++j) sum[h][j] = sum[h][j] + (even[h][j] + odd[h][j]);
      }
    }
    for (int h = 0; h < kColumns; ++h) {
      for (int j = 0; j < kD; ++j) use(b, column + h, d + 16 * j, shape_.value_dims - d - 16 * j, sum[h][j]);
    }
  }
  template <int kD>
  [[gnu::always_inline]] void add_value(const float* weights, int column, int slot, int d,
                                        V (&acc)[kColumns][kD]) const {
    const float* key_at = key(slot) + shape_.value_offset + d;
    V value[kD];
#pragma GCC unroll 2
    for (int j = 0; j < kD; ++j) value[j] = V::load(key_at + 16 * j);
#pragma GCC unroll 4
    for (int h = 0; h < kColumns; ++h) {
      const V w = V::broadcast(weights[16 * slot + column + h]);
#pragma GCC unroll 2
      for (int j = 0; j < kD; ++j) acc[h][j] = fma(w, value[j], acc[h][j]);
    }
  }

  const ColumnShape shape_;
  const std::size_t stride_;  // floats from one decoded key to the next
  bool finite_ = true;
  float *keys_ = nullptr, *shared_ = nullptr;
  float* queries_[2] = {};  // [dim][16 columns]
};

}  // namespace

void attend_columns(const AttendArgs& args, int span, int begin, int end, int head_begin, int head_end) {
  attend_columns<F32x16, ColumnFloats<F32x16>>(args, span, begin, end, head_begin, head_end);
}

namespace {

constexpr Kernel kKernels[] = {SLUICE_KERNEL(attend_tiles, attend_columns)};

}  // namespace

SLUICE_KERNELS(attend_columns, kKernels, {});

}  // namespace sluice::cpu::SLUICE_ISA
