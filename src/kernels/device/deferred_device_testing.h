// DeferredDevice: a device for tests that does nothing before wait(). The host can touch its memory only while ops and
// moves run: at any other time a read or a write through one of its addresses ends the program.
#pragma once

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <vector>

#include "base/check.h"
#include "kernels/device/device.h"

namespace sluice {

class DeferredDevice final : public Device {
 public:
  DeferredDevice() = default;
  DeferredDevice(const DeferredDevice&) = delete;
  DeferredDevice& operator=(const DeferredDevice&) = delete;
  ~DeferredDevice() override { SLUICE_CHECK(maps_.empty(), "memory does not outlive its device"); }

  const char* name() const override { return "deferred"; }
  // Enqueues an op, which may read and write the device's memory.
  void enqueue(std::function<void()> op) { queue_.push_back(std::move(op)); }
  std::size_t enqueued() const { return queue_.size(); }
  int waits() const { return waits_; }

  Result<DeviceMemory> map(std::size_t bytes, std::string_view what) override {
    const std::size_t mapped = std::max<std::size_t>(bytes, 1);
    void* data = ::mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) {
      return resource_exhausted(fmt::format("cannot map {} bytes of {} ({})", bytes, what, std::strerror(errno)));
    }
    maps_[static_cast<std::byte*>(data)] = mapped;
    return DeviceMemory(this, static_cast<std::byte*>(data), bytes);
  }

  void copy_all(std::span<const ByteMove> moves) override { enqueue_moves(moves); }
  void download_all(std::span<const ByteMove> moves) override { enqueue_moves(moves); }
  void upload_all(std::span<const ByteMove> moves) override {
    for (const ByteMove& move : moves) {
      enqueue([to = move.to, bytes = std::vector(move.from, move.from + move.bytes)] {
        std::copy(bytes.begin(), bytes.end(), to);
      });
    }
  }
  void fill(std::byte* to, std::byte value, std::size_t bytes) override {
    enqueue([to, value, bytes] { std::fill_n(to, bytes, value); });
  }
  void wait() override {
    ++waits_;
    if (queue_.empty()) return;
    protect(PROT_READ | PROT_WRITE);
    for (const auto& op : queue_) op();
    queue_.clear();
    protect(PROT_NONE);
  }

 private:
  void enqueue_moves(std::span<const ByteMove> moves) {
    enqueue([moves = std::vector(moves.begin(), moves.end())] {
      for (const ByteMove& move : moves) std::copy_n(move.from, move.bytes, move.to);
    });
  }
  void protect(int access) const {
    for (const auto& [data, bytes] : maps_) {
      SLUICE_CHECK(::mprotect(data, bytes, access) == 0, "the system protects memory that was mapped");
    }
  }
  void unmap(std::byte* data, std::size_t) override {
    wait();
    ::munmap(data, maps_.at(data));
    maps_.erase(data);
  }

  std::map<std::byte*, std::size_t> maps_;  // begin -> bytes
  std::vector<std::function<void()>> queue_;
  int waits_ = 0;
};

}  // namespace sluice
