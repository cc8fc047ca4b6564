// Used by cache, cli, model, sim and verify.
#include "model/cache_layout.h"

#include <algorithm>
#include <set>

namespace sluice {
namespace {

constexpr std::size_t kStateAlignment = 64, kPageAlignment = 16;

std::size_t align_up(std::size_t n, std::size_t to) {
  return (n + to - 1) / to * to;
}

}  // namespace

const char* name(PlaneKind kind) {
  switch (kind) {
    case PlaneKind::kLatent:
      return "latent";
    case PlaneKind::kWindow:
      return "window";
    case PlaneKind::kOpen:
      return "open";
  }
  return "?";
}

int PlaneSpec::rows_per_page() const {
  if (kind == PlaneKind::kOpen) return 1;
  return kind == PlaneKind::kLatent ? kBlockTokens / tokens_per_row : kBlockTokens;
}

std::size_t PlaneSpec::page_bytes() const {
  const int row_bytes = kind == PlaneKind::kOpen ? boundary_bytes : format.row_bytes();
  return align_up(static_cast<std::size_t>(rows_per_page()) * static_cast<std::size_t>(row_bytes), kPageAlignment);
}

std::size_t PlaneSpec::read_bytes(Position position, int rows) const {
  const int end = position + rows;
  std::int64_t read = 0;
  switch (kind) {
    case PlaneKind::kWindow:
      read = std::min(end, window_tokens + rows - 1);
      break;
    case PlaneKind::kLatent:
      read = end / tokens_per_row;
      if (read <= read_beyond) read = 0;
      if (most_read > 0) read = std::min(read, std::int64_t{most_read} * rows);
      break;
    case PlaneKind::kOpen:
      return initial.size();
  }
  return static_cast<std::size_t>(read) * static_cast<std::size_t>(format.row_bytes());
}

PlaneView PlaneSpec::view(std::byte* base) const {
  PlaneView view{.base = base, .page_bytes = page_bytes(), .rows_per_page = rows_per_page(), .format = format};
  if (kind == PlaneKind::kOpen) view.format.data_bytes = boundary_bytes;
  return view;
}

PlaneId CacheLayout::add(PlaneSpec spec) {
  planes.push_back(std::move(spec));
  return PlaneId(static_cast<std::int32_t>(planes.size()) - 1);
}

std::size_t CacheLayout::latent_page_bytes() const {
  std::size_t bytes = 0;
  for (const auto& plane : planes) bytes += plane.kind == PlaneKind::kLatent ? plane.page_bytes() : 0;
  return bytes;
}

std::size_t CacheLayout::window_page_bytes() const {
  std::size_t bytes = 0;
  for (const auto& plane : planes) bytes += plane.kind != PlaneKind::kLatent ? plane.page_bytes() : 0;
  return bytes;
}

std::size_t CacheLayout::read_bytes(Position position, int rows) const {
  std::size_t bytes = 0;
  for (const auto& plane : planes) bytes += plane.read_bytes(position, rows);
  return bytes;
}

std::size_t CacheLayout::open_bytes() const {
  std::size_t bytes = 0;
  for (const auto& plane : planes) bytes += align_up(plane.initial.size(), kStateAlignment);
  return bytes;
}

std::size_t CacheLayout::open_offset(PlaneId id) const {
  std::size_t bytes = 0;
  for (int i = 0; i < id.value; ++i) {
    bytes += align_up(planes[static_cast<std::size_t>(i)].initial.size(), kStateAlignment);
  }
  return bytes;
}

int CacheLayout::window_tokens() const {
  int widest = 0;
  for (const auto& plane : planes) widest = std::max(widest, plane.window_tokens);
  return widest;
}

TableShape CacheLayout::table_shape() const {
  std::set<int> ratios;
  bool windows = false;
  for (const PlaneSpec& plane : planes) {
    if (plane.kind == PlaneKind::kLatent) ratios.insert(plane.tokens_per_row);
    windows |= plane.kind == PlaneKind::kWindow || plane.boundary_bytes > 0;
  }
  return {.ratios = {ratios.begin(), ratios.end()}, .windows = windows};
}

int CacheLayout::window_pages_to_resume() const {
  const bool boundary =
      std::any_of(planes.begin(), planes.end(), [](const PlaneSpec& s) { return s.boundary_bytes > 0; });
  return std::max((std::max(window_tokens(), 1) - 1 + kBlockTokens - 1) / kBlockTokens, boundary ? 1 : 0);
}

std::vector<std::byte> CacheLayout::initial_state() const {
  std::vector<std::byte> state(open_bytes());
  for (std::size_t i = 0; i < planes.size(); ++i) {
    const std::size_t offset = open_offset(PlaneId(static_cast<std::int32_t>(i)));
    std::copy(planes[i].initial.begin(), planes[i].initial.end(), state.data() + offset);
  }
  return state;
}

}  // namespace sluice
