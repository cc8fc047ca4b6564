// hc_leave_enter of the profile sm90 (kernels/cuda/sm90/sm90_hyper_connection.cu): compared with the ops of the header,
// a row alone and among others, and its time.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/formats/number_formats.h"
#include "kernels/cuda/linear_layout.h"
#include "kernels/cuda/sm90/sm90_ops.h"
#include "kernels/ops/hyper_connection.h"
#include "kernels/ops/ops.h"
#include "sm90_testing.h"

namespace sluice::gpu_hyper_connection_test {
namespace {

using namespace sm90_testing;

constexpr int kStreams = kHcStreams;

// Rows, and the weights of a site.
struct Site {
  Site(std::mt19937& random, int count, int dim, bool head)
      : rows(count),
        dim(dim),
        mixes(head ? 4 : 24),
        x(values(random, kStreams * dim)),
        y(values(random, dim)),
        post(values(random, kStreams)),
        comb(values(random, kStreams * kStreams)),
        pre(size(kStreams)),
        collapsed(size(dim)),
        normed(size(dim)),
        pairs(size(dim / 2)),
        scratch(size(24)),
        norm(random_values(random, static_cast<std::size_t>(dim))),
        base(random_values(random, 24)),
        scale(random_values(random, 3)),
        gathered(size(kStreams * dim)) {
    const int first = head ? 4 : 16;
    weights.fn[0] = weight(random, first, 0);
    if (!head) weights.fn[1] = weight(random, 24 - first, 1);
    weights.base = base.data(), weights.scale = scale.data();
  }
  std::size_t size(int of_row) const { return static_cast<std::size_t>(rows) * static_cast<std::size_t>(of_row); }
  std::vector<float> values(std::mt19937& random, int of_row) const { return random_values(random, size(of_row)); }
  LinearWeight weight(std::mt19937& random, int out, std::size_t at) {
    std::vector<float> all = random_values(random, static_cast<std::size_t>(out) * kStreams * dim);
    for (float& value : all) value *= 0.01F;
    const WeightView view{.format = WeightFormat::kF32,
                          .out = out,
                          .in = kStreams * dim,
                          .data = reinterpret_cast<const std::byte*>(all.data())};
    std::vector<std::byte> bytes(cuda_linear_packing().packed_bytes(view));
    cuda_linear_packing().pack(view, 0, out, bytes.data());
    packed[at] = std::make_unique<OnDevice<std::byte>>(bytes);
    return LinearWeight::make(view, InputForm::kF32, {.packed = packed[at]->data(), .packed_bytes = bytes.size()});
  }
  // The arguments for rows [first, first + count).
  HcLeaveEnterArgs args(int first, int count) {
    const auto at = [first](const OnDevice<float>& all, int of_row) {
      return all.data() + static_cast<std::ptrdiff_t>(first) * of_row;
    };
    HcLeaveEnterArgs args{.rows = count,
                          .dim = dim,
                          .x = at(x, kStreams * dim),
                          .y = at(y, dim),
                          .weights = &weights,
                          .norm_eps = 0.03F,  // large enough that results show if it is missing
                          .hc_eps = 0.01F,
                          .sinkhorn_iterations = 20,
                          .mixes = scratch.data(),
                          .pre = at(pre, kStreams),
                          .post = at(post, kStreams),
                          .comb = at(comb, kStreams * kStreams),
                          .collapsed = at(collapsed, dim),
                          .norm = norm.data(),
                          .normed = contiguous_rows(at(normed, dim), dim),
                          .gathered = gathered.data()};
    args.normed.forms[static_cast<std::size_t>(InputForm::kBf16)] = at(pairs, dim / 2);
    return args;
  }
  // All that the op writes, as bits.
  std::vector<std::vector<float>> results() const {
    std::vector<std::vector<float>> all{x.fetch(), pre.fetch(), collapsed.fetch(), normed.fetch(), pairs.fetch()};
    if (mixes == 24) all.push_back(post.fetch()), all.push_back(comb.fetch());
    return all;
  }

  int rows, dim, mixes;
  OnDevice<float> x, y, post, comb, pre, collapsed, normed, pairs, scratch, norm, base, scale, gathered;
  std::array<std::unique_ptr<OnDevice<std::byte>>, 2> packed;
  HyperConnectionWeights weights;
};

class GpuHyperConnections : public Sm90Test {};

TEST_F(GpuHyperConnections, AreThoseOfTheHeaderButForTheOrderOfASum) {
  for (const bool head : {false, true}) {
    for (const auto& [rows, dim] : {std::pair{1, 4096}, std::pair{3, 128}, std::pair{70, 4096}, std::pair{9, 7168}, std::pair{701, 1024}}) {
      std::mt19937 random(7), again(7);
      Site ours(random, rows, dim, head), header(again, rows, dim, head);
      cuda_sm90_op_table().hc_leave_enter(exec_, ours.args(0, rows));
      Exec exec = exec_;
      exec.ops = &cuda_op_table();
      cuda_op_table().hc_leave_enter(exec, header.args(0, rows));
      const auto a = ours.results(), b = header.results();
      EXPECT_EQ(a[0], b[0]) << "streams are expanded in the order of the header";
      for (std::size_t i = 1; i < a.size(); ++i) {
        if (i == 4) continue;  // bf16 of the normed row
        const double distance = relative_distance(a[i], std::vector<double>(b[i].begin(), b[i].end()));
        EXPECT_LT(distance, 2e-6) << rows << " rows of " << dim << (head ? ", head: " : ": ") << "result " << i;
      }
      std::vector<std::uint16_t> rounded;
      for (const float value : a[3]) rounded.push_back(to_bf16(value).bits);
      EXPECT_EQ(std::memcmp(rounded.data(), a[4].data(), rounded.size() * sizeof(std::uint16_t)), 0)
          << rows << " rows of " << dim;
    }
  }
}

TEST_F(GpuHyperConnections, ARowHasTheSameBitsAloneAndAmongOthers) {
  for (const int rows : {2, 4, 5, 17, 300, 701}) {
    std::mt19937 random(11), again(11);
    Site together(random, rows, 1024, false), alone(again, rows, 1024, false);
    cuda_sm90_op_table().hc_leave_enter(exec_, together.args(0, rows));
    for (int row = 0; row < rows; ++row) cuda_sm90_op_table().hc_leave_enter(exec_, alone.args(row, 1));
    const auto a = together.results(), b = alone.results();
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)), 0) << rows << " rows, result " << i;
    }
  }
}

TEST_F(GpuHyperConnections, TheHeadTakesSomeRows) {
  constexpr int kDim = 512;
  for (const int rows : {6, 40, 1500}) {  // half of these are entered
    std::mt19937 random(13), again(13);
    std::vector<std::int32_t> only(static_cast<std::size_t>(rows));
    std::iota(only.begin(), only.end(), 0);
    std::ranges::shuffle(only, random_);
    only.resize(only.size() / 2);
    const OnDevice<std::int32_t> of_device(only);
    Site some(random, rows, kDim, true), all(again, rows, kDim, true);
    HcLeaveEnterArgs args = some.args(0, rows);
    args.only = {of_device.data(), only.size()};
    cuda_sm90_op_table().hc_leave_enter(exec_, args);
    cuda_sm90_op_table().hc_leave_enter(exec_, all.args(0, rows));
    const auto a = some.normed.fetch(), b = all.normed.fetch();
    for (std::size_t i = 0; i < only.size(); ++i) {
      const float* row = b.data() + static_cast<std::size_t>(only[i]) * kDim;
      ASSERT_EQ(std::memcmp(a.data() + i * kDim, row, kDim * sizeof(float)), 0) << i << " of " << rows << " rows";
    }
  }
}

TEST_F(GpuHyperConnections, ReadNothingBeforeTheKernelAheadHasEnded) {
  for (const int rows : {1, 6, 600}) {
    std::mt19937 random(19);
    Site site(random, rows, 1024, false);
    LateInputs late;
    late.add(site.x), late.add(site.y), late.add(site.post), late.add(site.comb);
    cuda_sm90_op_table().hc_leave_enter(exec_, site.args(0, rows));
    const auto expected = site.results();
    late.try_all(
        exec_, [&] { cuda_sm90_op_table().hc_leave_enter(exec_, site.args(0, rows)); },
        [&](int time) {
          const auto given = site.results();
          for (std::size_t i = 0; i < given.size(); ++i) {
            EXPECT_EQ(std::memcmp(given[i].data(), expected[i].data(), given[i].size() * sizeof(float)), 0)
                << rows << " rows, result " << i << ", time " << time;
          }
        });
  }
}

class GpuSpeedHyperConnections : public Sm90SpeedTest {};

TEST_F(GpuSpeedHyperConnections, OfASite) {
  for (const int rows : {1, 8, 64, 2048}) {
    std::mt19937 random(17);
    std::vector<std::unique_ptr<Site>> sites;
    for (int i = 0; i < 8; ++i) sites.push_back(std::make_unique<Site>(random, rows, 4096, false));
    const double us = microseconds(8, [&](int i) {
      cuda_sm90_op_table().hc_leave_enter(exec_, sites[static_cast<std::size_t>(i)]->args(0, rows));
    });
    std::printf("hyper-connections, %d rows: %.1f us a site\n", rows, us);
  }
}

}  // namespace
}  // namespace sluice::gpu_hyper_connection_test
