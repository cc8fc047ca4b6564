// EmulatedDevice: what makes GPUs hard, without a GPU. Ops and moves are done later, in the order of the calls, by a
// separate thread that is delayed at random; the ops are the CPU's. For tests (`--device emulated`).
//
//   - Its memory is protected from the host: a read or write through one of its addresses outside of an op or a move
//     ends the program. (Protection applies to all threads, so a host that reads just while an op runs goes unnoticed;
//     the delays make that rare.)
//   - Delays take a sixteenth of its time at most, and protection half of that: in long runs some of the ops have them.
//   - The host bytes of an upload go through a staging buffer of the device. When the upload is done that buffer is
//     overwritten, so whoever kept its address reads 0xA5.
//   - Ops can be recorded instead of done, and replayed: whatever changes from step to step must then be in device
//     memory; a host value that an op kept shows up as stale.
//   - An op that is said to have nothing to do with the one before it (StoreKvArgs::beside_last) is done before that
//     one: if it has, values differ.
// Thread safety: as Device's.
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

  // What an op does, with the device's memory at hand.
  using Work = std::function<void()>;
  void enqueue(Work work);
  // An op of a table; `beside_last`: done before the one enqueued last, if that is another op.
  void enqueue_op(Work work, bool beside_last);

  // What is enqueued between these two is recorded, not done. replay() enqueues all of it.
  using Recording = std::vector<Work>;
  void record() { recording_ = true; }
  Recording recorded();
  void replay(const Recording& recording);
  // Whether it is device memory. A GPU's ops reach no other; those here would.
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
  Condition changed_;  // the queue
  Condition reached_;  // what is wanted
  std::deque<Work> queue_ SLUICE_GUARDED_BY(mutex_);
  Work held_ SLUICE_GUARDED_BY(mutex_);  // the op enqueued last, until it is known what comes next; or none
  Mark enqueued_ SLUICE_GUARDED_BY(mutex_) = 0, done_ SLUICE_GUARDED_BY(mutex_) = 0;
  Mark wanted_ SLUICE_GUARDED_BY(mutex_) = 0;  // by the one that waits
  bool stop_ SLUICE_GUARDED_BY(mutex_) = false;
  std::map<std::byte*, std::size_t> maps_ SLUICE_GUARDED_BY(mutex_);
  bool accessible_ SLUICE_GUARDED_BY(mutex_) = false;
  bool recording_ = false;
  Recording recording_ops_;
  bool recorded_op_ = false;  // the last of them is an op
  std::atomic<bool> broken_ = false;
  const Clock::time_point start_ = Clock::now();
  Clock::duration protecting_ SLUICE_GUARDED_BY(mutex_) = Clock::duration::zero();  // so much time went there
  Clock::duration delayed_{};                                                       // the worker's
  std::minstd_rand random_;                                                         // the worker's
  std::thread worker_;
};

// The CPU's ops, enqueued: exec.device is an EmulatedDevice, and only its worker uses exec.pool.
const OpTable& emulated_op_table();

}  // namespace sluice
