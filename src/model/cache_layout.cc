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

const char* name(StreamKind kind) {
  switch (kind) {
    case StreamKind::kLatent:
      return "latent";
    case StreamKind::kWindow:
      return "window";
    case StreamKind::kOpen:
      return "open";
  }
  return "?";
}

int StreamSpec::rows_per_page() const {
  if (kind == StreamKind::kOpen) return 1;
  return kind == StreamKind::kLatent ? kBlockTokens / tokens_per_row : kBlockTokens;
}

std::size_t StreamSpec::page_bytes() const {
  const int row_bytes = kind == StreamKind::kOpen ? boundary_bytes : format.row_bytes();
  return align_up(static_cast<std::size_t>(rows_per_page()) * static_cast<std::size_t>(row_bytes), kPageAlignment);
}

std::size_t StreamSpec::read_bytes(Position position, int rows) const {
  const int end = position + rows;
  std::int64_t read = 0;
  switch (kind) {
    case StreamKind::kWindow:
      read = std::min(end, window_tokens + rows - 1);
      break;
    case StreamKind::kLatent:
      read = end / tokens_per_row;
      if (read <= read_beyond) read = 0;
      if (most_read > 0) read = std::min(read, std::int64_t{most_read} * rows);
      break;
    case StreamKind::kOpen:
      return initial.size();
  }
  return static_cast<std::size_t>(read) * static_cast<std::size_t>(format.row_bytes());
}

StreamView StreamSpec::view(std::byte* base) const {
  StreamView view{.base = base, .page_bytes = page_bytes(), .rows_per_page = rows_per_page(), .format = format};
  if (kind == StreamKind::kOpen) view.format.data_bytes = boundary_bytes;
  return view;
}

StreamId CacheLayout::add(StreamSpec spec) {
  streams.push_back(std::move(spec));
  return StreamId(static_cast<std::int32_t>(streams.size()) - 1);
}

std::size_t CacheLayout::latent_page_bytes() const {
  std::size_t bytes = 0;
  for (const auto& stream : streams) bytes += stream.kind == StreamKind::kLatent ? stream.page_bytes() : 0;
  return bytes;
}

std::size_t CacheLayout::window_page_bytes() const {
  std::size_t bytes = 0;
  for (const auto& stream : streams) bytes += stream.kind != StreamKind::kLatent ? stream.page_bytes() : 0;
  return bytes;
}

std::size_t CacheLayout::read_bytes(Position position, int rows) const {
  std::size_t bytes = 0;
  for (const auto& stream : streams) bytes += stream.read_bytes(position, rows);
  return bytes;
}

std::size_t CacheLayout::open_bytes() const {
  std::size_t bytes = 0;
  for (const auto& stream : streams) bytes += align_up(stream.initial.size(), kStateAlignment);
  return bytes;
}

std::size_t CacheLayout::open_offset(StreamId id) const {
  std::size_t bytes = 0;
  for (int i = 0; i < id.value; ++i) {
    bytes += align_up(streams[static_cast<std::size_t>(i)].initial.size(), kStateAlignment);
  }
  return bytes;
}

int CacheLayout::window_tokens() const {
  int widest = 0;
  for (const auto& stream : streams) widest = std::max(widest, stream.window_tokens);
  return widest;
}

TableShape CacheLayout::table_shape() const {
  std::set<int> ratios;
  bool windows = false;
  for (const StreamSpec& stream : streams) {
    if (stream.kind == StreamKind::kLatent) ratios.insert(stream.tokens_per_row);
    windows |= stream.kind == StreamKind::kWindow || stream.boundary_bytes > 0;
  }
  return {.ratios = {ratios.begin(), ratios.end()}, .windows = windows};
}

int CacheLayout::window_pages_to_resume() const {
  const bool boundary =
      std::any_of(streams.begin(), streams.end(), [](const StreamSpec& s) { return s.boundary_bytes > 0; });
  return std::max((std::max(window_tokens(), 1) - 1 + kBlockTokens - 1) / kBlockTokens, boundary ? 1 : 0);
}

std::vector<std::byte> CacheLayout::initial_state() const {
  std::vector<std::byte> state(open_bytes());
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const std::size_t offset = open_offset(StreamId(static_cast<std::int32_t>(i)));
    std::copy(streams[i].initial.begin(), streams[i].initial.end(), state.data() + offset);
  }
  return state;
}

}  // namespace sluice
