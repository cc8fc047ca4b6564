// Rows so far from the first that 32 bits do not hold the index of their values: a step of 65,536 rows with 64 heads of
// 512 has 2^31 of them. Each op's far rows have to equal those of the same values at the front. The rows begin 2^32
// values or more after the first, so that an index cut to 32 bits, with or without a sign, is within the buffer.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <functional>

#include "kernels/tests/linear_testing.h"
#include "kernels/tests/op_testing.h"

namespace sluice::far_rows_test {
namespace {

// Floats, all 0 at first, whose pages take memory only once they are written to.
class SparseFloats {
 public:
  explicit SparseFloats(std::size_t floats) : bytes_(floats * sizeof(float)) {
    void* const at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(at, MAP_FAILED) << bytes_ << " bytes of address space";
    data_ = static_cast<float*>(at);
  }
  SparseFloats(const SparseFloats&) = delete;
  SparseFloats& operator=(const SparseFloats&) = delete;
  ~SparseFloats() { munmap(data_, bytes_); }
  float* data() const { return data_; }

 private:
  std::size_t bytes_;
  float* data_;
};

constexpr int kRows = 3;

// kRows rows of `width` values, one after the other, from row `first` on: at the front, or far from it.
class Rows {
 public:
  Rows(int first, int width, const std::vector<float>& values = {})
      : first_(first), width_(width), all_(static_cast<std::size_t>(first + kRows) * static_cast<std::size_t>(width)) {
    std::copy(values.begin(), values.end(), row());
  }
  float* data() const { return all_.data(); }
  std::vector<float> values() const { return {row(), row() + kRows * width_}; }

 private:
  float* row() const { return all_.data() + std::ptrdiff_t{first_} * width_; }
  int first_, width_;
  SparseFloats all_;
};

// The first row that lies 2^32 values after the front.
int far_row(int width) {
  return static_cast<int>((std::int64_t{1} << 32) / width) + 2;
}

// Runs `op` on rows from 0 and from far_row(width) on, with every table, and expects equal results.
void expect_same_far_away(int width, const std::function<std::vector<float>(const KernelTable&, int first)>& op) {
  for (const KernelTable* table : all_tables()) {
    SCOPED_TRACE(table->name);
    const auto near = op(*table, 0);
    EXPECT_NE(near, std::vector<float>(near.size())) << "an op that writes";
    EXPECT_TRUE(same_bits(op(*table, far_row(width)), near));
  }
}

TEST(FarRows, Attend) {
  Random random(71);
  constexpr int kHeads = 64, kDims = 512, kWidth = kHeads * kDims, kTokens = 40;
  for (const bool bf16 : {false, true}) {
    const TestPlane latent(random, make_row_format(RowCodec::kBf16, kDims, 0), kBlockTokens, 1);
    const TestPlane window(random, make_row_format(RowCodec::kBf16, kDims, 0), kBlockTokens, 1);
    std::vector<int> latent_pages{0}, window_pages{0};
    const TestSequence sequence(random, kTokens, 1, latent.view(), window.view(), latent_pages, window_pages);
    const auto q = random.floats(std::size_t{kRows} * kWidth, 0.1F);
    ThreadPool pool(2);
    expect_same_far_away(kWidth, [&](const KernelTable& table, int first) {
      const Rows queries(first, kWidth, q), out(first, kWidth);
      TestStep step;
      step.add(sequence.span(kRows, kTokens - kRows));
      step.move_first_row(first);
      AttendArgs args;
      args.rows = first + kRows, args.heads = kHeads, args.dims = args.value_dims = kDims;
      args.q = queries.data();
      args.step = &step.tables(), args.spans = step.tables().spans;
      args.latent = &latent.view(), args.window = &window.view(), args.window_tokens = 16;
      args.bf16 = bf16;
      args.out = out.data();
      attend(Exec{&pool, &table}, args);
      return out.values();
    });
  }
}

TEST(FarRows, LinearWithFarInputsAndOutputs) {
  std::mt19937 random(72);
  constexpr int kIn = 64, kOut = 48, kAll = 13;  // rows enough for every kernel's tiles
  constexpr std::ptrdiff_t kApart = (std::ptrdiff_t{1} << 32) + 256;
  const auto x = random_inputs(random, std::size_t{kAll} * kIn);
  const SparseFloats far_x(kApart * kAll), far_y(kApart * kAll);
  for (int r = 0; r < kAll; ++r) std::copy_n(x.data() + r * kIn, kIn, far_x.data() + r * kApart);
  ThreadPool pool(2);
  for (const WeightForm& spec : weight_forms()) {
    const RandomWeight random_weight(random, spec, kOut, kIn);
    const int in = random_weight.view().in;
    if (in != kIn) continue;  // formats of longer blocks take the same path
    for (const KernelTable& table : linear_tables()) {
      SCOPED_TRACE(describe(spec) + " " + table.isa);
      const Exec exec{&pool, &table};
      const LinearWeight weight = LinearWeight::make(random_weight.view(), InputForm::kInt8, packs_for(exec));
      std::vector<float> near(std::size_t{kAll} * kOut), far;
      const LinearJob front{&weight, x.data(), kIn, near.data(), kOut};
      linear(exec, kAll, {&front, 1});
      const LinearJob apart{&weight, far_x.data(), kApart, far_y.data(), kApart};
      linear(exec, kAll, {&apart, 1});
      for (int r = 0; r < kAll; ++r) far.insert(far.end(), far_y.data() + r * kApart, far_y.data() + r * kApart + kOut);
      EXPECT_TRUE(same_bits(far, near));
    }
  }
}

TEST(FarRows, Norms) {
  Random random(73);
  constexpr int kDim = 1 << 15;
  const auto x = random.floats(std::size_t{kRows} * kDim), w = random.floats(kDim), b = random.floats(kDim);
  expect_same_far_away(kDim, [&](const KernelTable& table, int first) {
    const Rows in(first, kDim, x), out(first, kDim);
    table.rms_norm({first + kRows, kDim, in.data(), kDim, w.data(), 1e-6F, out.data(), kDim}, first, first + kRows);
    return out.values();
  });
  expect_same_far_away(kDim, [&](const KernelTable& table, int first) {
    const Rows in(first, kDim, x), out(first, kDim);
    table.layer_norm({first + kRows, kDim, in.data(), kDim, w.data(), b.data(), 1e-6F, out.data(), kDim}, first,
                     first + kRows);
    return out.values();
  });
}

TEST(FarRows, RopeAndHadamard) {
  Random random(74);
  constexpr int kHeads = 64, kDim = 512, kRope = 64, kWidth = kHeads * kDim;
  const auto x = random.floats(std::size_t{kRows} * kWidth), table_of_angles = random.floats(kRope);
  expect_same_far_away(kWidth, [&](const KernelTable& table, int first) {
    const Rows rows(first, kWidth, x);
    const std::vector<Position> positions(static_cast<std::size_t>(first + kRows));
    table.rope_heads({first + kRows, kHeads, kDim, kRope, kDim - kRope, rows.data(), kWidth, positions.data(),
                      table_of_angles.data(), false, 1e-6F},
                     first, first + kRows);
    return rows.values();
  });
  expect_same_far_away(128, [&](const KernelTable& table, int first) {
    const Rows rows(first, 128, {x.begin(), x.begin() + kRows * 128});
    table.hadamard({kRows, 128, rows.data()}, first, first + kRows);
    return rows.values();
  });
}

TEST(FarRows, HyperConnections) {
  Random random(75);
  constexpr int kDim = 1 << 13, kWidth = kHcStreams * kDim;
  const auto x = random.floats(std::size_t{kRows} * kWidth), y = random.floats(std::size_t{kRows} * kDim);
  const auto pre = random.floats(kRows * 4), comb = random.floats(kRows * 16);
  expect_same_far_away(kWidth, [&](const KernelTable& table, int first) {
    const Rows streams(first, kWidth, x), factors(first, 4, pre), out(first, kDim);
    table.hc_collapse({kRows, kDim, streams.data(), factors.data(), out.data()}, first, first + kRows);
    return out.values();
  });
  expect_same_far_away(kWidth, [&](const KernelTable& table, int first) {
    const Rows streams(first, kWidth, x), in(first, kDim, y), post(first, 4, pre), mixed(first, 16, comb);
    table.hc_expand({kRows, kDim, in.data(), post.data(), mixed.data(), streams.data()}, first, first + kRows);
    return streams.values();
  });
}

TEST(FarRows, CachedRows) {
  Random random(76);
  constexpr int kDims = 512;
  constexpr std::ptrdiff_t kApart = (std::ptrdiff_t{1} << 32) + 1024;
  const auto x = random.floats(std::size_t{kRows} * kDims);
  const SparseFloats far(kApart * kRows), decoded(kApart * kRows);
  for (const RowCodec codec : {RowCodec::kF32, RowCodec::kBf16, RowCodec::kV4Fp8, RowCodec::kMlaFp8}) {
    const RowFormat format = make_row_format(codec, kDims, 64);
    for (const KernelTable* table : all_tables()) {
      SCOPED_TRACE(std::string(name(codec)) + " " + table->name);
      for (int r = 0; r < kRows; ++r) std::copy_n(x.data() + r * kDims, kDims, far.data() + r * kApart);
      const auto coded = [&](const float* from, std::ptrdiff_t ld, float* to, std::ptrdiff_t to_ld) {
        std::vector<std::byte> bytes(static_cast<std::size_t>(kRows * format.row_bytes()));
        std::vector<RowRef> rows;
        for (int r = 0; r < kRows; ++r) {
          std::byte* const at = bytes.data() + r * format.row_bytes();
          rows.push_back({at, at + format.data_bytes});
        }
        table->encode_rows(format, from, ld, rows.data(), kRows);
        table->decode_rows(format, rows.data(), kRows, to, to_ld);
        std::vector<float> values;
        for (int r = 0; r < kRows; ++r) values.insert(values.end(), to + r * to_ld, to + r * to_ld + kDims);
        return values;
      };
      std::vector<float> near(x.size());
      coded(x.data(), kDims, near.data(), kDims);
      EXPECT_TRUE(same_bits(coded(far.data(), kApart, decoded.data(), kApart), near));
      if (codec == RowCodec::kF32 || codec == RowCodec::kBf16) continue;
      std::vector<float> simulated = x, values;
      table->simulate_rows(codec, kDims, 64, simulated.data(), kDims, kRows);
      table->simulate_rows(codec, kDims, 64, far.data(), kApart, kRows);
      for (int r = 0; r < kRows; ++r)
        values.insert(values.end(), far.data() + r * kApart, far.data() + r * kApart + kDims);
      EXPECT_TRUE(same_bits(values, simulated));
    }
  }
}

}  // namespace
}  // namespace sluice::far_rows_test
