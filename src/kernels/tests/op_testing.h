// Helpers for the op tests: seeded random values, the kernel tables of this machine, bitwise comparison, and sequences
// whose cache pages lie in random places. After a test that failed the program prints its seed. At its end it prints
// the kernels that ran, and the features that this machine lacks.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "kernels/cpu/kernel_table.h"
#include "kernels/device/isa.h"
#include "kernels/ops/attention.h"
#include "kernels/step/step_builder.h"

namespace sluice {

// A generator that begins elsewhere in each run of the program, or where SLUICE_TEST_SEED says. `number` tells the
// generators of one run apart.
std::mt19937 fresh_generator(std::uint32_t number);

// SplitMix64: values of large shapes are drawn in a few instructions each, also when a sanitizer counts every access to
// the state of a larger generator.
class Random {
 public:
  explicit Random(std::uint32_t number) : state_(seed_of(fresh_generator(number))) {}
  // The same values in each run: for comparisons within a tolerance, which some rare values would exceed.
  static Random fixed(std::uint64_t seed) {
    Random random;
    random.state_ = seed;
    return random;
  }
  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15U;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9U;
    z = (z ^ z >> 27) * 0x94D049BB133111EBU;
    return z ^ z >> 31;
  }
  int between(int low, int high) {
    const auto count = static_cast<std::uint64_t>(static_cast<std::int64_t>(high) - low + 1);
    return static_cast<int>(low + static_cast<std::int64_t>((bits() >> 32) * count >> 32));
  }
  // The sum of four uniform numbers, of variance 1: between -3.47 and 3.47.
  float normal() {
    const std::uint64_t drawn = bits();
    const auto sum = (drawn & 0xFFFF) + (drawn >> 16 & 0xFFFF) + (drawn >> 32 & 0xFFFF) + (drawn >> 48);
    return static_cast<float>(static_cast<int>(sum) - 2 * 0xFFFF) * (1.0F / 37837.0F);
  }
  // Normal values of various scales, with some exact zeros.
  std::vector<float> floats(std::size_t n, float scale = 1.0F);
  // Fills the bytes with any values.
  void fill(std::span<std::byte> bytes);
  std::vector<int> permutation(int n);
  template <class T>
  const T& pick(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(between(0, static_cast<int>(values.size()) - 1))];
  }

 private:
  Random() = default;
  static std::uint64_t seed_of(std::mt19937 generator) { return std::uint64_t{generator()} << 32 | generator(); }

  std::uint64_t state_ = 0;
};

// The scalar table, then tables that together run every kernel of this machine (every_path() of kernels/device/isa.h).
// SLUICE_TEST_KERNELS replaces them by one, named as for --kernels: "-amx,-vnni".
std::vector<const KernelTable*> all_tables();

// Equal as bit patterns; a difference says where.
::testing::AssertionResult same_bits(std::span<const float> found, std::span<const float> expected);
::testing::AssertionResult same_values(std::span<const std::int32_t> found, std::span<const std::int32_t> expected);

// Runs `op` with every table and 1, 2 and 4 threads (under a sanitizer with one of these each). Expects the floats that
// it returns to be those of the reference ops (ref_op_table()), bit for bit, and returns those.
std::vector<float> expect_same_on_all(const std::function<std::vector<float>(const Exec&)>& op);

// Formats of rows of every codec: each with shapes that fill vectors and, if the codec allows them, shapes that do not.
const std::vector<RowFormat>& row_formats();

// One plane of a pool that several sequences share: pages in random order, all bytes random until written.
class TestPlane {
 public:
  TestPlane(Random& random, RowFormat format, int rows_per_page, int pages);
  const PlaneView& view() const { return view_; }

 private:
  std::vector<std::byte> bytes_;
  PlaneView view_;
};

// A sequence of `tokens` positions with a window plane and a latent plane of one row per `tokens_per_row` tokens,
// filled with random rows.
class TestSequence {
 public:
  // `latent_pages` and `window_pages`: page numbers that nothing else uses; a page is popped from the back.
  TestSequence(Random& random, int tokens, int tokens_per_row, const PlaneView& latent, const PlaneView& window,
               std::vector<int>& latent_pages, std::vector<int>& window_pages);
  // Its rows [first_position, first_position + rows), as the next ones of a step, with only the window pages that they
  // see.
  BatchSpan span(int rows, Position first_position, int window_tokens = kBlockTokens) const;
  RowRef latent_row(const PlaneView& plane, std::int32_t e) const {
    return plane.row(latent_[static_cast<std::size_t>(e / plane.rows_per_page)].value, e % plane.rows_per_page);
  }
  RowRef window_row(const PlaneView& plane, Position p) const {
    return plane.row(window_[static_cast<std::size_t>(p / kBlockTokens)].value, p % kBlockTokens);
  }

 private:
  std::vector<LatentPage> latent_;
  std::vector<WindowPage> window_;
};

// The tables of a step of some spans, whose tokens are all 0.
class TestStep {
 public:
  explicit TestStep(std::vector<int> ratios = {}, bool windows = true)
      : builder_(TableShape{std::move(ratios), windows}) {}
  void add(const BatchSpan& span) {
    builder_.add(span, std::vector<TokenId>(static_cast<std::size_t>(span.rows), 0), {});
    tables_ = builder_.finish();
  }
  const StepTables& tables() const { return tables_; }
  // The first span begins at this row: the rows before it belong to no span.
  void move_first_row(int row);

 private:
  StepBuilder builder_;
  StepTables tables_;
  std::vector<RowSpan> moved_;
};

}  // namespace sluice
