// Access of the blocks of a cluster to each other's shared memory (ranks: their numbers in the cluster).
// Used by kernels/cuda/sm90.
#pragma once

#include "kernels/cuda/sm90/wgmma.h"

namespace sluice::cuda_sm90 {

// A barrier of all threads of all its teams; writes before it are seen after it.
SLUICE_DEVICE void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
// Returns the address in team `rank` that corresponds to `at` in this team. No team may end while others use it.
template <class T>
SLUICE_DEVICE T* of_team(T* at, int rank) {
  std::uint64_t there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(reinterpret_cast<std::uint64_t>(at)), "r"(rank));
  return reinterpret_cast<T*>(there);
}

// All threads of all blocks arrive, and later wait until all have. Nothing of a block is touched before it has begun,
// and none ends while others may touch it. The barriers below say what was written.
SLUICE_DEVICE void arrive_in_cluster() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
SLUICE_DEVICE void wait_for_cluster() {
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}
// Makes this thread's barriers visible to the cluster, once it has met.
SLUICE_DEVICE void show_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// Returns the address in block `rank` that corresponds to `at` here.
SLUICE_DEVICE std::uint32_t address_at(int rank, const void* at) {
  std::uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(at)), "r"(rank));
  return there;
}

// A barrier of one phase that other blocks arrive at, or that counts bytes which come from them. A thread that arrives
// has read something and lets it be written, so nothing has to be flushed.
struct ClusterBarrier : SharedBarrier {
  SLUICE_DEVICE void init_for_bytes(int bytes) {
    init(1);
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(&bits)), "r"(bytes)
                 : "memory");
  }
  SLUICE_DEVICE void arrive_at(int rank) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(address_at(rank, &bits)) : "memory");
  }
  SLUICE_DEVICE void wait_once() { wait(0); }
};

// Stores to the same place in block `rank`, whose barrier counts the bytes.
SLUICE_DEVICE void store_at(int rank, const float* to, float a, float b, const ClusterBarrier* barrier) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(
                   address_at(rank, to)),
               "f"(a), "f"(b), "r"(address_at(rank, barrier))
               : "memory");
}
// Copies `bytes` bytes to the same place in block `rank`, including what was written for the tensor cores.
SLUICE_DEVICE void copy_to(int rank, const void* at, int bytes, const ClusterBarrier* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   address_at(rank, at)),
               "r"(shared_address(at)), "r"(bytes), "r"(address_at(rank, barrier))
               : "memory");
}

}  // namespace sluice::cuda_sm90
