#include "fake_cudart.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <vector>

#include "kernels/cuda/runtime/fault.h"
#include "kernels/cuda/runtime/small_moves.h"

// Callers know only the names of the runtime's types.
struct CUevent_st {
  std::size_t recorded = 0;  // the number of works enqueued before it
};
struct CUgraphNode_st {
  std::function<void()> work;
  CUgraphNode_st* after = nullptr;
  bool early = false;
};
struct CUgraph_st {
  std::deque<CUgraphNode_st> nodes;
};
struct CUgraphExec_st {
  std::map<CUgraphNode_st*, std::function<void()>> works;
  std::vector<CUgraphNode_st*> order;
};

namespace sluice {
namespace {

// The one stream.
struct Queue {
  std::deque<std::function<void()>> works;
  std::size_t enqueued = 0, done = 0;
  std::mutex mutex;  // several threads fill the staging

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
  // Does one piece of work. "Not ready" as long as fewer than `count` are done.
  cudaError_t query(std::size_t count) {
    const std::scoped_lock lock(mutex);
    if (done < count) do_until_locked(done + 1);
    return fake_cuda().failed ? cudaErrorLaunchFailure : done < count ? cudaErrorNotReady : cudaSuccess;
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

std::function<void()> call_of(const void* function, void** arguments, FakeLaunch launch) {
  const auto* kernel = static_cast<const FakeKernel*>(function);
  const auto* from = static_cast<const std::byte*>(arguments[0]);
  launch.teams = *static_cast<const int*>(arguments[1]);
  launch.team_shared_bytes = *static_cast<const int*>(arguments[2]);
  return
      [kernel, copy = std::vector<std::byte>(from, from + kernel->bytes), launch] { kernel->run(copy.data(), launch); };
}
std::function<void()> call_of(const cudaKernelNodeParams& params) {
  return call_of(params.func, params.kernelParams, {params.gridDim.x, params.blockDim.x, params.sharedMemBytes});
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

using sluice::call_of;
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
cudaError_t cudaStreamQuery(cudaStream_t) {
  return queue().query(queue().enqueued_now());
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return queue().query(event->recorded);
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

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  ++fake_cuda().launches;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    if (config->attrs[i].id == cudaLaunchAttributeProgrammaticStreamSerialization) ++fake_cuda().early;
  }
  return queue().enqueue(call_of(
      function, arguments, {config->gridDim.x, config->blockDim.x, static_cast<unsigned>(config->dynamicSmemBytes)}));
}
cudaError_t cudaFuncGetName(const char** name, const void*) {
  *name = "kernel";
  return cudaSuccess;
}
cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) {
  if (!fake_cuda().has_graphs) return cudaErrorNotSupported;
  *graph = new CUgraph_st;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t*, std::size_t,
                                   const cudaKernelNodeParams* params) {
  graph->nodes.push_back({.work = call_of(*params)});
  *node = &graph->nodes.back();
  return cudaSuccess;
}
cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t, cudaLaunchAttributeID, const cudaLaunchAttributeValue*) {
  return cudaSuccess;
}
cudaError_t cudaGraphAddDependencies(cudaGraph_t, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                     const cudaGraphEdgeData* edge, std::size_t) {
  (*to)->after = *from;
  (*to)->early = edge->type == cudaGraphDependencyTypeProgrammatic;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* ready, cudaGraph_t graph, unsigned long long) {
  ++fake_cuda().graphs_made, ++fake_cuda().graphs_alive;
  *ready = new CUgraphExec_st;
  // Nodes that follow nothing run first, as a runtime may choose.
  for (CUgraphNode_st& node : graph->nodes) {
    (*ready)->works[&node] = node.work;
    auto& order = (*ready)->order;
    node.after == nullptr ? order.insert(order.begin(), &node) : order.insert(order.end(), &node);
  }
  return cudaSuccess;
}
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t ready, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* params) {
  ++fake_cuda().nodes_changed;
  ready->works[node] = call_of(*params);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t ready, cudaStream_t) {
  ++fake_cuda().graph_launches;
  for (CUgraphNode_st* node : ready->order) {
    fake_cuda().early += node->early ? 1 : 0;
    if (const cudaError_t error = queue().enqueue(ready->works[node])) return error;
  }
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t ready) {
  --fake_cuda().graphs_alive;
  delete ready;
  return cudaSuccess;
}

}  // extern "C"
