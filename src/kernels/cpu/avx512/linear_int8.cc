
#include <array>

#include "kernels/cpu/avx512/linear_formats.h"
#include "kernels/cpu/avx512/linear_kernels.h"
#include "kernels/cpu/linear_int8.inc.h"

namespace sluice::avx512 {
namespace {

// 2 e2m1 + 12 of every code, four times: a permutation reads the low 6 bits of a byte.
alignas(64) constexpr std::array<std::uint8_t, 64> kE2m1Plus12 = [] {
  constexpr int kDoubled[] = {0, 1, 2, 3, 4, 6, 8, 12};
  std::array<std::uint8_t, 64> table{};
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<std::uint8_t>(12 + (i % 16 < 8 ? kDoubled[i % 8] : -kDoubled[i % 8]));
  }
  return table;
}();

struct Int8Isa : LinearIsa {
  static constexpr int kInt8Rows = 3, kInt8BufferFrom = 24;
  class Int8 {
   public:
    using Bytes = __m512i;
    SLUICE_VEC static Bytes load(const std::byte* p) { return _mm512_loadu_si512(p); }
    SLUICE_VEC static void store(Bytes v, std::byte* p) { _mm512_storeu_si512(p, v); }
    SLUICE_VEC Bytes low(Bytes line) const { return _mm512_permutexvar_epi8(line, values_); }
    SLUICE_VEC Bytes high(Bytes line) const { return _mm512_permutexvar_epi8(_mm512_srli_epi16(line, 4), values_); }
    SLUICE_VEC static __m512i broadcast(const std::int8_t* codes) {
      std::int32_t four;
      std::memcpy(&four, codes, 4);
      return _mm512_set1_epi32(four);
    }
    SLUICE_VEC static I32x16 add_dot(I32x16 acc, Bytes weights, __m512i four) {
      return {_mm512_dpbusd_epi32(acc.v, weights, four)};
    }

   private:
    __m512i values_ = _mm512_load_si512(kE2m1Plus12.data());
  };
};

}  // namespace

void linear_int8(const LinearJob& job, int rows, int begin, int end) {
  cpu::LinearInt8<Int8Isa>::run(job, rows, begin, end);
}

}  // namespace sluice::avx512
