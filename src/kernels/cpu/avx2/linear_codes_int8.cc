#include <cstring>
#include <type_traits>

#include "kernels/cpu/avx2/linear_codes.h"
#include "kernels/cpu/avx2/linear_kernels.h"
#include "kernels/cpu/linear_int8.inc.h"

namespace sluice::avx2 {
namespace {

struct DotBytes {
  struct Bytes {
    __m256i lo, hi;
  };
  SLUICE_VEC static Bytes load_bytes(const std::byte* p) {
    const auto* from = reinterpret_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(from), _mm256_loadu_si256(from + 1)};
  }
  SLUICE_VEC static void store(Bytes v, std::byte* p) {
    auto* to = reinterpret_cast<__m256i*>(p);
    _mm256_storeu_si256(to, v.lo);
    _mm256_storeu_si256(to + 1, v.hi);
  }
  SLUICE_VEC static __m256i broadcast(const std::int8_t* codes) {
    std::int32_t four;
    std::memcpy(&four, codes, 4);
    return _mm256_set1_epi32(four);
  }
  // The sums of two pairs of products; a pair must fit 16 bits.
  SLUICE_VEC static __m256i dot(__m256i positive, __m256i x) {
    return _mm256_madd_epi16(_mm256_maddubs_epi16(positive, x), _mm256_set1_epi16(1));
  }
};

struct Nibbles : DotBytes {
  SLUICE_VEC static Bytes load(const std::byte* line) { return load_bytes(line); }
  SLUICE_VEC static Bytes low(Bytes line) {
    const __m256i mask = _mm256_set1_epi8(15);
    return {_mm256_and_si256(line.lo, mask), _mm256_and_si256(line.hi, mask)};
  }
  SLUICE_VEC static Bytes high(Bytes line) {
    return low({_mm256_srli_epi16(line.lo, 4), _mm256_srli_epi16(line.hi, 4)});
  }
  SLUICE_VEC static I32x16 add_dot(I32x16 acc, Bytes weights, __m256i x) {
    return acc + I32x16{dot(weights.lo, x), dot(weights.hi, x)};
  }
};

// The bytes of low() and high() are signed: the 128 is off again, so that the products of a pair, of absolute values,
// fit. An input's code is never -128, whose sign could not be changed.
struct WholeBytes : DotBytes {
  SLUICE_VEC static const std::byte* load(const std::byte* line) { return line; }
  SLUICE_VEC static Bytes low(const std::byte* line) {
    const __m256i by = _mm256_set1_epi8(static_cast<char>(0x80));
    const Bytes stored = load_bytes(line);
    return {_mm256_xor_si256(stored.lo, by), _mm256_xor_si256(stored.hi, by)};
  }
  SLUICE_VEC static Bytes high(const std::byte* line) { return low(line + 64); }
  SLUICE_VEC static I32x16 add_dot(I32x16 acc, Bytes weights, __m256i x) {
    const auto of = [&](__m256i w) { return dot(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w)); };
    return acc + I32x16{of(weights.lo), of(weights.hi)};
  }
};

template <class Form>
struct CodesIsa : LinearIsa {
  static constexpr int kInt8Rows = 2, kInt8BufferFrom = 5;
  struct Int8 : std::conditional_t<Form::kBits == 4, Nibbles, WholeBytes>,
                cpu::CodesInt8Scales<F32x16, Form, Form::kBits == 4 ? Form::kOffset : 0> {};
};

}  // namespace

void linear_codes_int8(const LinearJob& job, int rows, int begin, int end) {
  with_codes_form(job.weight->view().codes,
                  [&]<class Form>() { cpu::LinearInt8<CodesIsa<Form>>::run(job, rows, begin, end); });
}

}  // namespace sluice::avx2
