// Teams of a cluster (cuda_ops::launch()), which see each other's shared memory.
#pragma once

#include "kernels/cuda/launch.h"

namespace sluice::cuda_sm90 {

// Of all threads of all its teams; what they wrote before is seen behind it.
SLUICE_DEVICE void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
// What team `rank` has where this team has `at`. Nobody leaves while others use it.
template <class T>
SLUICE_DEVICE T* of_team(T* at, int rank) {
  std::uint64_t there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(reinterpret_cast<std::uint64_t>(at)), "r"(rank));
  return reinterpret_cast<T*>(there);
}

}  // namespace sluice::cuda_sm90
