#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/avx512vbmi/kernels.h"
#include "kernels/cpu/avx512vbmi/linear.h"

namespace sluice::avx512vbmi {

const KernelTable& kernels() {
  static const KernelTable table = [] {
    KernelTable t = avx512::kernels();
    t.isa = "avx512vbmi";
    t.linear = avx512vbmi_linear_kernels();
    t.attend = attend;
    t.index_scores = index_scores;
    return t;
  }();
  return table;
}

}  // namespace sluice::avx512vbmi
