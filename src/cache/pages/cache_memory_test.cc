#include "cache/pages/cache_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/test_seed_testing.h"
#include "cache/damage_testing.h"
#include "kernels/device/deferred_device_testing.h"

namespace sluice::cache_memory_test {
namespace {

using Bytes = std::vector<std::byte>;

constexpr int kPages = 5, kSlots = 3;

Bytes counted(std::size_t count, int first) {
  Bytes values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<std::byte>(first + static_cast<int>(i));
  return values;
}

PlaneSpec latent_plane(int tokens_per_row, const RowFormat& format) {
  PlaneSpec spec;
  spec.kind = PlaneKind::kLatent;
  spec.tokens_per_row = tokens_per_row;
  spec.format = format;
  return spec;
}

PlaneSpec open_plane(std::size_t state_bytes, int boundary_bytes, int first) {
  PlaneSpec spec;
  spec.kind = PlaneKind::kOpen;
  spec.initial = counted(state_bytes, first);
  spec.boundary_bytes = boundary_bytes;
  return spec;
}

// Pages of every kind; those of hca and of the boundaries are padded.
struct Planes {
  CacheLayout layout;
  PlaneId csa = layout.add(latent_plane(4, make_row_format(RowCodec::kV4Fp8, 512, 64)));
  PlaneId whole = layout.add(open_plane(6, 6, 1));
  PlaneId window = add_window();
  PlaneId hca = layout.add(latent_plane(128, make_row_format(RowCodec::kV4Fp8, 512, 64)));
  PlaneId some = layout.add(open_plane(80, 24, 20));
  PlaneId none = layout.add(open_plane(10, 0, 100));
  PlaneId kept = layout.add(latent_plane(128, make_row_format(RowCodec::kF32, 10, 0)));
  PlaneId in_latents = add_kept();

  PlaneId add_window() {
    PlaneSpec spec;
    spec.kind = PlaneKind::kWindow;
    spec.window_tokens = 128;
    spec.format = make_row_format(RowCodec::kF32, 2, 0);
    return layout.add(std::move(spec));
  }
  PlaneId add_kept() {
    PlaneSpec spec = open_plane(40, 0, 50);
    spec.kept_in = kept;
    return layout.add(std::move(spec));
  }
  MemoryPlan plan() const {
    return {.sequences = kSlots - 1,
            .latent_pages = kPages,
            .window_pages = kPages,
            .open_bytes = 2 * kSlots * layout.open_bytes()};
  }
};

class CacheMemoryTest : public ::testing::Test {
 protected:
  // Everything that pages and states hold, by a device's download alone.
  struct Contents {
    std::vector<std::vector<Bytes>> pages;  // [plane][page]
    std::vector<Bytes> states;              // [state]
    bool operator==(const Contents&) const = default;
  };
  template <class Visit>  // (address, bytes) of every page's part and every state
  void visit_all(const Visit& visit) {
    for (const PlaneView& view : memory_.view().planes) {
      for (std::size_t page = 0; page < kPages; ++page) visit(view.base + page * view.page_bytes, view.page_bytes);
    }
    for (int i = 0; i < 2 * kSlots; ++i) visit(memory_.address(OpenState(i)), layout_.open_bytes());
  }
  Bytes download(const std::byte* from, std::size_t bytes) {
    Bytes found(bytes);
    device_.download({found.data(), from, bytes});
    device_.wait();
    return found;
  }
  Contents contents() {
    Contents all;
    all.pages.resize(memory_.view().planes.size());
    std::size_t part = 0;
    visit_all([&](const std::byte* at, std::size_t bytes) {
      const std::size_t plane = part++ / kPages;
      (plane < all.pages.size() ? all.pages[plane] : all.states).push_back(download(at, bytes));
    });
    return all;
  }
  void fill_with_noise() {
    visit_all([&](std::byte* at, std::size_t bytes) {
      Bytes noise(bytes);
      for (std::byte& byte : noise) byte = static_cast<std::byte>(random_());
      device_.upload({at, noise.data(), bytes});
    });
  }
  bool is_latent(std::size_t plane) const { return layout_.planes[plane].kind == PlaneKind::kLatent; }
  Bytes state(OpenState at) { return download(memory_.address(at), layout_.open_bytes()); }

  const std::uint32_t seed_ = test_seed();
  const ::testing::ScopedTrace trace_{__FILE__, __LINE__, "SLUICE_TEST_SEED=" + std::to_string(seed_)};
  std::mt19937 random_{seed_};
  const Planes planes_;
  const CacheLayout& layout_ = planes_.layout;
  DeferredDevice device_;
  CacheMemory memory_ = CacheMemory::create(device_, layout_, planes_.plan()).value();
};

TEST_F(CacheMemoryTest, BeginsAsZerosInAlignedPages) {
  for (std::size_t i = 0; i < layout_.planes.size(); ++i) {
    const PlaneView& view = memory_.view().planes[i];
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.base) % 64, 0U) << i;
    EXPECT_EQ(view.page_bytes % 16, 0U) << i;
    EXPECT_EQ(view.page_bytes, layout_.planes[i].page_bytes());
  }
  const Contents found = contents();
  for (const auto& plane : found.pages) {
    for (const Bytes& page : plane) EXPECT_EQ(page, Bytes(page.size()));
  }
  for (const Bytes& state : found.states) EXPECT_EQ(state, Bytes(state.size()));
}

TEST_F(CacheMemoryTest, AStateIsWrittenAsBeforeTheFirstToken) {
  fill_with_noise();
  Contents expected = contents();
  const OpenState to = OpenState(3);
  memory_.write_initial_state(to);
  expected.states[3] = layout_.initial_state();
  EXPECT_TRUE(contents() == expected);
}

TEST_F(CacheMemoryTest, AStateIsWrittenAsBehindABlock) {
  fill_with_noise();
  for (int page = 0; page < 3; ++page) {
    memory_.write_rows({planes_.whole, page, 0, 1}, counted(6, 150 + 10 * page));
    memory_.write_rows({planes_.some, page, 0, 1}, counted(24, 150 + 10 * page));
  }
  Contents expected = contents();
  memory_.write_boundary_state(LatentPage(2), WindowPage(1), OpenState(4));
  Bytes& state = expected.states[4] = layout_.initial_state();
  for (int i = 0; i < 6; ++i) state[static_cast<std::size_t>(i)] = static_cast<std::byte>(160 + i);
  for (std::size_t i = 0; i < 24; ++i) state[layout_.open_offset(planes_.some) + i] = static_cast<std::byte>(160 + i);
  const Bytes& latents = expected.pages[static_cast<std::size_t>(planes_.kept.value)][2];
  std::copy_n(latents.begin(), 40,
              state.begin() + static_cast<std::ptrdiff_t>(layout_.open_offset(planes_.in_latents)));
  EXPECT_TRUE(contents() == expected);
}

TEST_F(CacheMemoryTest, AStateIsCopied) {
  fill_with_noise();
  Contents expected = contents();
  memory_.copy_state(OpenState(1), OpenState(5));
  expected.states[5] = expected.states[1];
  EXPECT_TRUE(contents() == expected);
}

TEST_F(CacheMemoryTest, APageIsCopiedInEveryPlaneOfItsPool) {
  fill_with_noise();
  for (const bool latent : {true, false}) {
    Contents expected = contents();
    latent ? memory_.copy_page(LatentPage(1), LatentPage(4)) : memory_.copy_page(WindowPage(1), WindowPage(4));
    for (std::size_t i = 0; i < expected.pages.size(); ++i) {
      if (is_latent(i) == latent) expected.pages[i][4] = expected.pages[i][1];
    }
    EXPECT_TRUE(contents() == expected);
  }
}

// The form of an image: swapped states and whatever else keeps them rely on it.
TEST_F(CacheMemoryTest, AnImageIsPlaneByPlanePageByPageThenTheState) {
  fill_with_noise();
  const std::vector<LatentPage> latents = {LatentPage(3), LatentPage(0)};
  const std::vector<WindowPage> windows = {WindowPage(2), WindowPage(4), WindowPage(1)};
  const OpenState from = OpenState(2);
  const Contents all = contents();
  Bytes expected;
  const auto add = [&](const Bytes& bytes) { expected.insert(expected.end(), bytes.begin(), bytes.end()); };
  for (std::size_t i = 0; i < all.pages.size(); ++i) {
    for (const LatentPage page : latents)
      is_latent(i) ? add(all.pages[i][static_cast<std::size_t>(page.value)]) : void();
    for (const WindowPage page : windows)
      is_latent(i) ? void() : add(all.pages[i][static_cast<std::size_t>(page.value)]);
  }
  add(all.states[2]);
  ASSERT_EQ(memory_.image_bytes(2, 3), expected.size());
  Bytes image(expected.size());
  memory_.save(latents, windows, from, image);
  EXPECT_TRUE(image == expected);
}

TEST_F(CacheMemoryTest, AnImageComesBackButForThePagesThatAreThere) {
  fill_with_noise();
  const Contents before = contents();
  Bytes image(memory_.image_bytes(2, 3));
  memory_.save(std::vector{LatentPage(3), LatentPage(0)}, std::vector{WindowPage(2), WindowPage(4), WindowPage(1)},
               OpenState(2), image);
  fill_with_noise();
  Contents expected = contents();
  {
    const Bytes given = image;  // gone before the device takes a step
    memory_.restore(given, std::vector{LatentPage(), LatentPage(2)},
                    std::vector{WindowPage(0), WindowPage(), WindowPage(3)}, OpenState(5));
  }
  for (std::size_t i = 0; i < expected.pages.size(); ++i) {
    if (is_latent(i)) {
      expected.pages[i][2] = before.pages[i][0];
    } else {
      expected.pages[i][0] = before.pages[i][2];
      expected.pages[i][3] = before.pages[i][1];
    }
  }
  expected.states[5] = before.states[2];
  EXPECT_TRUE(contents() == expected);
}

TEST_F(CacheMemoryTest, RowsAreTheirDataThenTheirScales) {
  fill_with_noise();
  const PlaneView& view = memory_.view()[planes_.csa];
  const Contents before = contents();
  const Bytes& page = before.pages[0][2];
  const auto part = [&](const std::byte* at, std::size_t bytes) {
    const auto begin = page.begin() + (at - (view.base + 2 * view.page_bytes));
    return Bytes(begin, begin + static_cast<std::ptrdiff_t>(bytes));
  };
  const Bytes data = part(view.row(2, 7).data, 3 * 576), scales = part(view.row(2, 7).scales, 3 * 8);
  Bytes expected = data;
  expected.insert(expected.end(), scales.begin(), scales.end());
  const CacheMemory::Rows rows{planes_.csa, 2, 7, 3};
  EXPECT_TRUE(memory_.read_rows(rows) == expected);

  Bytes other(expected.size());
  for (std::byte& byte : other) byte = static_cast<std::byte>(random_());
  memory_.write_rows(rows, other);
  EXPECT_TRUE(memory_.read_rows(rows) == other);
  memory_.write_rows(rows, expected);
  EXPECT_TRUE(contents() == before);
}

TEST_F(CacheMemoryTest, ADigestIsOfEveryByteOfAPageAndOfNoOther) {
  fill_with_noise();
  const auto digests = [&] {
    std::vector<std::uint64_t> all;
    for (int page = 0; page < kPages; ++page) all.push_back(memory_.digest(LatentPage(page)));
    for (int page = 0; page < kPages; ++page) all.push_back(memory_.digest(WindowPage(page)));
    return all;
  };
  const std::vector<std::uint64_t> before = digests();
  EXPECT_NE(before[0], before[1]);
  for (std::size_t i = 0; i < layout_.planes.size(); ++i) {
    const PlaneView& view = memory_.view().planes[i];
    if (view.page_bytes == 0) continue;
    for (const std::size_t byte : {std::size_t{0}, view.page_bytes - 1}) {
      std::byte* const at = view.base + 2 * view.page_bytes + byte;
      const std::byte was = download(at, 1)[0];
      device_.fill(at, was ^ std::byte{0x80}, 1);
      std::vector<std::uint64_t> after = digests();
      std::uint64_t& changed = after[is_latent(i) ? 2 : kPages + 2];
      const std::uint64_t expected = before[is_latent(i) ? 2 : kPages + 2];
      EXPECT_NE(changed, expected) << "plane " << i << " byte " << byte;
      changed = expected;
      EXPECT_EQ(after, before);
      device_.fill(at, was, 1);
    }
  }
  EXPECT_EQ(digests(), before);
  memory_.copy_page(LatentPage(1), LatentPage(0));
  EXPECT_EQ(memory_.digest(LatentPage(0)), before[1]);
}

TEST_F(CacheMemoryTest, WaitsOnlyWhereTheHostNeedsBytes) {
  memory_.copy_page(LatentPage(0), LatentPage(1));
  memory_.copy_page(WindowPage(0), WindowPage(1));
  memory_.write_initial_state(OpenState(0));
  memory_.write_boundary_state(LatentPage(0), WindowPage(0), OpenState(1));
  memory_.copy_state(OpenState(0), OpenState(2));
  memory_.write_rows({planes_.window, 0, 0, 1}, Bytes(8));
  Bytes image(memory_.image_bytes(1, 0));
  memory_.restore(image, std::vector{LatentPage(1)}, {}, OpenState(0));
  EXPECT_EQ(device_.waits(), 0);
  memory_.save(std::vector{LatentPage(1)}, {}, OpenState(0), image);
  EXPECT_EQ(device_.waits(), 1);
  static_cast<void>(memory_.digest(WindowPage(0)));
  EXPECT_EQ(device_.waits(), 2);
  static_cast<void>(memory_.read_rows({planes_.window, 0, 0, 1}));
  EXPECT_EQ(device_.waits(), 3);
  EXPECT_EQ(device_.enqueued(), 0U);
}

TEST_F(CacheMemoryTest, AnImageOfOneDeviceIsThatOfAnother) {
  CacheMemory other = CacheMemory::create(cpu_device(), layout_, planes_.plan()).value();
  fill_with_noise();
  const std::vector<LatentPage> latents = {LatentPage(3), LatentPage(0)};
  const std::vector<WindowPage> windows = {WindowPage(2), WindowPage(4)};
  Bytes image(memory_.image_bytes(2, 2)), again(image.size());
  memory_.save(latents, windows, OpenState(1), image);
  other.restore(image, std::vector{LatentPage(0), LatentPage(1)}, std::vector{WindowPage(4), WindowPage(3)},
                OpenState(3));
  other.save(std::vector{LatentPage(0), LatentPage(1)}, std::vector{WindowPage(4), WindowPage(3)}, OpenState(3), again);
  EXPECT_TRUE(again == image);
  EXPECT_EQ(other.digest(LatentPage(1)), memory_.digest(LatentPage(0)));
}

TEST_F(CacheMemoryTest, DamageIsOneBit) {
  fill_with_noise();
  const CacheMemory::Rows rows{planes_.csa, 1, 4, 1};
  const Bytes before = memory_.read_rows(rows);
  flip_bit(memory_, rows, 580);
  Bytes after = memory_.read_rows(rows);
  EXPECT_EQ(after[580], before[580] ^ std::byte{1});
  after[580] = before[580];
  EXPECT_TRUE(after == before);
}

using CacheMemoryDeathTest = CacheMemoryTest;

TEST_F(CacheMemoryDeathTest, TheHostCannotReadAPageOrAState) {
  const volatile std::byte* page = memory_.view()[planes_.window].base;
  EXPECT_DEATH(static_cast<void>(*page == std::byte{0}), "");
  const volatile std::byte* state = memory_.address(OpenState(0));
  EXPECT_DEATH(static_cast<void>(*state == std::byte{0}), "");
}

TEST_F(CacheMemoryDeathTest, AnImageOfOtherPagesEndsTheProgram) {
  Bytes image(memory_.image_bytes(2, 1));
  EXPECT_DEATH(memory_.save(std::vector{LatentPage(0)}, {}, OpenState(0), image), "an image of other pages");
  EXPECT_DEATH(static_cast<void>(memory_.read_rows({planes_.csa, 0, 30, 3})), "rows of one page");
}

}  // namespace
}  // namespace sluice::cache_memory_test
