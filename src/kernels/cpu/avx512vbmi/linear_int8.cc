#include <algorithm>

#include "kernels/cpu/avx512/linear_kernels.h"
#include "kernels/cpu/avx512vbmi/linear_formats.h"
#include "kernels/cpu/avx512vbmi/linear_kernels.h"
#include "kernels/cpu/linear_layout.h"

namespace sluice::avx512vbmi {

void linear_int8(const LinearJob& job, int rows, int begin, int end) {
  constexpr int kTileOutputs = LinearIsa::kTileGroups * kGroupOutputs, kAmxFrom = 12;
  if (rows >= kAmxFrom && has_amx()) {
    const int whole = std::min(end, job.weight->out() / kTileOutputs * kTileOutputs);
    if (begin < whole) linear_amx(job, rows, begin, whole);
    begin = std::max(begin, whole);
  }
  avx512::linear_int8_vnni(job, rows, begin, end);
}

}  // namespace sluice::avx512vbmi
