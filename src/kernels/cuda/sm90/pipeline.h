// Bulk copies to shared memory, and the barriers that say when they have arrived.
// Used by kernels/cuda/sm90.
#pragma once

#include "kernels/cuda/sm90/fragments.h"

namespace sluice::cuda_sm90 {

// Inits a barrier in shared memory, 8 bytes aligned to 8, whose phases end with `arrivals` arrivals and all announced
// bytes.
SLUICE_DEVICE void init_barrier(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Call it after init_barrier(), before other threads and copies use the barriers.
SLUICE_DEVICE void fence_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
SLUICE_DEVICE void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
SLUICE_DEVICE void arrive_and_expect(std::uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
// Waits until the phase of this parity has ended; the first phase has parity 0.
SLUICE_DEVICE void wait_phase(std::uint32_t barrier, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra.uni over;\n"
      "bra.uni again;\n"
      "over:\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
// Copies bytes to shared memory, a multiple of 16 between addresses that are multiples, too; they count at the barrier.
SLUICE_DEVICE void bulk_copy(std::uint32_t to, const void* from, int bytes, std::uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

}  // namespace sluice::cuda_sm90
