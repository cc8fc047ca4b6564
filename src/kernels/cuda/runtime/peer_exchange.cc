#include "kernels/cuda/runtime/peer_exchange.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "base/log.h"
#include "base/threads/thread_pool.h"
#include "kernels/ops/ops.h"

namespace sluice {
namespace {

constexpr std::chrono::seconds kLinkLimit{1};
constexpr std::uint32_t kTriedExchanges = 4;  // exchanges of try_links()

Status failed(std::string_view what, cudaError_t error) {
  cudaGetLastError();  // clears the error, so that a later check does not find it
  return unavailable(fmt::format("connecting the GPUs: {}: {}", what, cudaGetErrorString(error)));
}

std::atomic_ref<std::uint64_t> word_at(std::uint64_t* fault) {
  return std::atomic_ref(*fault);
}

// Maps pinned memory that all GPUs reach at its address.
Status map_pinned(std::size_t bytes, std::string_view what, void** to) {
  const cudaError_t error = cudaHostAlloc(to, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
  if (error != cudaSuccess) {
    cudaGetLastError();
    return resource_exhausted(
        fmt::format("cannot pin {} bytes of host memory for {}: {}", bytes, what, cudaGetErrorString(error)));
  }
  std::fill_n(static_cast<std::byte*>(*to), bytes, std::byte{0});
  return {};
}

// True if kernels on either GPU can write to the memory of the other.
bool reach_each_other(int a, int b) {
  if (a == b) return true;
  int there = 0, back = 0;
  const bool known =
      cudaDeviceCanAccessPeer(&there, a, b) == cudaSuccess && cudaDeviceCanAccessPeer(&back, b, a) == cudaSuccess;
  if (!known) cudaGetLastError();
  return known && there != 0 && back != 0;
}

Status enable_peer(int from, int to) {
  if (from == to) return {};
  cudaError_t error = cudaSetDevice(from);
  if (error == cudaSuccess) error = cudaDeviceEnablePeerAccess(to, 0);
  if (error == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();
    return {};
  }
  if (error == cudaSuccess) return {};
  return failed(fmt::format("access of GPU {} to the memory of GPU {}", from, to), error);
}

// Returns values that differ on any two ranks.
std::uint32_t tried_value(int rank, int column) {
  return static_cast<std::uint32_t>(column) * 2654435761U ^ static_cast<std::uint32_t>(rank + 1) * 0x9E3779B9U;
}

}  // namespace

Result<std::unique_ptr<PeerExchange>> PeerExchange::connect(std::span<CudaDevice* const> ranks,
                                                            std::chrono::milliseconds limit, bool through_host) {
  if (ranks.size() < 2 || ranks.size() > kMostRanks) {
    return invalid_argument(
        fmt::format("connecting GPUs: expected 2 to {} of them, found {}", kMostRanks, ranks.size()));
  }
  std::unique_ptr<PeerExchange> group(new PeerExchange(ranks, limit));
  SLUICE_RETURN_IF_ERROR(group->open(through_host));
  return group;
}

Result<std::unique_ptr<Exchange>> connect_cuda_devices(std::span<CudaDevice* const> ranks,
                                                       std::chrono::milliseconds limit) {
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<PeerExchange> group, PeerExchange::connect(ranks, limit));
  return std::unique_ptr<Exchange>(std::move(group));
}

PeerExchange::~PeerExchange() {
  for (CudaDevice* device : devices_) {
    device->join({});
    device->wait();
  }
  for (std::byte* memory : host_memory_) cudaFreeHost(memory);
  if (fault_ != nullptr) cudaFreeHost(fault_);
}

std::string PeerExchange::name_of(int rank) const {
  return fmt::format("rank {} of {}, {}", rank, ranks(), devices_[static_cast<std::size_t>(rank)]->gpu());
}

Status PeerExchange::status() const {
  const MutexLock lock(mutex_);
  const std::uint64_t word = failure_.empty() && fault_ != nullptr ? word_at(fault_).load() : 0;
  if (word != 0) {
    const ExchangeFault fault = fault_of(word);
    failure_ = fmt::format("{} did not come to exchange {} within {} ms (--collective-timeout), rank {} waited",
                           name_of(fault.missing), fault.exchange - kTriedExchanges, limit_.count(), fault.rank);
  }
  return failure_.empty() ? Status() : internal_error(failure_);
}

void PeerExchange::fail(int rank, std::string_view why) {
  const MutexLock lock(mutex_);
  if (failure_.empty()) failure_ = fmt::format("rank {} of {}: {}", rank, ranks(), why);
  std::uint64_t none = 0;
  word_at(fault_).compare_exchange_strong(none, fault_word({.rank = rank, .of_device = true}));
}

Status PeerExchange::check_models() const {
  std::vector<cudaDeviceProp> models(devices_.size());
  for (std::size_t r = 0; r < devices_.size(); ++r) {
    const cudaError_t error = cudaGetDeviceProperties(&models[r], devices_[r]->number());
    if (error != cudaSuccess) return failed(fmt::format("asking what {} is", devices_[r]->gpu()), error);
    if (std::string_view(models[r].name) == models[0].name && models[r].major == models[0].major &&
        models[r].minor == models[0].minor && models[r].multiProcessorCount == models[0].multiProcessorCount) {
      continue;
    }
    return invalid_argument(fmt::format("connecting GPUs: expected GPUs of one model, found {} and {}",
                                        devices_[0]->gpu(), devices_[r]->gpu()));
  }
  return {};
}

Status PeerExchange::open_memory() {
  void* fault = nullptr;
  SLUICE_RETURN_IF_ERROR(map_pinned(sizeof(std::uint64_t), "the ranks' fault", &fault));
  fault_ = static_cast<std::uint64_t*>(fault);
  const std::size_t bytes = exchange_bytes(ranks());
  for (CudaDevice* device : devices_) {
    SLUICE_ASSIGN_OR_RETURN(DeviceMemory counts,
                            device->map(kExchangeCounts * sizeof(std::uint32_t), "the ranks' counts"));
    counts_.push_back(std::move(counts));
    if (through_host_) {
      void* memory = nullptr;
      SLUICE_RETURN_IF_ERROR(map_pinned(bytes, "what ranks write to each other", &memory));
      host_memory_.push_back(static_cast<std::byte*>(memory));
    } else {
      SLUICE_ASSIGN_OR_RETURN(DeviceMemory memory, device->map(bytes, "what ranks write to each other"));
      memory_.push_back(std::move(memory));
    }
    device->wait();  // so that the memory is zeroed before another rank writes to it
    SLUICE_RETURN_IF_ERROR(device->status());
  }
  return {};
}

Status PeerExchange::open(bool through_host) {
  SLUICE_RETURN_IF_ERROR(check_models());
  bool shared = false;
  through_host_ = through_host;
  for (const CudaDevice* a : devices_) {
    for (const CudaDevice* b : devices_) {
      shared = shared || (a != b && a->number() == b->number());
      if (through_host_ || reach_each_other(a->number(), b->number())) continue;
      log_info("{} and {} cannot reach each other's memory: ranks exchange through pinned memory of the host", a->gpu(),
               b->gpu());
      through_host_ = true;
    }
  }
  for (const CudaDevice* from : devices_) {
    for (const CudaDevice* to : devices_) {
      if (!through_host_) SLUICE_RETURN_IF_ERROR(enable_peer(from->number(), to->number()));
    }
  }
  SLUICE_RETURN_IF_ERROR(open_memory());
  constexpr int kSharedBlocks = 16;
  for (int r = 0; r < ranks(); ++r) {
    ExchangeView& view = views_[static_cast<std::size_t>(r)];
    view.ranks = ranks(), view.rank = r, view.shares_gpu = shared, view.fault = fault_;
    view.bulk_blocks = shared ? kSharedBlocks : kBulkBlocks;
    view.counts = reinterpret_cast<std::uint32_t*>(counts_[static_cast<std::size_t>(r)].data());
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      view.memory[i] = through_host_ ? host_memory_[i] : memory_[i].data();
    }
  }
  SLUICE_RETURN_IF_ERROR(try_links());
  for (int r = 0; r < ranks(); ++r) {
    const auto rank = static_cast<std::size_t>(r);
    views_[rank].limit_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(limit_).count());
    devices_[rank]->join([this, r](const Status& why) { fail(r, why.message()); });
  }
  return {};
}

// All ranks gather twice as packets, and twice in bulk, so that each place of their memory has been tried.
Status PeerExchange::try_links() {
  const int blocks = views_[0].bulk_blocks;
  const auto bulk = static_cast<int>(static_cast<std::size_t>(blocks) * piece_bytes(ranks()) / sizeof(float));
  constexpr auto kPackets = static_cast<int>(kPacketShardBytes / sizeof(float));
  for (ExchangeView& view : views_) view.limit_ns = std::chrono::nanoseconds(kLinkLimit).count();
  ThreadPool pool(1);
  const std::array<int, kTriedExchanges> tried{kPackets, kPackets, bulk, bulk};
  for (const int columns : tried) {
    const auto share = static_cast<std::size_t>(columns) * sizeof(float);
    std::vector<DeviceMemory> memory;  // by rank: its share, then the gathered row
    std::vector<std::vector<std::uint32_t>> values(devices_.size());
    for (std::size_t r = 0; r < devices_.size(); ++r) {
      SLUICE_ASSIGN_OR_RETURN(DeviceMemory mapped,
                              devices_[r]->map(share * (devices_.size() + 1), "trying the links of GPUs"));
      memory.push_back(std::move(mapped));
      values[r].resize(static_cast<std::size_t>(columns));
      for (int i = 0; i < columns; ++i) values[r][static_cast<std::size_t>(i)] = tried_value(static_cast<int>(r), i);
      devices_[r]->upload({memory[r].data(), reinterpret_cast<const std::byte*>(values[r].data()), share});
      devices_[r]->wait();
    }
    for (int r = 0; r < ranks(); ++r) {
      const auto rank = static_cast<std::size_t>(r);
      auto* from = reinterpret_cast<float*>(memory[rank].data());
      all_gather({&pool, nullptr, &cuda_op_table(), devices_[rank], {r, ranks(), this}},
                 {.rows = 1,
                  .from = contiguous_rows(from, columns),
                  .to = contiguous_rows(from + columns, columns * ranks())});
    }
    for (CudaDevice* device : devices_) device->wait();
    if (const std::uint64_t word = word_at(fault_).load(); word != 0) {
      const ExchangeFault fault = fault_of(word);
      return unavailable(fmt::format("trying the links of GPUs: expected values from {} at {}, found none within {} s",
                                     name_of(fault.missing), name_of(fault.rank), kLinkLimit.count()));
    }
    for (int r = 0; r < ranks(); ++r) {
      const auto rank = static_cast<std::size_t>(r);
      std::vector<std::uint32_t> found(static_cast<std::size_t>(columns) * devices_.size());
      devices_[rank]->download(
          {reinterpret_cast<std::byte*>(found.data()), memory[rank].data() + share, found.size() * sizeof(float)});
      devices_[rank]->wait();
      SLUICE_RETURN_IF_ERROR(devices_[rank]->status());
      SLUICE_RETURN_IF_ERROR(compare_links(r, columns, found));
    }
  }
  return {};
}

Status PeerExchange::compare_links(int rank, int columns, std::span<const std::uint32_t> found) const {
  for (int sender = 0; sender < ranks(); ++sender) {
    for (int i = 0; i < columns; ++i) {
      const std::uint32_t value =
          found[static_cast<std::size_t>(sender) * static_cast<std::size_t>(columns) + static_cast<std::size_t>(i)];
      if (value == tried_value(sender, i)) continue;
      return unavailable(fmt::format("trying the links of GPUs: expected {:08x} as word {} from {} at {}, found {:08x}",
                                     tried_value(sender, i), i, name_of(sender), name_of(rank), value));
    }
  }
  return {};
}

}  // namespace sluice
