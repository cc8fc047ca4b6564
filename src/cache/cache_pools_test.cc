#include "cache/cache_pools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <map>

#include "cache/toy_model_testing.h"

namespace sluice::cache_pools_test {
namespace {

RowFormat bytes_format(int bytes) {
  return {.codec = RowCodec::kF32, .dims = bytes / 4, .rope_dims = 0, .data_bytes = bytes, .scale_bytes = 0};
}

CacheLayout large_layout() {
  CacheLayout l;
  l.add({.kind = PlaneKind::kLatent, .name = "l", .tokens_per_row = 4, .format = bytes_format(512), .initial = {}});
  l.add({.kind = PlaneKind::kWindow, .name = "w", .window_tokens = 128, .format = bytes_format(512), .initial = {}});
  l.add({.kind = PlaneKind::kOpen, .name = "o", .format = {}, .initial = std::vector<std::byte>(64)});
  return l;
}

// Every row of every page of every plane, and both copies of every open state, has bytes of its own.
TEST(CachePoolsTest, NoTwoRowsShareAByte) {
  for (const ToyShape& shape : toy_shapes()) {
    const ToyModel model(shape);
    const CacheLayout& layout = model.layout();
    MemoryPlan plan{.sequences = 3, .latent_pages = 5, .window_pages = 7};
    plan.open_bytes = 4 * 2 * layout.open_bytes();
    const auto pools = std::move(CachePools::create(cpu_device(), layout, plan)).value();
    std::map<const std::byte*, std::size_t> ranges;  // begin -> bytes
    const auto add = [&](const std::byte* at, std::size_t bytes) {
      if (bytes == 0) return;
      EXPECT_TRUE(ranges.emplace(at, bytes).second) << shape.name;
    };
    for (std::size_t i = 0; i < layout.planes.size(); ++i) {
      const bool latent = layout.planes[i].kind == PlaneKind::kLatent;
      const PlaneView& view = pools->view().planes[i];
      for (int page = 0; page < (latent ? plan.latent_pages : plan.window_pages); ++page) {
        for (int row = 0; row < view.rows_per_page; ++row) {
          add(view.row(page, row).data, static_cast<std::size_t>(view.format.row_bytes()));
        }
        const auto bytes = static_cast<std::size_t>(view.rows_per_page * view.format.row_bytes());
        add(view.row(page, 0).data + bytes, view.page_bytes - bytes);
      }
    }
    for (int slot = 0; slot < 4; ++slot) {
      for (const int copy : {0, 1}) {
        const std::byte* state = pools->memory().address(pools->state_of(StateSlot(slot), copy));
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(state) % 64, 0U);
        add(state, layout.open_bytes());
      }
    }
    const std::byte* end = nullptr;
    for (const auto& [begin, bytes] : ranges) {
      EXPECT_GE(begin, end) << shape.name;
      end = begin + bytes;
    }
  }
}

TEST(CachePoolsTest, ABudgetThatCannotBeMappedIsAnError) {
  const CacheLayout layout = large_layout();
  const MemoryPlan plan{.sequences = 1, .latent_pages = 1, .window_pages = 1, .open_bytes = std::size_t{1} << 60};
  const auto pools = CachePools::create(cpu_device(), layout, plan);
  EXPECT_EQ(pools.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(pools.status().message(), testing::HasSubstr("--kv-cache-memory: cannot map"));
}

std::size_t resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  std::size_t pages = 0, resident = 0;
  const int read = std::fscanf(file, "%zu %zu", &pages, &resident);
  std::fclose(file);
  return read == 2 ? resident * 4096 : 0;
}

TEST(CachePoolsTest, MemoryIsMappedButNotTouched) {
  const CacheLayout l = large_layout();
  const auto plan = plan_memory(l, {std::size_t{32} << 30, 64, 512, 1 << 20});
  ASSERT_TRUE(plan.ok());
  ASSERT_GT(plan->total_bytes(), std::size_t{4} << 30);
  const std::size_t before = resident_bytes();
  const auto pools = CachePools::create(cpu_device(), l, *plan);
  ASSERT_TRUE(pools.ok()) << pools.status().message();
  const auto pages = static_cast<std::size_t>(plan->latent_pages + plan->window_pages);
  EXPECT_GT(pages, std::size_t{1} << 20);
  EXPECT_LT(resident_bytes(), before + pages * PagePool::kBytesPerPage + (std::size_t{4} << 20));
  // The last row of the last page is there.
  CacheMemory& memory = (*pools)->memory();
  memory.write_rows({PlaneId(0), plan->latent_pages - 1, 31, 1}, std::vector(512, std::byte{1}));
  memory.write_initial_state((*pools)->state_of(StateSlot(plan->sequences), 1));
}

// Rows that lie 4 GiB apart differ (addresses are 64-bit throughout).
TEST(CachePoolsTest, RowsBeyondFourGigabytesAreTheirOwn) {
  const CacheLayout l = large_layout();
  const auto plan = plan_memory(l, {std::size_t{40} << 30, 1, 512, 1 << 20});
  ASSERT_TRUE(plan.ok());
  const auto pools = CachePools::create(cpu_device(), l, *plan);
  ASSERT_TRUE(pools.ok()) << pools.status().message();
  const PlaneView& view = (*pools)->view()[PlaneId(0)];
  const auto apart = static_cast<std::int32_t>((std::size_t{1} << 32) / view.page_bytes);
  ASSERT_GT(plan->latent_pages, 2 * apart);
  CacheMemory& memory = (*pools)->memory();
  const auto bytes = [](int i) { return std::vector(512, static_cast<std::byte>(i + 1)); };
  for (int i = 0; i < 3; ++i) memory.write_rows({PlaneId(0), i * apart, 3, 1}, bytes(i));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(memory.read_rows({PlaneId(0), i * apart, 3, 1}), bytes(i));
}

}  // namespace
}  // namespace sluice::cache_pools_test
