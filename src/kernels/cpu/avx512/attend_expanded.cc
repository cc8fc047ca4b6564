#include "kernels/cpu/attend_expanded.inc.h"
#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/avx512/vec.h"

namespace sluice::avx512 {

void attend_expanded(const AttendExpandedArgs& args, int head, int begin, int end) {
  cpu::attend_expanded<F32x16>(args, head, begin, end);
}
void merge_attention(const MergeAttentionArgs& args, int begin, int end) {
  cpu::merge_attention<F32x16>(args, begin, end);
}

}  // namespace sluice::avx512
