#include "model/cache_layout.h"

#include <gmock/gmock.h>

#include "model/batch.h"
#include "model/cache_testing.h"

namespace sluice::cache_layout_test {
namespace {

std::vector<std::byte> bytes(std::size_t count, int first) {
  std::vector<std::byte> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<std::byte>(first + static_cast<int>(i));
  return values;
}

StreamSpec open_stream(std::size_t state_bytes, int boundary_bytes, int first) {
  StreamSpec spec;
  spec.kind = StreamKind::kOpen;
  spec.initial = bytes(state_bytes, first);
  spec.boundary_bytes = boundary_bytes;
  return spec;
}

StreamSpec window_stream(int tokens) {
  StreamSpec spec;
  spec.kind = StreamKind::kWindow;
  spec.window_tokens = tokens;
  spec.format = make_row_format(RowCodec::kF32, 2, 0);
  return spec;
}

TEST(CacheLayout, ABoundaryStateIsTheInitialOneWithThePagesBytes) {
  CacheLayout layout;
  const StreamId whole = layout.add(open_stream(6, 6, 0));
  layout.add(window_stream(128));
  const StreamId some = layout.add(open_stream(80, 24, 20));
  const StreamId none = layout.add(open_stream(10, 0, 100));
  EXPECT_EQ(layout.window_page_bytes(), 128U * 8 + 6 + 24);
  TestPages pages(layout, 3, 1);
  for (int page = 0; page < 3; ++page) {
    for (const StreamId id : {whole, some}) {
      const auto given = bytes(static_cast<std::size_t>(layout[id].boundary_bytes), 150 + 10 * page);
      std::copy(given.begin(), given.end(), pages.view().boundary(id, WindowPage(page)));
    }
  }

  std::vector<std::byte> expected(layout.open_bytes(), std::byte{0xEE});
  layout.initial_state(expected.data());
  EXPECT_EQ(std::vector(expected.begin() + 64, expected.begin() + 64 + 80), bytes(80, 20));
  for (int i = 0; i < 6; ++i) expected[static_cast<std::size_t>(i)] = static_cast<std::byte>(160 + i);
  const std::size_t offset = layout.open_offset(some);
  for (std::size_t i = 0; i < 24; ++i) expected[offset + i] = static_cast<std::byte>(160 + i);

  std::vector<std::byte> found(layout.open_bytes(), std::byte{0xEE});
  layout.boundary_state(pages.view(), WindowPage(1), found.data());
  EXPECT_EQ(found, expected);
  const std::size_t last = layout.open_offset(none);
  EXPECT_EQ(std::vector(found.begin() + static_cast<std::ptrdiff_t>(last),
                        found.begin() + static_cast<std::ptrdiff_t>(last) + 10),
            bytes(10, 100));
}

TEST(CacheLayout, ResumingNeedsThePagesThatTheNextRowSees) {
  const auto pages = [](int window, int boundary_bytes) {
    CacheLayout layout;
    if (window > 0) layout.add(window_stream(window));
    layout.add(open_stream(8, boundary_bytes, 0));
    return layout.window_pages_to_resume();
  };
  for (const int boundary_bytes : {0, 8}) {
    EXPECT_EQ(pages(2, boundary_bytes), 1);
    EXPECT_EQ(pages(128, boundary_bytes), 1);
    EXPECT_EQ(pages(129, boundary_bytes), 1);
    EXPECT_EQ(pages(130, boundary_bytes), 2);
    EXPECT_EQ(pages(512, boundary_bytes), 4);
  }
  EXPECT_EQ(pages(0, 0), 0);
  EXPECT_EQ(pages(1, 0), 0);
  EXPECT_EQ(pages(0, 8), 1);
  EXPECT_EQ(pages(1, 8), 1);
}

}  // namespace
}  // namespace sluice::cache_layout_test
