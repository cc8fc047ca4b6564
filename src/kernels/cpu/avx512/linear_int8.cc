#include <algorithm>

#include "kernels/cpu/avx512/int8_values.h"
#include "kernels/cpu/avx512/linear_formats.h"
#include "kernels/cpu/avx512/linear_kernels.h"
#include "kernels/cpu/avx512/linear_tuning.h"
#include "kernels/cpu/linear_int8.inc.h"

namespace sluice::avx512 {
namespace {

template <class Isa>
struct Int8Isa : Isa {
  static constexpr int kInt8Rows = 3, kInt8BufferFrom = 24;
  class Int8 : public Int8Values, public DotBytes, public cpu::Mxfp4Int8Scales<F32x16> {
   public:
    SLUICE_VEC static Bytes load(const std::byte* p) { return load_bytes(p); }
  };
};

}  // namespace

void linear_int8(const LinearJob& job, int rows, int begin, int end) {
  constexpr int kTileOutputs = LinearIsa::kTileGroups * kGroupOutputs, kAmxFrom = 12;
  if (rows >= kAmxFrom && has_amx()) {
    const int whole = std::min(end, job.weight->out() / kTileOutputs * kTileOutputs);
    if (begin < whole) linear_amx(job, rows, begin, whole);
    begin = std::max(begin, whole);
  }
  if (rows == 1 && linear_tuning().streams) return cpu::LinearInt8<Int8Isa<StreamingIsa>>::run(job, rows, begin, end);
  cpu::LinearInt8<Int8Isa<LinearIsa>>::run(job, rows, begin, end);
}

}  // namespace sluice::avx512
