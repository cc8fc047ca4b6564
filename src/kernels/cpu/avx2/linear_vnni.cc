// Integer products by AVX-VNNI, four in one instruction, where AVX2 alone takes three: the same sums.
#include <type_traits>

#include "kernels/cpu/avx2/int8_values.h"
#include "kernels/cpu/avx2/linear_formats.h"
#include "kernels/cpu/avx2/linear_kernels.h"

// What follows, the kernels' templates included, is compiled for it; has_vnni() guards the only way in.
#pragma GCC push_options
#pragma GCC target("avxvnni")
#include "kernels/cpu/linear_codes.inc.h"
#include "kernels/cpu/linear_int8.inc.h"

namespace sluice::avx2 {
namespace {

struct WholeBytes : LineBytes {
  SLUICE_VEC static const std::byte* load(const std::byte* line) { return line; }
  SLUICE_VEC static Bytes low(const std::byte* line) { return load_bytes(line); }
  SLUICE_VEC static Bytes high(const std::byte* line) { return load_bytes(line + 64); }
};

template <class Values>
struct FoursOf : Values {
  SLUICE_VEC static I32x16 add_dot(I32x16 acc, typename Values::Bytes weights, __m256i x) {
    return {_mm256_dpbusd_avx_epi32(acc.lo, weights.lo, x), _mm256_dpbusd_avx_epi32(acc.hi, weights.hi, x)};
  }
};

struct VnniIsa : LinearIsa {
  static constexpr int kInt8DirectRows = 4, kInt8BufferRows = 2, kInt8BufferFrom = 5, kInt8KeptSums = 4;
};
struct Mxfp4Isa : VnniIsa {
  struct Int8 : FoursOf<E2m1Bytes>, cpu::Mxfp4Int8Scales<F32x16> {};
};
template <class Form>
struct CodesIsa : VnniIsa {
  struct Int8 : FoursOf<std::conditional_t<Form::kBits == 4, Nibbles, WholeBytes>>,
                cpu::CodesInt8Scales<F32x16, Form, Form::kOffset> {};
};

}  // namespace

void linear_int8_vnni(const LinearJob& job, int rows, int begin, int end) {
  cpu::LinearInt8<Mxfp4Isa>::run(job, rows, begin, end);
}

void linear_codes_int8_vnni(const LinearJob& job, int rows, int begin, int end) {
  cpu::with_codes_form<F32x16>(job.weight->view().codes,
                               [&]<class Form>() { cpu::LinearInt8<CodesIsa<Form>>::run(job, rows, begin, end); });
}

}  // namespace sluice::avx2
#pragma GCC pop_options

namespace sluice::avx2 {

bool has_vnni() {
  return __builtin_cpu_supports("avxvnni") != 0;
}

}  // namespace sluice::avx2
