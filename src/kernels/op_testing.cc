#include "kernels/op_testing.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <numeric>
#include <string>

#include "base/test_seed_testing.h"
#include "kernels/ops.h"

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
    std::string missing;
    if (avx2_kernels() == nullptr) missing += " avx2";
    if (avx512_kernels() == nullptr) missing += " avx512";
    if (avx512vbmi_kernels() == nullptr) missing += " avx512vbmi";
    std::printf("instruction sets that did not run here:%s\n", missing.empty() ? " none" : missing.c_str());
  }
};

// Before main().
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
  for (float& value : values)
    value = between(0, 40) == 0 ? 0.0F : normal() * scale * (between(0, 15) == 0 ? 8.0F : 1.0F);
  return values;
}

std::vector<int> Random::permutation(int n) {
  std::vector<int> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), engine_);
  return order;
}

std::vector<const KernelTable*> all_tables() {
  std::vector<const KernelTable*> tables{&scalar_kernels()};
  if (const KernelTable* table = avx2_kernels()) tables.push_back(table);
  if (const KernelTable* table = avx512_kernels()) tables.push_back(table);
  if (const KernelTable* table = avx512vbmi_kernels()) tables.push_back(table);
  return tables;
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
  for (int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    for (const KernelTable* table : all_tables()) {
      const std::vector<float> found = op(Exec{&pool, table});
      EXPECT_TRUE(same_bits(found, expected)) << table->isa << " on " << threads << " threads";
    }
  }
  return expected;
}

TestStream::TestStream(Random& random, RowFormat format, int rows_per_page, int pages) {
  view_.format = format;
  view_.rows_per_page = rows_per_page;
  view_.page_bytes = static_cast<std::size_t>(rows_per_page) * static_cast<std::size_t>(format.row_bytes());
  bytes_.resize(view_.page_bytes * static_cast<std::size_t>(pages));
  for (std::byte& byte : bytes_) byte = static_cast<std::byte>(random.between(0, 255));
  view_.base = bytes_.data();
}

TestSequence::TestSequence(Random& random, int tokens, int tokens_per_row, const StreamView& latent,
                           const StreamView& window, std::vector<int>& latent_pages, std::vector<int>& window_pages) {
  for (int block = 0; block * kBlockTokens < tokens; ++block) {
    latent_.emplace_back(latent_pages.back());
    window_.emplace_back(window_pages.back());
    latent_pages.pop_back();
    window_pages.pop_back();
  }
  const auto write = [&](const StreamView& stream, RowRef row) {
    encode_row(stream.format, random.floats(static_cast<std::size_t>(stream.format.dims)).data(), row);
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
