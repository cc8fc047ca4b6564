#include <type_traits>

#include "kernels/cpu/avx512/int8_values.h"
#include "kernels/cpu/avx512/linear_codes.h"
#include "kernels/cpu/avx512/linear_kernels.h"
#include "kernels/cpu/linear_int8.inc.h"

namespace sluice::avx512 {
namespace {

struct Nibbles : DotBytes {
  SLUICE_VEC static Bytes load(const std::byte* line) { return load_bytes(line); }
  SLUICE_VEC static Bytes low(Bytes line) { return _mm512_and_si512(line, _mm512_set1_epi8(15)); }
  SLUICE_VEC static Bytes high(Bytes line) {
    return _mm512_and_si512(_mm512_srli_epi16(line, 4), _mm512_set1_epi8(15));
  }
};

struct WholeBytes : DotBytes {
  SLUICE_VEC static const std::byte* load(const std::byte* line) { return line; }
  SLUICE_VEC static Bytes low(const std::byte* line) { return load_bytes(line); }
  SLUICE_VEC static Bytes high(const std::byte* line) { return load_bytes(line + 64); }
};

template <class Form>
struct CodesIsa : LinearIsa {
  static constexpr int kInt8Rows = 3, kInt8BufferFrom = 24;
  struct Int8 : std::conditional_t<Form::kBits == 4, Nibbles, WholeBytes>,
                cpu::CodesInt8Scales<F32x16, Form, Form::kOffset> {};
};

}  // namespace

void linear_codes_int8(const LinearJob& job, int rows, int begin, int end) {
  with_codes_form(job.weight->view().codes,
                  [&]<class Form>() { cpu::LinearInt8<CodesIsa<Form>>::run(job, rows, begin, end); });
}

}  // namespace sluice::avx512
