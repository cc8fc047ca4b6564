// Packed now, mapped from an earlier start, or used in place: the same bytes, and never those of other files.
#include "model/packing/weight_packer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "base/storage/temp_folder_testing.h"
#include "files/safetensors_writer.h"
#include "kernels/device/emulated_device.h"
#include "kernels/device/isa.h"

namespace sluice::weight_packer_test {
namespace {

using ::testing::StartsWith;

constexpr int kOut = 200, kIn = 96;

class WeightPackerTest : public ::testing::TestWithParam<const KernelTable*> {
 protected:
  WeightPackerTest() {
    options_.cache_folder = folder_.file("packed");
    options_.cache_from = 1;
    options_.settled_seconds = 0;
    write(1);
  }

  void write(unsigned seed) const {
    std::mt19937 random(seed);
    std::vector<std::uint16_t> values(std::size_t{kOut} * kIn);
    for (auto& value : values) value = static_cast<std::uint16_t>(random());
    TensorSource tensor;
    tensor.name = "w";
    tensor.dtype = DType::kBF16;
    tensor.shape = {kOut, kIn};
    tensor.data = std::as_bytes(std::span(values));
    ASSERT_TRUE(write_safetensors(folder_.file("model.safetensors"), {tensor}).ok());
  }

  struct Loaded {
    Checkpoint checkpoint;
    std::unique_ptr<LinearWeight> weight, transpose;
    std::string outcome;
    std::vector<std::byte> bytes() const {
      std::vector<std::byte> all(weight->packed(), weight->packed() + weight->packed_bytes());
      all.insert(all.end(), transpose->packed(), transpose->packed() + transpose->packed_bytes());
      return all;
    }
  };

  Loaded load(InputForm inputs = InputForm::kF32) {
    Loaded loaded{Checkpoint::open(folder_.path()).value(), std::make_unique<LinearWeight>(),
                  std::make_unique<LinearWeight>(), ""};
    WeightView view;
    view.format = WeightFormat::kBf16;
    view.out = kOut;
    view.in = kIn;
    view.data = loaded.checkpoint.find("w")->data;
    const Exec exec{&pool_, GetParam()};
    loaded.checkpoint.serve();
    WeightPacker packer(exec, options_);
    packer.add("w", *loaded.weight, view, inputs);
    packer.add("w transposed", *loaded.transpose, transposed_shape(view), inputs,
               [&](std::byte* to) { write_transpose(&pool_, view, to); });
    EXPECT_TRUE(packer.finish(loaded.checkpoint, {}).ok());
    loaded.outcome = packer.outcome();
    if (options_.pack) {
      const LinearWeight right = LinearWeight::make(view, inputs, packs_for(exec));
      EXPECT_EQ(right.packed_bytes(), loaded.weight->packed_bytes());
      EXPECT_EQ(std::memcmp(right.packed(), loaded.weight->packed(), right.packed_bytes()), 0);
    }
    return loaded;
  }

  TempFolder folder_;
  ThreadPool pool_{2};
  PackingOptions options_;
};

TEST_P(WeightPackerTest, TheSecondStartMapsTheSameBytes) {
  std::vector<std::byte> first;
  {
    const Loaded loaded = load();
    EXPECT_EQ(loaded.outcome, "packed now");
    first = loaded.bytes();
  }
  const Loaded second = load();
  EXPECT_THAT(second.outcome, StartsWith("mapped from"));
  EXPECT_EQ(second.bytes(), first);
  options_.cache = false;
  EXPECT_EQ(load().outcome, "packed now");
}

// A start that finds the form touches it, and one that makes room removes it.
TEST_P(WeightPackerTest, AKeptFormThatChangesWhileItIsUsedIsNoticed) {
  for (const bool damaged : {false, true}) {
    load();
    const Loaded used = load();
    ASSERT_THAT(used.outcome, StartsWith("mapped from "));
    ServedFiles& files = *used.checkpoint.served();
    EXPECT_TRUE(files.check().ok()) << files.check().message();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // so that times tick
    const std::string path = used.outcome.substr(std::string("mapped from ").size());
    if (damaged) {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp((std::streamoff{2} << 20) + 100);
      file.put('\xA5').put('\x5A');
    } else {
      EXPECT_THAT(load().outcome, StartsWith("mapped from "));
      std::filesystem::remove(path);
    }
    EXPECT_EQ(files.check().ok(), !damaged) << files.check().message();
    EXPECT_EQ(files.look().ok(), !damaged);
  }
}

TEST_P(WeightPackerTest, AFormOfOtherFilesIsNeverUsed) {
  EXPECT_EQ(load().outcome, "packed now");
  EXPECT_EQ(load(InputForm::kBf16).outcome, "packed now");  // another input form
  write(2);                                                 // the same size and name; load() compares the bytes
  EXPECT_EQ(load().outcome, "packed now");
  std::filesystem::last_write_time(folder_.file("model.safetensors"), std::filesystem::file_time_type::clock::now());
  EXPECT_EQ(load().outcome, "packed now");
}

TEST_P(WeightPackerTest, WhatChangedJustNowIsNotReliedOn) {
  options_.settled_seconds = 3600;
  EXPECT_EQ(load().outcome, "packed now");
  EXPECT_EQ(load().outcome, "packed now");
  EXPECT_FALSE(std::filesystem::exists(options_.cache_folder));
}

TEST_P(WeightPackerTest, SmallFormsAreNotKept) {
  options_.cache_from = std::size_t{1} << 30;
  EXPECT_EQ(load().outcome, "packed now");
  EXPECT_FALSE(std::filesystem::exists(options_.cache_folder));
}

TEST_P(WeightPackerTest, UnpackedWeightsLieInTheFile) {
  options_.pack = false;
  const Loaded loaded = load();
  EXPECT_EQ(loaded.outcome, "");
  EXPECT_TRUE(loaded.weight->packed_when_used());
  EXPECT_EQ(loaded.weight->packed_bytes(), 0U);
  EXPECT_EQ(loaded.weight->view().data, loaded.checkpoint.find("w")->data);
  EXPECT_GT(loaded.transpose->packed_bytes(), 0U);  // no file holds it
}

std::vector<const KernelTable*> packing_tables() {
  std::vector<const KernelTable*> tables;
  std::ranges::copy_if(present_kernels(), std::back_inserter(tables),
                       [](const KernelTable* table) { return table != &scalar_kernels(); });
  return tables;
}

// Weights that no file holds, on a device that they are too large for to be made each: of a shape, all are the first.
TEST(WeightPacker, ManyMadeWeightsAreCopiesOfTheFirstOfTheirShape) {
  const std::vector<std::vector<std::int64_t>> shapes = {{48, 64}, {32, 64}, {48, 64}, {48, 64}, {32, 64}};
  std::vector<MadeTensors::Spec> specs;
  for (const auto& shape : shapes) {
    specs.push_back({.name = fmt::format("w{}", specs.size()), .dtype = DType::kBF16, .shape = shape});
  }
  const auto make = [](std::size_t spec, std::size_t offset, std::span<std::byte> to) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<std::byte>(31 * spec + (offset + i) % 13);
  };
  for (const bool copied : {true, false}) {
    EmulatedDevice device(1);
    auto checkpoint = Checkpoint::of(MadeTensors::create(specs, make).value(), "made", "version 1");
    ThreadPool pool(2);
    const Exec exec{.pool = &pool, .kernels = packing_tables().back(), .ops = &emulated_op_table(), .device = &device};
    const PackingOptions options{.copy_made_from = copied ? 1U : std::size_t{1} << 30};
    WeightPacker packer(exec, options);
    std::vector<LinearWeight> weights(shapes.size());
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const WeightView view{.format = WeightFormat::kBf16,
                            .out = static_cast<int>(shapes[i][0]),
                            .in = static_cast<int>(shapes[i][1]),
                            .data = checkpoint.find(fmt::format("w{}", i))->data};
      packer.add("w", weights[i], view, InputForm::kF32);
    }
    ASSERT_TRUE(packer.finish(checkpoint, {}).ok());
    std::vector<std::vector<std::byte>> bytes;
    for (const LinearWeight& weight : weights) {
      bytes.emplace_back(weight.packed_bytes());
      device.download({bytes.back().data(), weight.packed(), weight.packed_bytes()});
    }
    device.wait();
    EXPECT_EQ(bytes[2] == bytes[0] && bytes[3] == bytes[0] && bytes[4] == bytes[1], copied);
    checkpoint.bring({checkpoint.find("w0")->data, checkpoint.find("w0")->bytes}, pool);
    LinearWeight made =
        LinearWeight::make({.format = WeightFormat::kBf16, .out = 48, .in = 64, .data = checkpoint.find("w0")->data},
                           InputForm::kF32, packs_for(Exec{&pool, packing_tables().back()}));
    EXPECT_EQ(std::memcmp(made.packed(), bytes[0].data(), bytes[0].size()), 0);
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(WeightPackerTest);
INSTANTIATE_TEST_SUITE_P(Isas, WeightPackerTest, ::testing::ValuesIn(packing_tables()),
                         [](const auto& info) { return std::string(isa_name(*info.param)); });

}  // namespace
}  // namespace sluice::weight_packer_test
