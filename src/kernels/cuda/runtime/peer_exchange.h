// PeerExchange: the exchange of GPUs of this machine (kernels/cuda/exchange_view.h). Their kernels write to each
// other's memory. If any two of them cannot, all go through pinned memory of the host; a line of the log says so.
//
// Each wait of a kernel has a limit. A rank that reaches it, or whose GPU fails, ends the group. Kernels that wait read
// a word in pinned memory of the host. status() names the rank that did not come and the one that waited for it, or the
// rank whose GPU failed; a device's own status() does not change because of it. Thread safety: status() by any thread;
// connect while no thread uses the devices.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/threads/mutex.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/exchange_view.h"

namespace sluice {

class PeerExchange final : public CudaExchange {
 public:
  // The devices must outlive it; several may be on one GPU, for tests. Tries each link in both directions. Errors say
  // what was expected and found: kInvalidArgument (their number, or GPUs that differ), kResourceExhausted,
  // kUnavailable (a link that brings nothing within a second, or other values).
  static Result<std::unique_ptr<PeerExchange>> connect(std::span<CudaDevice* const> ranks,
                                                       std::chrono::milliseconds limit, bool through_host = false);
  ~PeerExchange() override;
  PeerExchange(const PeerExchange&) = delete;
  PeerExchange& operator=(const PeerExchange&) = delete;

  int ranks() const override { return static_cast<int>(devices_.size()); }
  Status status() const override;
  const ExchangeView& view(int rank) const override { return views_[static_cast<std::size_t>(rank)]; }
  bool through_host() const { return through_host_; }
  // Ends the group in the name of a rank.
  void fail(int rank, std::string_view why);

 private:
  PeerExchange(std::span<CudaDevice* const> ranks, std::chrono::milliseconds limit)
      : devices_(ranks.begin(), ranks.end()), limit_(limit) {}
  Status open(bool through_host);
  Status check_models() const;
  Status open_memory();
  Status try_links();
  Status compare_links(int rank, int columns, std::span<const std::uint32_t> found) const;
  std::string name_of(int rank) const;

  const std::vector<CudaDevice*> devices_;
  const std::chrono::milliseconds limit_;
  bool through_host_ = false;
  std::vector<DeviceMemory> memory_, counts_;
  std::vector<std::byte*> host_memory_;  // pinned memory, one piece a rank; empty: the GPUs reach each other directly
  std::uint64_t* fault_ = nullptr;       // in pinned memory: ExchangeView::fault
  std::array<ExchangeView, kMostRanks> views_{};
  mutable Mutex mutex_;
  mutable std::string failure_ SLUICE_GUARDED_BY(mutex_);  // empty: none
};

}  // namespace sluice
