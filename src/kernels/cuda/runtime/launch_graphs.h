// LaunchGraphs: starts lists of kernels, each list as one graph once it has been seen before.
//
// A step of a model is a list of some hundred kernels. Most steps are lists that were there before: the same functions
// in the same order, with other grids and other arguments here and there. Starting a kernel takes the host
// microseconds, and starting a graph takes as long as one kernel. So the second time a list comes it becomes a graph,
// and from then on only what has changed since its last start is set in it. The kernels, their grids and their order
// are the same either way, hence every bit.
//
// It is bounded: it keeps kMostGraphs graphs, those that were started last. Thread safety: one thread at a time.
// Used by device.cc.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <unordered_set>
#include <vector>

#include "kernels/cuda/kernel_launch.h"

namespace sluice {

class LaunchGraphs {
 public:
  static constexpr std::size_t kMostGraphs = 64, kLeastLaunches = 8;

  LaunchGraphs() = default;
  ~LaunchGraphs();
  LaunchGraphs(const LaunchGraphs&) = delete;
  LaunchGraphs& operator=(const LaunchGraphs&) = delete;

  // Starts one kernel, at once. `early`: it may start while the kernel before it still runs (kernels/cuda/launch.h).
  static cudaError_t start(cudaStream_t stream, const KernelLaunch& launch, bool early);

  // Appends a kernel to those added since the last start(); its arguments are copied.
  void add(const KernelLaunch& launch, bool early);
  bool empty() const { return list_.launches.empty(); }
  std::size_t size() const { return list_.launches.size(); }
  // Starts all that was added. *as_graph tells whether it was as one graph. before_each is called before a kernel that
  // starts by itself, and returns whether other work is enqueued now. Empty: none ever is.
  cudaError_t start_all(cudaStream_t stream, bool* as_graph, const std::function<bool()>& before_each = {});

  std::size_t graphs() const { return graphs_.size(); }
  // Forgets all graphs; lists that come again get new ones.
  void forget();

 private:
  struct Launch {
    KernelLaunch launch;  // the kernel; its arguments lie at offset `arguments` of the list's bytes
    bool early;
    std::size_t arguments;
  };
  struct List {
    std::vector<Launch> launches;
    std::vector<std::byte> bytes;

    KernelLaunch at(std::size_t i) const;
    bool same_kernels(const List& other) const;
    bool same_arguments(const List& other, std::size_t i) const;
    std::uint64_t hash() const;  // the hash of the functions in the list
  };
  struct Graph {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    std::vector<cudaGraphNode_t> nodes;
    std::uint64_t hash = 0;
    List last;  // the list as it was at the last start
  };

  cudaError_t start_each(cudaStream_t stream, const std::function<bool()>& before_each) const;
  cudaError_t make(Graph& graph) const;
  cudaError_t update(Graph& graph);
  static void destroy(Graph& graph);

  List list_;
  std::list<Graph> graphs_;  // most recently started first
  std::unordered_set<std::uint64_t> seen_;
};

}  // namespace sluice
