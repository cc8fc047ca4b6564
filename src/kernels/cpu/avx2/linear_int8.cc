#include "kernels/cpu/avx2/linear_formats.h"
#include "kernels/cpu/avx2/linear_kernels.h"
#include "kernels/cpu/linear_int8.inc.h"

namespace sluice::avx2 {
namespace {

struct Int8Isa : LinearIsa {
  static constexpr int kInt8Rows = 2, kInt8BufferFrom = 5;
  class Int8 : public cpu::Mxfp4Int8Scales<F32x16> {
   public:
    struct Bytes {
      __m256i lo, hi;
    };
    SLUICE_VEC static Bytes load(const std::byte* p) {
      const auto* from = reinterpret_cast<const __m256i*>(p);
      return {_mm256_loadu_si256(from), _mm256_loadu_si256(from + 1)};
    }
    SLUICE_VEC static Bytes load_bytes(const std::byte* p) { return load(p); }
    SLUICE_VEC static void store(Bytes v, std::byte* p) {
      auto* to = reinterpret_cast<__m256i*>(p);
      _mm256_storeu_si256(to, v.lo);
      _mm256_storeu_si256(to + 1, v.hi);
    }
    SLUICE_VEC Bytes low(Bytes line) const { return {look_up(line.lo), look_up(line.hi)}; }
    SLUICE_VEC Bytes high(Bytes line) const {
      return {look_up(_mm256_srli_epi16(line.lo, 4)), look_up(_mm256_srli_epi16(line.hi, 4))};
    }
    SLUICE_VEC static __m256i broadcast(const std::int8_t* codes) {
      std::int32_t four;
      std::memcpy(&four, codes, 4);
      return _mm256_set1_epi32(four);
    }
    // Pairs of products are at most 2 * 24 * 127: they do not saturate.
    SLUICE_VEC static I32x16 add_dot(I32x16 acc, Bytes weights, __m256i x) {
      const __m256i ones = _mm256_set1_epi16(1);
      const auto dot = [&](__m256i w) { return _mm256_madd_epi16(_mm256_maddubs_epi16(w, x), ones); };
      return acc + I32x16{dot(weights.lo), dot(weights.hi)};
    }

   private:
    SLUICE_VEC __m256i look_up(__m256i nibbles) const {
      return _mm256_shuffle_epi8(values_, _mm256_and_si256(nibbles, _mm256_set1_epi8(15)));
    }
    // 2 e2m1 + 12 of every code.
    __m256i values_ =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
  };
};

}  // namespace

void linear_int8(const LinearJob& job, int rows, int begin, int end) {
  cpu::LinearInt8<Int8Isa>::run(job, rows, begin, end);
}

}  // namespace sluice::avx2
