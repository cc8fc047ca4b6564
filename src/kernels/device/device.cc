// Used by cache, engine, kernels, model and src/bench.
#include "kernels/device/device.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/storage/large_bytes.h"
#include "base/threads/cpu_topology.h"

namespace sluice {
namespace {

class CpuDevice final : public Device {
 public:
  const char* name() const override { return "cpu"; }

  Result<DeviceMemory> map(std::size_t bytes, std::string_view what) override {
    void* data =
        ::mmap(nullptr, mapped(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) {
      return resource_exhausted(fmt::format("cannot map {} bytes of {} ({})", bytes, what, std::strerror(errno)));
    }
    interleave_memory(data, mapped(bytes), memory_nodes());
    return DeviceMemory(this, static_cast<std::byte*>(data), bytes);
  }

  // Huge pages spare address misses; with small pieces they would only occupy memory that is not used.
  void expect_pieces(std::byte* at, std::size_t bytes, std::size_t piece_bytes) override {
    constexpr std::size_t kLeastPiece = std::size_t{16} << 10, kLeastBytes = std::size_t{64} << 20;
    if (piece_bytes < kLeastPiece || bytes < kLeastBytes) return;
    const std::size_t before = (kHugePage - reinterpret_cast<std::uintptr_t>(at) % kHugePage) % kHugePage;
    ::madvise(at + before, (bytes - before) / kHugePage * kHugePage, MADV_HUGEPAGE);
  }

  void copy_all(std::span<const ByteMove> moves) override { move_all(moves); }
  void upload_all(std::span<const ByteMove> moves) override { move_all(moves); }
  void download_all(std::span<const ByteMove> moves) override { move_all(moves); }
  void fill(std::byte* to, std::byte value, std::size_t bytes) override { std::fill_n(to, bytes, value); }
  void wait() override {}

 private:
  static std::size_t mapped(std::size_t bytes) { return std::max<std::size_t>(bytes, 1); }
  static void move_all(std::span<const ByteMove> moves) {
    for (const ByteMove& move : moves) std::copy_n(move.from, move.bytes, move.to);
  }
  void unmap(std::byte* data, std::size_t bytes) override { ::munmap(data, mapped(bytes)); }
};

}  // namespace

Device& cpu_device() {
  static CpuDevice device;
  return device;
}

}  // namespace sluice
