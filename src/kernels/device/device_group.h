// DeviceGroup: several devices of one kind, one a rank, used as one device. Memory is mapped,
// copied, uploaded and filled on every rank alike. So code that works with a device, a cache, tables or drawn tokens
// need not know how many there are.
//
//   map        maps on every rank; the address is rank 0's, and of(rank, address) is the same place on another
//   copy, upload, fill, wait
//              on every rank
//   download   from rank 0. Its bytes are those of all ranks, except in planes that are cached by heads: for them
//              download_from() and upload_to() name the rank
// Ops belong to a rank: every rank does those of ops() with its own addresses. A model has a part for each
// rank (model/ranked_model.h). each() calls for all of them at once, as one rank's queue may wait for another's.
//
// Errors: status() is that of the first rank that broke down, with its number, or of the exchange. While the caller
// waits for rank 0, the group asks the other ranks: one that broke down ends the exchanges at once. Thread safety: as
// for Device. Within each() a rank's function uses its own device alone. Rank 0's function runs on the caller's thread
// and may use the group, whose calls then reach rank 0 alone.
// Used by engine/runner/device_choice.h and model/ranked_model.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "base/threads/mutex.h"
#include "kernels/device/device.h"
#include "kernels/device/exec.h"
#include "kernels/ops/ops.h"

namespace sluice {

class DeviceGroup final : public Device {
 public:
  // `exchange` connects the devices, in rank order. rank_ops: the ops of each device, null: the CPU's.
  DeviceGroup(std::vector<std::unique_ptr<Device>> devices, std::unique_ptr<Exchange> exchange,
              const OpTable* rank_ops);
  ~DeviceGroup() override;
  DeviceGroup(const DeviceGroup&) = delete;
  DeviceGroup& operator=(const DeviceGroup&) = delete;

  int ranks() const { return static_cast<int>(devices_.size()); }
  Device& device(int rank) { return *devices_[static_cast<std::size_t>(rank)]; }
  // Returns the Exec of a rank's ops: like `exec`, whose device is the group.
  Exec rank_exec(const Exec& exec, int rank) const;
  // Returns the rank's address that corresponds to an address of the group. An address that the group has not mapped
  // (null, the host's) stays as it is.
  template <class T>
  T* of(int rank, T* address) const {
    return reinterpret_cast<T*>(
        const_cast<std::byte*>(place(rank, reinterpret_cast<const std::byte*>(address))));  // NOLINT
  }
  // Calls of_rank for all ranks at once, each on a thread of its own, and returns when all have returned.
  void each(const std::function<void(int rank)>& of_rank);
  // The ops that are enqueued on a group itself: sample and take_ids.
  static const OpTable& ops();

  const char* name() const override { return devices_.front()->name(); }
  Result<DeviceMemory> map(std::size_t bytes, std::string_view what) override;
  std::size_t free_bytes() const override;
  void expect_pieces(std::byte* at, std::size_t bytes, std::size_t piece_bytes) override;
  void copy_all(std::span<const ByteMove> moves) override;
  void upload_all(std::span<const ByteMove> moves) override;
  void download_all(std::span<const ByteMove> moves) override { devices_.front()->download_all(moves); }
  void fill(std::byte* to, std::byte value, std::size_t bytes) override;
  void wait() override;
  void begin_batch() override;
  void end_batch() override;
  Status status() const override;
  Mark mark() override;
  void wait_for(Mark mark) override;
  int members() const override { return ranks(); }
  void download_from(int member, std::span<const ByteMove> moves) override;
  void upload_to(int member, std::span<const ByteMove> moves) override;

 private:
  void unmap(std::byte* data, std::size_t bytes) override;
  const std::byte* place(int rank, const std::byte* address) const;
  void work(int rank);

  std::vector<std::unique_ptr<Device>> devices_;
  std::unique_ptr<Exchange> exchange_;
  const OpTable* rank_ops_;
  std::vector<std::unique_ptr<ThreadPool>> pools_;  // one for each rank but the first
  // By rank 0's address: the memory of all ranks, in their order.
  std::map<const std::byte*, std::vector<DeviceMemory>> maps_;
  std::vector<ByteMove> moved_;
  bool in_each_ = false;

  Mutex mutex_;
  Condition changed_;
  const std::function<void(int)>* function_ SLUICE_GUARDED_BY(mutex_) = nullptr;
  std::uint64_t calls_ SLUICE_GUARDED_BY(mutex_) = 0;
  int running_ SLUICE_GUARDED_BY(mutex_) = 0;
  bool stop_ SLUICE_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // one for each rank but the first
};

}  // namespace sluice
