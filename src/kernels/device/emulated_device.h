// EmulatedDevice: a device that is as hard to use as a GPU, without a GPU. A separate thread, delayed at random, does
// ops and moves later, in the order of the calls; the ops are the CPU's. For tests (`--device emulated`).
//
//   - Its memory is protected from the host: a read or write through one of its addresses outside of an op or a move
//     ends the program. (Protection applies to all threads, so a host that reads just while an op runs goes unnoticed;
//     the delays make that rare.)
//   - Delays take a sixteenth of its time at most, and protection half of that: in long runs some of the ops have them.
//   - The host bytes of an upload go through a staging buffer of the device. When the upload is done that buffer is
//     overwritten, so code that kept its address reads 0xA5.
//   - Ops can be recorded instead of done, and replayed: values that change from step to step must then be in device
//     memory; a host value that an op kept shows up as stale.
//   - An op that is said to have nothing to do with the one before it (StoreKvArgs::beside_last) is done before that
//     one: if it has, values differ.
// Thread safety: as for Device.
// Used by backend.cc.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "base/threads/mutex.h"
#include "kernels/device/device.h"
#include "kernels/ops/ops.h"

namespace sluice {

class EmulatedDevice final : public Device {
 public:
  // `seed` decides the delays.
  explicit EmulatedDevice(std::uint32_t seed);
  ~EmulatedDevice() override;
  EmulatedDevice(const EmulatedDevice&) = delete;
  EmulatedDevice& operator=(const EmulatedDevice&) = delete;

  const char* name() const override { return "emulated"; }
  Result<DeviceMemory> map(std::size_t bytes, std::string_view what) override;
  void copy_all(std::span<const ByteMove> moves) override;
  void upload_all(std::span<const ByteMove> moves) override;
  void download_all(std::span<const ByteMove> moves) override;
  void fill(std::byte* to, std::byte value, std::size_t bytes) override;
  Mark mark() override;
  void wait_for(Mark mark) override;
  void wait() override { wait_for(mark()); }
  Status status() const override;

  // From now on nothing is done any more, and downloads give 0xFF.
  void break_down() { broken_ = true; }

  // The work of an op, done when the device's memory can be touched.
  using Work = std::function<void()>;
  void enqueue(Work work);
  // Enqueues an op of a table. `beside_last`: it is done before the one enqueued last, if that is another op.
  void enqueue_op(Work work, bool beside_last);

  // Work that is enqueued between record() and recorded() is recorded, not done. replay() enqueues all of it.
  using Recording = std::vector<Work>;
  void record() { recording_ = true; }
  Recording recorded();
  void replay(const Recording& recording);
  // True if the address is device memory. A GPU's ops reach no other memory; the ops here would.
  bool holds(const void* at) const;

 private:
  void unmap(std::byte* data, std::size_t bytes) override;
  void enqueue_moves(std::span<const ByteMove> moves);
  void release_held() SLUICE_REQUIRES(mutex_);
  void run();
  void protect(bool accessible) SLUICE_REQUIRES(mutex_);
  using Clock = std::chrono::steady_clock;
  bool affords(int part, Clock::duration spent) const;

  mutable Mutex mutex_;
  Condition changed_;  // notified when the queue has changed
  Condition reached_;  // notified when the wanted mark is reached
  std::deque<Work> queue_ SLUICE_GUARDED_BY(mutex_);
  Work held_ SLUICE_GUARDED_BY(mutex_);  // the op enqueued last, until the next one is known; or none
  Mark enqueued_ SLUICE_GUARDED_BY(mutex_) = 0, done_ SLUICE_GUARDED_BY(mutex_) = 0;
  Mark wanted_ SLUICE_GUARDED_BY(mutex_) = 0;  // the mark that the waiting thread wants
  bool stop_ SLUICE_GUARDED_BY(mutex_) = false;
  std::map<std::byte*, std::size_t> maps_ SLUICE_GUARDED_BY(mutex_);
  bool accessible_ SLUICE_GUARDED_BY(mutex_) = false;
  bool recording_ = false;
  Recording recording_ops_;
  bool recorded_op_ = false;  // the last recorded work is an op
  std::atomic<bool> broken_ = false;
  const Clock::time_point start_ = Clock::now();
  Clock::duration protecting_ SLUICE_GUARDED_BY(mutex_) = Clock::duration::zero();  // the time that protect() took
  Clock::duration delayed_{};                                                       // used by the worker only
  std::minstd_rand random_;                                                         // used by the worker only
  std::thread worker_;
};

// The CPU's ops, enqueued. exec.device is an EmulatedDevice, and only its worker uses exec.pool.
const OpTable& emulated_op_table();

}  // namespace sluice
