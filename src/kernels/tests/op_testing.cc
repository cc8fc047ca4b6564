#include "kernels/tests/op_testing.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/sanitizer_testing.h"
#include "base/test_seed_testing.h"
#include "kernels/ops/ops.h"

namespace sluice {
namespace {

std::uint32_t seed_of_this_run() {
  static const std::uint32_t seed = test_seed();
  return seed;
}

class Listener final : public ::testing::EmptyTestEventListener {
  void OnTestEnd(const ::testing::TestInfo& test) override {
    if (!test.result()->Failed()) return;
    std::printf("%s.%s: SLUICE_TEST_SEED=%u\n", test.test_suite_name(), test.name(), seed_of_this_run());
  }
  void OnTestProgramEnd(const ::testing::UnitTest&) override {
    std::string missing, ran;
    for (int i = 0; i < kCpuFeatures; ++i) {
      const auto feature = static_cast<CpuFeature>(i);
      if (!cpu_features().has(feature)) missing += std::string(" ") + name(feature);
    }
    for (const KernelTable* table : all_tables()) ran += std::string(" [") + kernels_name(*table) + "]";
    std::printf("kernels that ran:%s\n", ran.c_str());
    std::printf("features that this machine lacks:%s\n", missing.empty() ? " none" : missing.c_str());
  }
};

// Runs before main().
[[maybe_unused]] const bool listens = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new Listener);
  return true;
}();

}  // namespace

std::mt19937 fresh_generator(std::uint32_t number) {
  std::seed_seq seeds{seed_of_this_run(), number};
  return std::mt19937(seeds);
}

std::vector<float> Random::floats(std::size_t n, float scale) {
  std::vector<float> values(n);
  for (float& value : values) {
    const std::uint64_t kind = bits();
    value = kind % 41 == 0 ? 0.0F : normal() * scale * ((kind >> 60) == 0 ? 8.0F : 1.0F);
  }
  return values;
}

void Random::fill(std::span<std::byte> bytes) {
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(std::uint64_t)) {
    const std::uint64_t drawn = bits();
    std::memcpy(bytes.data() + i, &drawn, std::min(sizeof drawn, bytes.size() - i));
  }
}

std::vector<int> Random::permutation(int n) {
  std::vector<int> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (int i = n - 1; i > 0; --i) {
    std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(between(0, i))]);
  }
  return order;
}

std::vector<const KernelTable*> all_tables() {
  const char* changes = std::getenv("SLUICE_TEST_KERNELS");
  if (changes == nullptr) return every_path();
  const Result<const KernelTable*> table = select_kernels("auto", changes);
  SLUICE_CHECK(table.ok(), "SLUICE_TEST_KERNELS is what --kernels takes");
  return {&scalar_kernels(), *table};
}

::testing::AssertionResult same_bits(std::span<const float> found, std::span<const float> expected) {
  if (found.size() != expected.size())
    return ::testing::AssertionFailure() << found.size() << " values, not " << expected.size();
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(found[i]) == std::bit_cast<std::uint32_t>(expected[i])) continue;
    return ::testing::AssertionFailure() << "value " << i << " of " << found.size() << ": " << found[i] << ", not "
                                         << expected[i] << " (difference " << found[i] - expected[i] << ")";
  }
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult same_values(std::span<const std::int32_t> found, std::span<const std::int32_t> expected) {
  if (std::equal(found.begin(), found.end(), expected.begin(), expected.end())) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << ::testing::PrintToString(std::vector(found.begin(), found.end())) << ", not "
                                       << ::testing::PrintToString(std::vector(expected.begin(), expected.end()));
}

std::vector<float> expect_same_on_all(const std::function<std::vector<float>(const Exec&)>& op) {
  ThreadPool one(1);
  const std::vector<float> expected = op(Exec{&one, &scalar_kernels(), &ref_op_table()});
  const std::vector<const KernelTable*> tables = all_tables();
  constexpr int kThreads[] = {1, 2, 4};
  for (std::size_t t = 0; t < std::size(kThreads); ++t) {
    ThreadPool pool(kThreads[t]);
    for (std::size_t i = 0; i < tables.size(); ++i) {
      if (kSanitized && (i + t) % std::size(kThreads) != 0) continue;
      const std::vector<float> found = op(Exec{&pool, tables[i]});
      EXPECT_TRUE(same_bits(found, expected)) << tables[i]->name << " on " << kThreads[t] << " threads";
    }
  }
  return expected;
}

const std::vector<RowFormat>& row_formats() {
  static const std::vector<RowFormat> formats = [] {
    constexpr int kShapes[][2] = {{512, 64}, {576, 64}, {128, 64}, {128, 0}, {64, 0},  {64, 64}, {64, 16}, {100, 36},
                                  {96, 0},   {80, 16},  {336, 16}, {200, 0}, {150, 6}, {100, 4}, {37, 4},  {33, 0}};
    std::vector<RowFormat> all;
    for (const RowCodecInfo& info : kRowCodecs) {
      for (const auto [dims, rope_dims] : kShapes) {
        if (takes_rows(info.codec, dims, rope_dims)) all.push_back(make_row_format(info.codec, dims, rope_dims));
      }
    }
    return all;
  }();
  return formats;
}

TestPlane::TestPlane(Random& random, RowFormat format, int rows_per_page, int pages) {
  view_.format = format;
  view_.rows_per_page = rows_per_page;
  view_.page_bytes = static_cast<std::size_t>(rows_per_page) * static_cast<std::size_t>(format.row_bytes());
  bytes_.resize(view_.page_bytes * static_cast<std::size_t>(pages));
  random.fill(bytes_);
  view_.base = bytes_.data();
}

TestSequence::TestSequence(Random& random, int tokens, int tokens_per_row, const PlaneView& latent,
                           const PlaneView& window, std::vector<int>& latent_pages, std::vector<int>& window_pages) {
  for (int block = 0; block * kBlockTokens < tokens; ++block) {
    latent_.emplace_back(latent_pages.back());
    window_.emplace_back(window_pages.back());
    latent_pages.pop_back();
    window_pages.pop_back();
  }
  const auto write = [&](const PlaneView& plane, RowRef row) {
    encode_row(plane.format, random.floats(static_cast<std::size_t>(plane.format.dims)).data(), row);
  };
  for (std::int32_t e = 0; e < tokens / tokens_per_row; ++e) write(latent, latent_row(latent, e));
  for (Position p = 0; p < tokens; ++p) write(window, window_row(window, p));
}

BatchSpan TestSequence::span(int rows, Position first_position, int window_tokens) const {
  // Only the window pages that the rows can see, so that first_window_block counts.
  const std::int32_t first_block = std::max(0, first_position - window_tokens + 1) / kBlockTokens;
  return {.rows = rows,
          .first_position = first_position,
          .latent_pages = latent_,
          .window_pages = std::span(window_).subspan(static_cast<std::size_t>(first_block)),
          .first_window_block = first_block};
}

void TestStep::move_first_row(int row) {
  moved_.assign(tables_.spans.begin(), tables_.spans.end());
  for (RowSpan& span : moved_) span.row_begin += row;
  tables_.spans = tables_.host_spans = moved_;
}

}  // namespace sluice
