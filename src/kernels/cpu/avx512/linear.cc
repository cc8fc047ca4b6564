#include "kernels/cpu/avx512/linear.h"

#include "kernels/cpu/avx512/linear_kernels.h"
#include "kernels/cpu/linear_layout.h"

namespace sluice {

namespace {

std::size_t packed_bytes(const WeightView& view) {
  return LinearLayout(view, kAvx512TileGroups).bytes();
}

void pack(const WeightView& view, int begin, int end, std::byte* packed) {
  pack_linear(view, kAvx512TileGroups, Fp8Order::kPairs, begin, end, packed);
}

void run(const LinearJob& job, int rows, int begin, int end) {
  switch (job.weight->view().format) {
    case WeightFormat::kF32:
    case WeightFormat::kBf16:
      return linear_plain_avx512(job, rows, begin, end);
    case WeightFormat::kFp8:
      return linear_fp8_avx512(job, rows, begin, end);
    case WeightFormat::kMxfp4:
      return linear_mxfp4_avx512(job, rows, begin, end);
  }
}

}  // namespace

const LinearKernels& avx512_linear_kernels() {
  static constexpr LinearKernels kKernels{packed_bytes, pack, kAvx512TileGroups * kGroupOutputs, run};
  return kKernels;
}

}  // namespace sluice
