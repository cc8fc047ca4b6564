// Weights of every kind, placed on a device whose memory the host cannot touch: the same values, at its addresses.
#include <gtest/gtest.h>

#include <bit>
#include <list>
#include <random>

#include "base/storage/temp_folder_testing.h"
#include "base/test_seed_testing.h"
#include "files/safetensors_writer.h"
#include "kernels/device/emulated_device.h"
#include "kernels/ops/linear.h"
#include "model/weights/weight_table.h"

namespace sluice::device_weights_test {
namespace {

std::vector<std::byte> random_bytes(std::mt19937& random, std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// A weight [kOut, kIn] of any bits.
struct StoredWeight {
  static constexpr int kOut = 512, kIn = 512;
  StoredWeight(std::mt19937& random, WeightFormat format, ScaleFormat scale_format = ScaleFormat::kNone,
               int block = 1) {
    view.format = format, view.scale_format = scale_format, view.out = kOut, view.in = kIn;
    view.codes = DType::kQ4_K;
    view.block_in = format == WeightFormat::kMxfp4 ? 32 : 128;
    view.block_out = block;
    view.scale_columns = kIn / view.block_in;
    data = random_bytes(random, kOut * view.row_bytes());
    scales = random_bytes(random, static_cast<std::size_t>(4 * (kOut / block) * view.scale_columns));
    view.data = data.data(), view.scales = scales.data();
  }
  std::vector<std::byte> data, scales;
  WeightView view;
};

template <class T>
WeightSpec spec_of(T* into) {
  WeightSpec spec;
  spec.into = into;
  return spec;
}

class DeviceWeightsTest : public ::testing::Test {
 protected:
  DeviceWeightsTest() {
    const float value = 1.0F;
    TensorSource tensor;
    tensor.name = "w", tensor.shape = {1}, tensor.data = std::as_bytes(std::span(&value, 1));
    EXPECT_TRUE(write_safetensors(folder_.file("model.safetensors"), {tensor}).ok());
  }

  Checkpoint open() const { return Checkpoint::open(folder_.path()).value(); }
  void place(Checkpoint& checkpoint, const WeightTable& table) {
    std::vector<const WeightSpec*> specs;
    for (const auto& spec : table) specs.push_back(&spec);
    const Exec exec{.pool = &pool_, .kernels = &scalar_kernels(), .device = &device_};
    ASSERT_TRUE(place_weights(exec, checkpoint, specs).ok());
  }
  template <class T>
  std::vector<T> fetch(const T* from, std::size_t count) {
    std::vector<T> values(count);
    device_.download(
        {reinterpret_cast<std::byte*>(values.data()), reinterpret_cast<const std::byte*>(from), count * sizeof(T)});
    device_.wait();
    return values;
  }
  // All values of a view whose bytes are on the device, by a copy on the host.
  std::vector<std::uint32_t> values_there(WeightView view) {
    const int stored_rows = view.transposed() ? view.in : view.out;
    const auto data = fetch(view.data, static_cast<std::size_t>(stored_rows) * view.row_bytes());
    view.data = data.data();
    std::vector<std::byte> scales;
    if (view.scale_format != ScaleFormat::kNone) {
      const int rows = (view.first_row + view.out + view.block_out - 1) / view.block_out;
      const int of_scale = scale_bytes(view.scale_format);
      scales = fetch(view.scales, static_cast<std::size_t>(rows * view.scale_columns * of_scale));
      view.scales = scales.data();
    }
    return values_of(view);
  }
  static std::vector<std::uint32_t> values_of(const WeightView& view) {
    std::vector<std::uint32_t> values;
    for (int n = 0; n < view.out; ++n) {
      for (int k = 0; k < view.in; ++k)
        values.push_back(std::bit_cast<std::uint32_t>(view.element(n, k) * view.scale(n, k)));
    }
    return values;
  }

  const std::uint32_t seed_ = test_seed();
  std::mt19937 random_{seed_};
  TempFolder folder_;
  ThreadPool pool_{2};
  EmulatedDevice device_{seed_};
};

TEST_F(DeviceWeightsTest, WeightsThatAreNotPackedKeepTheirValues) {
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed_);
  Checkpoint checkpoint = open();
  std::list<StoredWeight> stored;
  stored.emplace_back(random_, WeightFormat::kF32);
  stored.emplace_back(random_, WeightFormat::kBf16);
  stored.emplace_back(random_, WeightFormat::kFp8, ScaleFormat::kE8m0, 128);
  stored.emplace_back(random_, WeightFormat::kFp8, ScaleFormat::kF32, 32);
  stored.emplace_back(random_, WeightFormat::kMxfp4, ScaleFormat::kE8m0, 1);
  stored.emplace_back(random_, WeightFormat::kCodes);
  std::list<LinearWeight> weights;
  std::vector<WeightView> views;
  WeightTable table;
  const auto add = [&](const WeightView& view) {
    views.push_back(view);
    weights.push_back(
        LinearWeight::make(view, InputForm::kF32, {.packing = &linear_packing(scalar_kernels()), .when_used = true}));
    table.push_back(spec_of(&weights.back()));
  };
  for (const StoredWeight& weight : stored) {
    const WeightView& whole = weight.view;
    add(whole);
    for (const int first : {0, 100, 384}) add(slice_rows(whole, first, 128));  // their scales are those of the whole
    if (whole.format == WeightFormat::kCodes) add(transposed_codes(whole));
  }
  place(checkpoint, table);
  std::size_t i = 0;
  for (const LinearWeight& weight : weights) {
    SCOPED_TRACE(i);
    EXPECT_NE(weight.view().data, views[i].data);
    EXPECT_TRUE(weight.is_placed());
    EXPECT_EQ(values_there(weight.view()), values_of(views[i]));
    ++i;
  }
}

TEST_F(DeviceWeightsTest, AllElseIsPlacedToo) {
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed_);
  Checkpoint checkpoint = open();
  const StoredWeight stored(random_, WeightFormat::kBf16);
  WeightView embedding = stored.view;
  const LinearPacking& packing = linear_packing(**select_kernels("auto"));
  LinearWeight packed = LinearWeight::make(stored.view, InputForm::kBf16, {.packing = &packing, .pool = &pool_});
  const std::vector<std::byte> packed_bytes(packed.packed(), packed.packed() + packed.packed_bytes());
  const std::vector<float> norm_values{1.0F, -2.0F, 3.5F};
  const std::vector<std::int32_t> id_values{7, 0, 9, 1};
  Param<float> norm(norm_values), absent;
  Param<std::int32_t> ids(id_values);
  const float* before = norm.data();
  place(checkpoint, {spec_of(&embedding), spec_of(&packed), spec_of(&norm), spec_of(&absent), spec_of(&ids)});
  EXPECT_EQ(values_there(embedding), values_of(stored.view));
  EXPECT_NE(embedding.data, stored.view.data);
  EXPECT_NE(norm.data(), before);
  EXPECT_EQ(fetch(norm.data(), norm.size()), norm_values);
  EXPECT_EQ(fetch(ids.data(), ids.size()), id_values);
  EXPECT_TRUE(absent.empty());
  ASSERT_EQ(packed.packed_bytes(), packed_bytes.size());
  if (!packed_bytes.empty()) {
    EXPECT_TRUE(packed.is_placed());
    EXPECT_EQ(fetch(packed.packed(), packed.packed_bytes()), packed_bytes);
  }
}

}  // namespace
}  // namespace sluice::device_weights_test
