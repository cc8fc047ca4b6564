// MXFP4 times int8 inputs by AVX-512 VNNI, whose lines are decoded by permutations of VBMI. These read six bits of an
// index, so that a nibble needs no mask if the table has each value four times.
#include "kernels/cpu/avx512_vnni/int8_dot.h"
#include "kernels/cpu/kernel_list.h"

namespace sluice::cpu::SLUICE_ISA {
namespace {

// The bytes of E2m1Bytes (kernels/cpu/avx512/int8_values.h), decoded by VBMI.
class PermutedE2m1 : public LineBytes {
 public:
  SLUICE_VEC static Bytes load(const std::byte* line) { return load_bytes(line); }
  SLUICE_VEC Bytes low(Bytes line) const { return _mm512_permutexvar_epi8(line, values_); }
  SLUICE_VEC Bytes high(Bytes line) const { return low(_mm512_srli_epi16(line, 4)); }

 private:
  __m512i values_ = e2m1_bytes();
};

template <class Isa>
struct PermutedIsa : Mxfp4Isa<Isa> {
  struct Int8 : FoursOf<PermutedE2m1>, Mxfp4Scales {};
};

}  // namespace

void linear_mxfp4_int8(const LinearJob& job, int rows, int begin, int end) {
  LinearInt8<PermutedIsa<LinearIsa>>::run(job, rows, begin, end);
}
// Few rows, whose weights are asked for ahead.
void linear_mxfp4_int8_ahead(const LinearJob& job, int rows, int begin, int end) {
  LinearInt8<PermutedIsa<StreamingIsa>>::run(job, rows, begin, end);
}

namespace {

constexpr WeightSet kMxfp4 = weights_of(WeightFormat::kMxfp4);
constexpr CpuFeatures kAheadNeeds{CpuFeature::kReadsAhead};
constexpr LinearKernel kLinears[] = {
    SLUICE_LINEAR(linear_mxfp4_int8_ahead, kMxfp4, kInt8Inputs, .rows_to = PermutedIsa<StreamingIsa>::kInt8DirectRows,
                  .needs = kAheadNeeds, .any_group = true),
    SLUICE_LINEAR(linear_mxfp4_int8, kMxfp4, kInt8Inputs, .any_group = true),
};

}  // namespace

SLUICE_KERNELS(linear_mxfp4, {}, kLinears);

}  // namespace sluice::cpu::SLUICE_ISA
