// Device: memory that ops work in, and moves of bytes to, from and within it.
//
// A device has one queue. The moves below and ops are done in the order of the calls, possibly after the calls have
// returned; wait() returns when all of it is done. So a caller need not wait between writing what an op reads and
// enqueuing that op. Only a caller that needs bytes on the host waits.
//   copy      from device memory to device memory
//   fill      device memory with one byte
//   upload    from host memory, which may be used for something else as soon as the call returns
//   download  to host memory, which holds the bytes once wait() has returned and must stay until then
// The moves of one call may be done in any order, or at once: none may write what another one reads or writes.
//
// An address in device memory is for ops and for these functions only. Nothing else may read or write through it, even
// on the CPU: on other devices it is not the host's memory, or does not yet hold what the host expects.
//
// Errors: map() fails with a Status. A device that breaks down does nothing more, and status() says so from then on.
// After a wait for bytes, check it before using them. Thread safety: one thread at a time. cpu_device() may be used by
// any number of threads at once, under the usual rules for shared memory.
// Used by cache, engine, kernels, model and src/bench.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

#include "sluice/status.h"

namespace sluice {

class Device;

// Owns a piece of a device's memory, and must not outlive the device. The piece is freed once all that was enqueued is
// done.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(Device* device, std::byte* data, std::size_t size) : device_(device), data_(data), size_(size) {}
  DeviceMemory(DeviceMemory&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~DeviceMemory();

  std::byte* data() const { return data_; }  // the address in the device's memory, aligned to 256 bytes
  std::size_t size() const { return size_; }

 private:
  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

struct ByteMove {
  std::byte* to;
  const std::byte* from;
  std::size_t bytes;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const char* name() const = 0;

  // Returns zeroed memory. If the system can, it takes pages from the machine only when they are first used, so a large
  // piece may be asked for. kResourceExhausted names the bytes, `what` they are for and the system's reason.
  virtual Result<DeviceMemory> map(std::size_t bytes, std::string_view what) = 0;
  // The bytes that can still be mapped, roughly; 0 if only the whole machine's memory limits
  // them (base/threads/machine.h).
  virtual std::size_t free_bytes() const { return 0; }
  // A hint about mapped memory not used yet: pieces of `piece_bytes` will be read, from anywhere in it.
  virtual void expect_pieces(std::byte* /*at*/, std::size_t /*bytes*/, std::size_t /*piece_bytes*/) {}

  virtual void copy_all(std::span<const ByteMove> moves) = 0;
  virtual void upload_all(std::span<const ByteMove> moves) = 0;
  virtual void download_all(std::span<const ByteMove> moves) = 0;
  virtual void fill(std::byte* to, std::byte value, std::size_t bytes) = 0;
  virtual void wait() = 0;

  // Ops enqueued between these two calls may all start at the second one, at other work, or at a wait, if the device
  // runs them faster that way than one after the other.
  virtual void begin_batch() {}
  virtual void end_batch() {}

  // kInternal once something that was enqueued went wrong, and the host has waited for it or note_failure() has found
  // it. Bytes downloaded since
  // then, or by the call that found it, must not be used. It never becomes ok again.
  virtual Status status() const { return {}; }

  // From now on the calling thread enqueues ops of this device. A thread that works with several devices has to call
  // it.
  virtual void make_current() {}

  // For a group (kernels/device/device_group.h): the number of its devices, whose memory at one address may differ.
  virtual int members() const { return 1; }
  virtual void download_from(int /*member*/, std::span<const ByteMove> moves) { download_all(moves); }
  virtual void upload_to(int /*member*/, std::span<const ByteMove> moves) { upload_all(moves); }

  // A mark in the queue after all that was enqueued; wait_for() returns when all before it is done.
  using Mark = std::uint64_t;
  virtual Mark mark() { return 0; }
  virtual void wait_for(Mark /*mark*/) { wait(); }
  // As wait_for(); a device that can fail by itself calls `watch` again and again meanwhile.
  virtual void wait_watching(Mark mark, const std::function<void()>& /*watch*/) { wait_for(mark); }
  // Asks the device, without waiting, whether something that was enqueued went wrong; status() tells.
  virtual void note_failure() {}

  void copy(const ByteMove& move) { copy_all({&move, 1}); }
  void upload(const ByteMove& move) { upload_all({&move, 1}); }
  void download(const ByteMove& move) { download_all({&move, 1}); }

 private:
  friend class DeviceMemory;
  virtual void unmap(std::byte* data, std::size_t bytes) = 0;
};

inline DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) device_->unmap(data_, size_);
}

// The machine's own memory: each call is done when it returns. Pages of large maps are spread over the NUMA nodes.
Device& cpu_device();

}  // namespace sluice
