#include "cache/cache_pools.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/cpu_topology.h"
#include "base/large_bytes.h"

namespace sluice {
namespace {

std::size_t align_up(std::size_t n) {
  return (n + 63) / 64 * 64;
}

}  // namespace

CachePools::CachePools(const CacheLayout& layout, const MemoryPlan& plan)
    : layout_(layout),
      geometry_(PageGeometry::of(layout)),
      plan_(plan),
      latents_(plan.latent_pages),
      windows_(plan.window_pages),
      slots_(plan.sequences + 1) {}

CachePools::~CachePools() {
  if (memory_ != nullptr) munmap(memory_, mapped_bytes_);
}

Result<std::unique_ptr<CachePools>> CachePools::create(const CacheLayout& layout, const MemoryPlan& plan) {
  std::unique_ptr<CachePools> pools(new CachePools(layout, plan));
  SLUICE_RETURN_IF_ERROR(pools->map_memory());
  return pools;
}

// Long contexts are read all over, which huge pages spare address misses; where pages of the cache are small they would
// only take memory that is not used.
void CachePools::advise_huge_pages(std::byte* begin, std::size_t bytes, std::size_t page_bytes) {
  constexpr std::size_t kLeastPage = std::size_t{16} << 10, kLeastBytes = std::size_t{64} << 20;
  if (page_bytes < kLeastPage || bytes < kLeastBytes) return;
  const std::size_t before = (kHugePage - reinterpret_cast<std::uintptr_t>(begin) % kHugePage) % kHugePage;
  ::madvise(begin + before, (bytes - before) / kHugePage * kHugePage, MADV_HUGEPAGE);
}

Status CachePools::map_memory() {
  std::vector<std::size_t> offsets;
  std::size_t bytes = align_up(plan_.open_bytes);
  for (const StreamSpec& stream : layout_.streams) {
    const int pages = stream.kind == StreamKind::kLatent ? plan_.latent_pages : plan_.window_pages;
    offsets.push_back(bytes);
    bytes += align_up(static_cast<std::size_t>(pages) * stream.page_bytes());
  }
  mapped_bytes_ = std::max<std::size_t>(bytes, 1);
  void* memory =
      mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return resource_exhausted(
        fmt::format("--kv-cache-memory: cannot map {} bytes of cache ({}); choose a smaller budget", mapped_bytes_,
                    std::strerror(errno)));
  }
  memory_ = static_cast<std::byte*>(memory);
  interleave_memory(memory, mapped_bytes_, memory_nodes());
  open_states_ = memory_;
  view_.open_base = memory_;
  view_.open_stride = layout_.open_bytes();
  for (std::size_t i = 0; i < layout_.streams.size(); ++i) {
    const StreamSpec& stream = layout_.streams[i];
    const StreamId id(static_cast<std::int32_t>(i));
    const bool open = stream.kind == StreamKind::kOpen;
    view_.open_offsets.push_back(open ? layout_.open_offset(id) : 0);
    view_.streams.push_back(stream.view(memory_ + offsets[i]));
    const std::size_t end = i + 1 < offsets.size() ? offsets[i + 1] : mapped_bytes_;
    advise_huge_pages(memory_ + offsets[i], end - offsets[i], stream.page_bytes());
  }
  return {};
}

std::byte* CachePools::open_state(StateSlot slot, int copy) const {
  SLUICE_DCHECK(slot.value >= 0 && slot.value < slots_.total(), "a state outside its pool");
  return open_states_ +
         (static_cast<std::size_t>(slot.value) * 2 + static_cast<std::size_t>(copy)) * layout_.open_bytes();
}

std::size_t CachePools::bytes_used() const {
  return static_cast<std::size_t>(latents_.used()) * layout_.latent_page_bytes() +
         static_cast<std::size_t>(windows_.used()) * layout_.window_page_bytes() +
         static_cast<std::size_t>(slots_.used()) * 2 * layout_.open_bytes();
}

}  // namespace sluice
