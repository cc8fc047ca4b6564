// Used by device.cc.
#include "kernels/cuda/runtime/launch_graphs.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace sluice {
namespace {

using Arguments = std::array<void*, 3>;

// The runtime copies the values behind these pointers; its parameter is not const.
Arguments arguments_of(const KernelLaunch& launch) {
  return {const_cast<void*>(launch.kernel), const_cast<int*>(&launch.teams),
          const_cast<int*>(&launch.team_shared_bytes)};
}

cudaKernelNodeParams params_of(const KernelLaunch& launch, Arguments& arguments) {
  cudaKernelNodeParams params{};
  params.func = const_cast<void*>(launch.function);
  params.gridDim = {launch.blocks, 1, 1};
  params.blockDim = {launch.threads, 1, 1};
  params.sharedMemBytes = static_cast<unsigned>(launch.shared_bytes);
  params.kernelParams = arguments.data();
  return params;
}

cudaError_t add_dependency(cudaGraph_t graph, cudaGraphNode_t from, cudaGraphNode_t to, bool early) {
  cudaGraphEdgeData edge{};
  if (early) {
    edge.from_port = cudaGraphKernelNodePortProgrammatic;
    edge.type = cudaGraphDependencyTypeProgrammatic;
  }
#if CUDART_VERSION >= 13000
  return cudaGraphAddDependencies(graph, &from, &to, &edge, 1);
#else
  return cudaGraphAddDependencies_v2(graph, &from, &to, &edge, 1);
#endif
}

}  // namespace

LaunchGraphs::~LaunchGraphs() {
  forget();
}

void LaunchGraphs::forget() {
  for (Graph& graph : graphs_) destroy(graph);
  graphs_.clear();
}

void LaunchGraphs::destroy(Graph& graph) {
  if (graph.ready != nullptr) cudaGraphExecDestroy(graph.ready);
  if (graph.graph != nullptr) cudaGraphDestroy(graph.graph);
}

cudaError_t LaunchGraphs::start(cudaStream_t stream, const KernelLaunch& launch, bool early) {
  cudaLaunchAttribute attributes[2]{};
  unsigned count = 0;
  if (launch.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim = {launch.cluster, 1, 1};
    ++count;
  }
  if (early) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count].val.programmaticStreamSerializationAllowed = 1;
    ++count;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = {launch.blocks, 1, 1};
  config.blockDim = {launch.threads, 1, 1};
  config.dynamicSmemBytes = launch.shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  Arguments arguments = arguments_of(launch);
  return cudaLaunchKernelExC(&config, launch.function, arguments.data());
}

void LaunchGraphs::add(const KernelLaunch& launch, bool early) {
  constexpr std::size_t kAlignment = 16;
  const std::size_t at = (list_.bytes.size() + kAlignment - 1) / kAlignment * kAlignment;
  list_.bytes.resize(at + launch.kernel_bytes);
  std::memcpy(list_.bytes.data() + at, launch.kernel, launch.kernel_bytes);
  list_.launches.push_back({launch, early, at});
}

KernelLaunch LaunchGraphs::List::at(std::size_t i) const {
  KernelLaunch launch = launches[i].launch;
  launch.kernel = bytes.data() + launches[i].arguments;
  return launch;
}

// True if a graph of one list can be changed into that of the other.
bool LaunchGraphs::List::same_kernels(const List& other) const {
  return std::ranges::equal(launches, other.launches, [](const Launch& a, const Launch& b) {
    return a.launch.function == b.launch.function && a.launch.threads == b.launch.threads &&
           a.launch.cluster == b.launch.cluster && a.early == b.early;
  });
}

bool LaunchGraphs::List::same_arguments(const List& other, std::size_t i) const {
  const KernelLaunch a = at(i), b = other.at(i);
  return a.blocks == b.blocks && a.shared_bytes == b.shared_bytes && a.teams == b.teams &&
         a.team_shared_bytes == b.team_shared_bytes && std::memcmp(a.kernel, b.kernel, a.kernel_bytes) == 0;
}

std::uint64_t LaunchGraphs::List::hash() const {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto mix = [&hash](std::uint64_t value) { hash = (hash ^ value ^ (hash >> 29)) * 0x100000001b3; };
  for (const Launch& each : launches) {
    mix(reinterpret_cast<std::uintptr_t>(each.launch.function));
    mix(std::uint64_t{each.launch.threads} << 32 | std::uint64_t{each.launch.cluster} << 1 | (each.early ? 1U : 0U));
  }
  return hash;
}

cudaError_t LaunchGraphs::start_all(cudaStream_t stream, bool* as_graph, const std::function<bool()>& before_each) {
  *as_graph = false;
  const auto cleared = [this](cudaError_t error) {
    list_.launches.clear();
    list_.bytes.clear();
    return error;
  };
  if (list_.launches.size() < kLeastLaunches) return cleared(start_each(stream, before_each));
  const std::uint64_t hash = list_.hash();
  auto found = std::ranges::find_if(
      graphs_, [&](const Graph& graph) { return graph.hash == hash && graph.last.same_kernels(list_); });
  if (found == graphs_.end()) {
    constexpr std::size_t kMostSeen = 4096;
    if (seen_.size() >= kMostSeen) seen_.clear();
    if (seen_.insert(hash).second) return cleared(start_each(stream, before_each));
    Graph graph;
    if (make(graph) != cudaSuccess) {  // if no graph can be made, the kernels are started one by one
      destroy(graph);
      cudaGetLastError();
      return cleared(start_each(stream, before_each));
    }
    graph.hash = hash;
    graph.last = list_;
    if (graphs_.size() >= kMostGraphs) {
      destroy(graphs_.back());
      graphs_.pop_back();
    }
    graphs_.push_front(std::move(graph));
  } else {
    graphs_.splice(graphs_.begin(), graphs_, found);
    if (const cudaError_t error = update(graphs_.front())) return cleared(error);
  }
  *as_graph = true;
  return cleared(cudaGraphLaunch(graphs_.front().ready, stream));
}

cudaError_t LaunchGraphs::start_each(cudaStream_t stream, const std::function<bool()>& before_each) const {
  for (std::size_t i = 0; i < list_.launches.size(); ++i) {
    const bool early = !(before_each && before_each()) && list_.launches[i].early;
    if (const cudaError_t error = start(stream, list_.at(i), early)) return error;
  }
  return cudaSuccess;
}

cudaError_t LaunchGraphs::make(Graph& graph) const {
  if (const cudaError_t error = cudaGraphCreate(&graph.graph, 0)) return error;
  for (std::size_t i = 0; i < list_.launches.size(); ++i) {
    const KernelLaunch launch = list_.at(i);
    Arguments arguments = arguments_of(launch);
    const cudaKernelNodeParams params = params_of(launch, arguments);
    cudaGraphNode_t node = nullptr;
    if (const cudaError_t error = cudaGraphAddKernelNode(&node, graph.graph, nullptr, 0, &params)) return error;
    if (launch.cluster > 1) {
      cudaLaunchAttributeValue value{};
      value.clusterDim = {launch.cluster, 1, 1};
      if (const cudaError_t error =
              cudaGraphKernelNodeSetAttribute(node, cudaLaunchAttributeClusterDimension, &value)) {
        return error;
      }
    }
    if (i > 0) {
      const bool early = list_.launches[i].early;
      if (const cudaError_t error = add_dependency(graph.graph, graph.nodes.back(), node, early)) return error;
    }
    graph.nodes.push_back(node);
  }
  return cudaGraphInstantiate(&graph.ready, graph.graph, 0);
}

cudaError_t LaunchGraphs::update(Graph& graph) {
  for (std::size_t i = 0; i < list_.launches.size(); ++i) {
    if (graph.last.same_arguments(list_, i)) continue;
    const KernelLaunch launch = list_.at(i);
    Arguments arguments = arguments_of(launch);
    const cudaKernelNodeParams params = params_of(launch, arguments);
    if (const cudaError_t error = cudaGraphExecKernelNodeSetParams(graph.ready, graph.nodes[i], &params)) return error;
  }
  std::swap(graph.last, list_);
  return cudaSuccess;
}

}  // namespace sluice
