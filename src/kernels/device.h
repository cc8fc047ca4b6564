// Device: memory that ops work in, and moves of bytes to, from and within it.
//
// A device has one queue. What is enqueued (the moves below; ops) is done in the order of the calls, maybe only after
// they have returned; wait() returns when all of it is done. So nobody waits between writing what an op reads and
// enqueuing that op; who needs bytes on the host does.
//   copy      from device memory to device memory
//   fill      device memory with one byte
//   upload    from host memory, which may be used for something else as soon as the call returns
//   download  to host memory, which holds the bytes once wait() has returned and must stay until then
// The moves of one call may be done in any order, or at once: none of them writes what another one reads or writes.
//
// An address in device memory is for ops and for these functions. Nothing else may read or write through it, although
// on the CPU it could: elsewhere it is not the host's memory, or not yet what the host believes.
//
// Errors: map() fails with a Status. A device that breaks down does nothing more, and status() says so from then on:
// whoever waited for bytes asks before using them. Thread safety: one thread at a time. cpu_device() may be used by any
// number at once, as memory may: not the same bytes, one of them writing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "sluice/status.h"

namespace sluice {

class Device;

// Owns a piece of a device's memory, which must not outlive the device. Given back once all that was enqueued is done.
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

  std::byte* data() const { return data_; }  // an address of the device; aligned to 256 bytes
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

  // Zeroed memory. Where the system can, it is taken from the machine when it is first used, so much may be asked for.
  // kResourceExhausted names the bytes, `what` they are for and the system's reason.
  virtual Result<DeviceMemory> map(std::size_t bytes, std::string_view what) = 0;
  // What can still be mapped, roughly; 0 where that is a matter of the whole machine (base/machine.h).
  virtual std::size_t free_bytes() const { return 0; }
  // A hint for mapped memory that is not used yet: it will be read all over, a piece of `piece_bytes` at a time.
  virtual void expect_pieces(std::byte* /*at*/, std::size_t /*bytes*/, std::size_t /*piece_bytes*/) {}

  virtual void copy_all(std::span<const ByteMove> moves) = 0;
  virtual void upload_all(std::span<const ByteMove> moves) = 0;
  virtual void download_all(std::span<const ByteMove> moves) = 0;
  virtual void fill(std::byte* to, std::byte value, std::size_t bytes) = 0;
  virtual void wait() = 0;

  // kInternal once something that was enqueued went wrong, as far as the host has waited: what was downloaded since,
  // and by the waiting call that found it, is not to be used. Never ok again.
  virtual Status status() const { return {}; }

  // The place in the queue behind all that was enqueued; wait_for() returns when all before it is done.
  using Mark = std::uint64_t;
  virtual Mark mark() { return 0; }
  virtual void wait_for(Mark /*mark*/) { wait(); }

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
