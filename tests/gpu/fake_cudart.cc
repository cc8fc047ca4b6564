#include "fake_cudart.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <random>

#include "kernels/cuda/runtime/fault.h"
#include "kernels/cuda/runtime/small_moves.h"

// Of the runtime's types nothing is known but their names.
struct CUevent_st {
  std::size_t recorded = 0;  // works that were enqueued before it
};

namespace sluice {
namespace {

// The one stream.
struct Queue {
  std::deque<std::function<void()>> works;
  std::size_t enqueued = 0, done = 0;
  std::mutex mutex;  // staging is filled by several threads

  void do_until(std::size_t count) {
    const std::scoped_lock lock(mutex);
    do_until_locked(count);
  }
  void do_all() { do_until(enqueued_now()); }
  std::size_t enqueued_now() {
    const std::scoped_lock lock(mutex);
    return enqueued;
  }
  void do_until_locked(std::size_t count) {
    for (; done < count; ++done) {
      if (!fake_cuda().failed) works.front()();
      works.pop_front();
    }
  }
  cudaError_t enqueue(std::function<void()> work) {
    const std::scoped_lock lock(mutex);
    static std::minstd_rand random(fake_cuda().seed);
    works.push_back(std::move(work));
    ++enqueued;
    if (random() % 16 == 0) do_until_locked(done + random() % (enqueued - done + 1));
    return error_locked();
  }
  cudaError_t error() {
    const std::scoped_lock lock(mutex);
    return error_locked();
  }
  cudaError_t error_locked() const { return fake_cuda().failed ? cudaErrorLaunchFailure : cudaSuccess; }
};

Queue& queue() {
  static Queue queue;
  return queue;
}

}  // namespace

FakeCuda& fake_cuda() {
  static FakeCuda fake;
  return fake;
}

void enqueue_trap(void*) {
  queue().enqueue([] { fake_cuda().failed = true; });
}

void enqueue_small_moves(void*, const SmallMoves& moves) {
  queue().enqueue([moves] {
    for (int i = moves.count - 1; i >= 0; --i) {
      const SmallMoves::Move& move = moves.moves[static_cast<std::size_t>(i)];
      std::memcpy(move.to, move.from, move.bytes);
    }
  });
}

}  // namespace sluice

using sluice::fake_cuda;
using sluice::queue;

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  *version = fake_cuda().driver;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = fake_cuda().gpus;
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "of the tests");
  properties->major = fake_cuda().major;
  properties->totalGlobalMem = std::size_t{2} << 30;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) {
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return queue().error();
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : "unspecified launch failure";
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = *total = std::size_t{2} << 30;
  return cudaSuccess;
}

// Memory holds no zeros by itself.
cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  if (bytes > std::size_t{2} << 30) return cudaErrorMemoryAllocation;
  *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*data, 0xCD, bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  queue().do_all();
  std::free(data);
  return queue().error();
}
cudaError_t cudaMallocHost(void** data, std::size_t bytes) {
  *data = std::malloc(bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
  return queue().enqueue([=] { std::memcpy(to, from, bytes); });
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
  return queue().enqueue([=] { std::memset(to, value, bytes); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = reinterpret_cast<cudaStream_t>(&queue());
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  queue().do_all();
  return queue().error();
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  event->recorded = queue().enqueued_now();
  return queue().error();
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  queue().do_until(event->recorded);
  return queue().error();
}

}  // extern "C"
