#include "model/cache_layout.h"

#include <gmock/gmock.h>

#include "model/batch.h"
#include "model/checks/cache_testing.h"

namespace sluice::cache_layout_test {
namespace {

std::vector<std::byte> bytes(std::size_t count, int first) {
  std::vector<std::byte> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<std::byte>(first + static_cast<int>(i));
  return values;
}

PlaneSpec open_plane(std::size_t state_bytes, int boundary_bytes, int first) {
  PlaneSpec spec;
  spec.kind = PlaneKind::kOpen;
  spec.initial = bytes(state_bytes, first);
  spec.boundary_bytes = boundary_bytes;
  return spec;
}

PlaneSpec window_plane(int tokens) {
  PlaneSpec spec;
  spec.kind = PlaneKind::kWindow;
  spec.window_tokens = tokens;
  spec.format = make_row_format(RowCodec::kF32, 2, 0);
  return spec;
}

// A plane's part of a page is a multiple of 16 bytes; the padding comes after its rows and scales.
TEST(CacheLayout, PagesAreMultiplesOfSixteenBytes) {
  const auto latent = [](RowCodec codec, int dims, int rope_dims, int tokens_per_row) {
    PlaneSpec spec;
    spec.kind = PlaneKind::kLatent;
    spec.tokens_per_row = tokens_per_row;
    spec.format = make_row_format(codec, dims, rope_dims);
    return spec;
  };
  EXPECT_EQ(latent(RowCodec::kV4Fp8, 512, 64, 128).page_bytes(), 592U);
  EXPECT_EQ(latent(RowCodec::kV4Fp8, 512, 64, 4).page_bytes(), 32U * 584);
  EXPECT_EQ(latent(RowCodec::kIndexFp4, 128, 0, 4).page_bytes(), 32U * 68);
  EXPECT_EQ(latent(RowCodec::kIndexFp8, 128, 0, 128).page_bytes(), 144U);
  EXPECT_EQ(latent(RowCodec::kMlaFp8, 576, 64, 1).page_bytes(), 128U * 656);
  EXPECT_EQ(window_plane(128).page_bytes(), 1024U);
  EXPECT_EQ(open_plane(80, 0, 0).page_bytes(), 0U);
  EXPECT_EQ(open_plane(80, 16, 0).page_bytes(), 16U);
  EXPECT_EQ(open_plane(80, 17, 0).page_bytes(), 32U);

  std::vector<std::byte> memory(2 * 592);
  const PlaneView view = latent(RowCodec::kV4Fp8, 512, 64, 128).view(memory.data());
  EXPECT_EQ(view.page_bytes, 592U);
  EXPECT_EQ(view.row(1, 0).data, memory.data() + 592);
  EXPECT_EQ(view.row(1, 0).scales, memory.data() + 592 + 576);
}

TEST(CacheLayout, ABoundaryStateIsTheInitialOneWithThePagesBytes) {
  CacheLayout layout;
  const PlaneId whole = layout.add(open_plane(6, 6, 0));
  layout.add(window_plane(128));
  const PlaneId some = layout.add(open_plane(80, 24, 20));
  const PlaneId none = layout.add(open_plane(10, 0, 100));
  EXPECT_EQ(layout.window_page_bytes(), 128U * 8 + 16 + 32);
  TestPages pages(layout, 3, 1);
  for (int page = 0; page < 3; ++page) {
    for (const PlaneId id : {whole, some}) {
      const auto given = bytes(static_cast<std::size_t>(layout[id].boundary_bytes), 150 + 10 * page);
      std::copy(given.begin(), given.end(), pages.view().boundary(id, WindowPage(page)));
    }
  }

  std::vector<std::byte> expected(64 + 128 + 64);
  const auto put = [&](std::size_t at, const std::vector<std::byte>& values) {
    std::copy(values.begin(), values.end(), expected.begin() + static_cast<std::ptrdiff_t>(at));
  };
  put(0, bytes(6, 0));
  put(64, bytes(80, 20));
  put(192, bytes(10, 100));
  EXPECT_EQ(layout.open_offset(none), 192U);
  EXPECT_EQ(layout.initial_state(), expected);
  put(0, bytes(6, 160));
  put(64, bytes(24, 160));
  EXPECT_EQ(pages.boundary_state(LatentPage(), WindowPage(1)), expected);
}

TEST(CacheLayout, ResumingNeedsThePagesThatTheNextRowSees) {
  const auto pages = [](int window, int boundary_bytes) {
    CacheLayout layout;
    if (window > 0) layout.add(window_plane(window));
    layout.add(open_plane(8, boundary_bytes, 0));
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
