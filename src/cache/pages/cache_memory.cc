// Used by cache/cache_pools.h.
#include "cache/pages/cache_memory.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/checksum.h"

namespace sluice {
namespace {

std::size_t to_64_bytes(std::size_t n) {
  return (n + 63) / 64 * 64;
}

}  // namespace

Result<CacheMemory> CacheMemory::create(Device& device, const CacheLayout& layout, const MemoryPlan& plan) {
  CacheMemory memory(device, layout);
  const std::size_t open_bytes = layout.open_bytes();
  std::size_t bytes = to_64_bytes(plan.open_bytes + open_bytes);
  std::vector<std::size_t> offsets;
  for (const PlaneSpec& plane : layout.planes) {
    const int pages = plane.kind == PlaneKind::kLatent ? plan.latent_pages : plan.window_pages;
    offsets.push_back(bytes);
    bytes += to_64_bytes(static_cast<std::size_t>(pages) * plane.page_bytes());
  }
  Result<DeviceMemory> mapped = device.map(bytes, "cache");
  if (!mapped.ok()) {
    return resource_exhausted(fmt::format("--kv-cache-memory: {}; choose a smaller budget", mapped.status().message()));
  }
  memory.memory_ = std::move(mapped).value();
  std::byte* const base = memory.memory_.data();
  offsets.push_back(bytes);
  for (std::size_t i = 0; i < layout.planes.size(); ++i) {
    const PlaneSpec& plane = layout.planes[i];
    const bool open = plane.kind == PlaneKind::kOpen;
    memory.view_.open_offsets.push_back(open ? layout.open_offset(PlaneId(static_cast<std::int32_t>(i))) : 0);
    memory.view_.planes.push_back(plane.view(base + offsets[i]));
    device.expect_pieces(base + offsets[i], offsets[i + 1] - offsets[i], plane.page_bytes());
  }
  memory.view_.open_base = base;
  memory.view_.open_stride = open_bytes;
  memory.initial_ = OpenState(open_bytes == 0 ? 0 : static_cast<std::int32_t>(plan.open_bytes / open_bytes));
  const std::vector<std::byte> initial = layout.initial_state();
  device.upload({memory.address(memory.initial_), initial.data(), initial.size()});
  return memory;
}

std::byte* CacheMemory::address(OpenState state) const {
  SLUICE_DCHECK(state.value >= 0 && (view_.open_stride == 0 || state <= initial_), "a state outside its pool");
  return view_.open_base + static_cast<std::size_t>(state.value) * view_.open_stride;
}

std::byte* CacheMemory::part(std::size_t plane, std::int32_t page) const {
  const PlaneView& view = view_.planes[plane];
  return view.base + static_cast<std::size_t>(page) * view.page_bytes;
}

void CacheMemory::write_initial_state(OpenState to) {
  copy_state(initial_, to);
}

void CacheMemory::write_initial_part(PlaneId plane, OpenState to) {
  const std::size_t offset = view_.open_offsets[static_cast<std::size_t>(plane.value)];
  device_->copy({address(to) + offset, address(initial_) + offset, (*layout_)[plane].initial.size()});
}

void CacheMemory::write_boundary_state(LatentPage latents, WindowPage windows, OpenState to) {
  write_initial_state(to);
  moves_.clear();
  for (std::size_t i = 0; i < layout_->planes.size(); ++i) {
    const PlaneSpec& plane = layout_->planes[i];
    if (plane.kind != PlaneKind::kOpen) continue;
    std::byte* const state = address(to) + view_.open_offsets[i];
    if (plane.kept_in) {
      moves_.push_back(
          {state, part(static_cast<std::size_t>(plane.kept_in.value), latents.value), plane.initial.size()});
    } else if (plane.boundary_bytes > 0) {
      moves_.push_back({state, part(i, windows.value), static_cast<std::size_t>(plane.boundary_bytes)});
    }
  }
  device_->copy_all(moves_);
}

void CacheMemory::copy_state(OpenState from, OpenState to) {
  device_->copy({address(to), address(from), view_.open_stride});
}

void CacheMemory::copy_page(PlaneKind pool, std::int32_t from, std::int32_t to) {
  moves_.clear();
  for (std::size_t i = 0; i < view_.planes.size(); ++i) {
    if (is_of(pool, i)) moves_.push_back({part(i, to), part(i, from), view_.planes[i].page_bytes});
  }
  device_->copy_all(moves_);
}

std::uint64_t CacheMemory::digest(PlaneKind pool, std::int32_t page) const {
  std::vector<std::byte> bytes(pool == PlaneKind::kLatent ? layout_->latent_page_bytes()
                                                          : layout_->window_page_bytes());
  moves_.clear();
  std::byte* to = bytes.data();
  for (std::size_t i = 0; i < view_.planes.size(); ++i) {
    if (!is_of(pool, i)) continue;
    moves_.push_back({to, part(i, page), view_.planes[i].page_bytes});
    to += view_.planes[i].page_bytes;
  }
  device_->download_all(moves_);
  device_->wait();
  return checksum(bytes);
}

std::size_t CacheMemory::image_bytes(std::size_t latent_pages, std::size_t window_pages) const {
  return members() * (latent_pages * layout_->latent_page_bytes() + window_pages * layout_->window_page_bytes() +
                      view_.open_stride);
}

std::size_t CacheMemory::members() const {
  return layout_->differs_by_rank ? static_cast<std::size_t>(device_->members()) : 1;
}

template <class Visit>
void CacheMemory::visit_image(std::span<const LatentPage> latents, std::span<const WindowPage> windows, OpenState state,
                              std::size_t image_bytes, const Visit& visit) const {
  SLUICE_CHECK(image_bytes == this->image_bytes(latents.size(), windows.size()), "an image of other pages");
  std::size_t offset = 0;
  const auto pages = [&](std::size_t plane, const auto& list) {
    const std::size_t bytes = view_.planes[plane].page_bytes;
    for (const auto page : list) {
      if (page) visit(part(plane, page.value), bytes, offset);
      offset += bytes;
    }
  };
  for (std::size_t i = 0; i < view_.planes.size(); ++i) {
    is_of(PlaneKind::kLatent, i) ? pages(i, latents) : pages(i, windows);
  }
  visit(address(state), view_.open_stride, offset);
}

void CacheMemory::save(std::span<const LatentPage> latents, std::span<const WindowPage> windows, OpenState state,
                       std::span<std::byte> image) const {
  const std::size_t of_member = image.size() / members();
  for (std::size_t member = 0; member < members(); ++member) {
    moves_.clear();
    std::byte* const to = image.data() + member * of_member;
    visit_image(latents, windows, state, image.size(),
                [&](const std::byte* from, std::size_t bytes, std::size_t offset) {
                  moves_.push_back({to + offset, from, bytes});
                });
    members() == 1 ? device_->download_all(moves_) : device_->download_from(static_cast<int>(member), moves_);
  }
  device_->wait();
}

void CacheMemory::restore(std::span<const std::byte> image, std::span<const LatentPage> latents,
                          std::span<const WindowPage> windows, OpenState state) {
  const std::size_t of_member = image.size() / members();
  for (std::size_t member = 0; member < members(); ++member) {
    moves_.clear();
    const std::byte* const from = image.data() + member * of_member;
    visit_image(latents, windows, state, image.size(), [&](std::byte* to, std::size_t bytes, std::size_t offset) {
      moves_.push_back({to, from + offset, bytes});
    });
    members() == 1 ? device_->upload_all(moves_) : device_->upload_to(static_cast<int>(member), moves_);
  }
}

template <class Visit>
void CacheMemory::visit_rows(const Rows& rows, std::size_t bytes, const Visit& visit) const {
  const PlaneView& view = view_[rows.plane];
  SLUICE_CHECK(rows.first >= 0 && rows.count > 0 && rows.first + rows.count <= view.rows_per_page, "rows of one page");
  const auto count = static_cast<std::size_t>(rows.count);
  const std::size_t data = count * static_cast<std::size_t>(view.format.data_bytes);
  const std::size_t scales = count * static_cast<std::size_t>(view.format.scale_bytes);
  SLUICE_CHECK(bytes == data + scales, "the bytes of so many rows");
  const RowRef row = view.row(rows.page, rows.first);
  visit(row.data, data, 0);
  visit(row.scales, scales, data);
}

std::vector<std::byte> CacheMemory::read_rows(const Rows& rows) const {
  const int row_bytes = view_[rows.plane].format.row_bytes();
  std::vector<std::byte> found(static_cast<std::size_t>(rows.count) * static_cast<std::size_t>(row_bytes));
  moves_.clear();
  visit_rows(rows, found.size(), [&](const std::byte* from, std::size_t bytes, std::size_t offset) {
    moves_.push_back({found.data() + offset, from, bytes});
  });
  device_->download_all(moves_);
  device_->wait();
  return found;
}

void CacheMemory::write_rows(const Rows& rows, std::span<const std::byte> bytes) {
  moves_.clear();
  visit_rows(rows, bytes.size(), [&](std::byte* to, std::size_t count, std::size_t offset) {
    moves_.push_back({to, bytes.data() + offset, count});
  });
  device_->upload_all(moves_);
}

}  // namespace sluice
