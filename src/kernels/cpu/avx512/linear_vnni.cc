// Integer products by AVX-512 VNNI, four in one instruction, where AVX-512 BW takes three: the same sums.
#include <type_traits>

#include "kernels/cpu/avx512/int8_values.h"
#include "kernels/cpu/avx512/linear_formats.h"
#include "kernels/cpu/avx512/linear_kernels.h"
#include "kernels/cpu/avx512/linear_tuning.h"

// What follows, the kernels' templates included, is compiled for it; has_vnni() guards the only way in.
#pragma GCC push_options
#pragma GCC target("avx512vnni")
#include "kernels/cpu/linear_codes.inc.h"
#include "kernels/cpu/linear_int8.inc.h"

namespace sluice::avx512 {
namespace {

template <class Values>
struct FoursOf : Values {
  SLUICE_VEC static I32x16 add_dot(I32x16 acc, typename Values::Bytes weights, __m512i x) {
    return {_mm512_dpbusd_epi32(acc.v, weights, x)};
  }
};

template <class Isa>
struct VnniIsa : Isa {
  static constexpr int kInt8BufferRows = 3, kInt8KeptSums = 12;
};
template <class Isa>
struct Mxfp4Isa : VnniIsa<Isa> {
  static constexpr int kInt8DirectRows = 5, kInt8BufferFrom = 24;
  struct Int8 : FoursOf<E2m1Bytes>, cpu::Mxfp4Int8Scales<F32x16> {};
};
template <class Isa, class Form>
struct CodesIsa : VnniIsa<Isa> {
  static constexpr int kInt8DirectRows = 4, kInt8BufferFrom = 0;  // decoding codes costs next to nothing
  struct Int8 : FoursOf<std::conditional_t<Form::kBits == 4, Nibbles, WholeBytes>>,
                cpu::CodesInt8Scales<F32x16, Form, Form::kOffset> {};
};

}  // namespace

void linear_int8_vnni(const LinearJob& job, int rows, int begin, int end) {
  if (rows == 1 && linear_tuning().streams) return cpu::LinearInt8<Mxfp4Isa<StreamingIsa>>::run(job, rows, begin, end);
  cpu::LinearInt8<Mxfp4Isa<LinearIsa>>::run(job, rows, begin, end);
}

void linear_codes_int8_vnni(const LinearJob& job, int rows, int begin, int end) {
  cpu::with_codes_form<F32x16>(job.weight->view().codes, [&]<class Form>() {
    if (rows == 1 && linear_tuning().streams) {
      return cpu::LinearInt8<CodesIsa<StreamingIsa, Form>>::run(job, rows, begin, end);
    }
    cpu::LinearInt8<CodesIsa<LinearIsa, Form>>::run(job, rows, begin, end);
  });
}

}  // namespace sluice::avx512
#pragma GCC pop_options

namespace sluice::avx512 {

bool has_vnni() {
  return __builtin_cpu_supports("avx512vnni") != 0;
}

}  // namespace sluice::avx512
