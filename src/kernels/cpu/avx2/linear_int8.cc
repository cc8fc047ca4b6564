#include "kernels/cpu/avx2/int8_values.h"
#include "kernels/cpu/avx2/linear_formats.h"
#include "kernels/cpu/avx2/linear_kernels.h"
#include "kernels/cpu/linear_int8.inc.h"

namespace sluice::avx2 {
namespace {

struct Int8Isa : LinearIsa {
  static constexpr int kInt8DirectRows = 4, kInt8BufferRows = 2, kInt8BufferFrom = 5, kInt8KeptSums = 4;
  struct Int8 : PairsOf<E2m1Bytes>, cpu::Mxfp4Int8Scales<F32x16> {};
};

}  // namespace

void linear_int8(const LinearJob& job, int rows, int begin, int end) {
  static const bool vnni = has_vnni();
  if (vnni) return linear_int8_vnni(job, rows, begin, end);
  cpu::LinearInt8<Int8Isa>::run(job, rows, begin, end);
}

}  // namespace sluice::avx2
