#include "files/made_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

namespace sluice::made_tensors_test {
namespace {

using ::testing::HasSubstr;

std::byte value(std::size_t spec, std::size_t at) {
  return static_cast<std::byte>(spec * 31 + at % 251 + at / 4096);
}

MadeTensors::Make make_values(std::atomic<std::size_t>* bytes_made) {
  return [bytes_made](std::size_t spec, std::size_t offset, std::span<std::byte> to) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = value(spec, offset + i);
    *bytes_made += to.size();
  };
}

bool holds(const TensorView& tensor, std::size_t spec, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    if (tensor.data[i] != value(spec, i)) return false;
  }
  return true;
}

TEST(MadeTensorsTest, BytesAreMadeWhenTheyAreBroughtAndGoWhenTheyAreLeft) {
  std::atomic<std::size_t> bytes_made = 0;
  ThreadPool pool(2);
  const auto made = MadeTensors::create({{.name = "a", .dtype = DType::kU8, .shape = {3, 5}},
                                         {.name = "b", .dtype = DType::kBF16, .shape = {1500, 1000}},
                                         {.name = "c", .dtype = DType::kBF16, .shape = {1500, 1000}, .same_as = "b"}},
                                        make_values(&bytes_made));
  ASSERT_TRUE(made.ok()) << made.status().message();
  const auto& tensors = made->tensors();
  EXPECT_EQ(made->bytes(), 15U + 3'000'000U);
  EXPECT_EQ(tensors[1].bytes, 3'000'000U);
  EXPECT_EQ(tensors[2].data, tensors[1].data);
  EXPECT_EQ(bytes_made, 0U);
  made->bring({tensors[0].data, tensors[0].bytes}, pool);
  EXPECT_TRUE(holds(tensors[0], 0, 0, 15));
  // Some rows, over several pieces.
  made->bring({tensors[2].data + 20'000, 2'500'000}, pool);
  EXPECT_TRUE(holds(tensors[1], 1, 20'000, 2'520'000));
  EXPECT_EQ(bytes_made, 15U + 2'500'000U);
  made->leave({tensors[1].data + 20'000, 2'500'000});
  EXPECT_EQ(tensors[1].data[1'000'000], std::byte{0}) << "its memory went back";
  EXPECT_TRUE(holds(tensors[1], 1, 20'000, 20'400)) << "a page that it shares with other rows stays";
  made->bring({tensors[1].data, tensors[1].bytes}, pool);
  EXPECT_TRUE(holds(tensors[1], 1, 0, 3'000'000));
}

TEST(MadeTensorsTest, RefusesWhatCannotBe) {
  const auto error = [](std::vector<MadeTensors::Spec> specs) {
    const auto made = MadeTensors::create(std::move(specs), nullptr);
    return made.ok() ? "(accepted)" : made.status().message();
  };
  EXPECT_THAT(error({{.name = "a", .dtype = DType::kU8, .shape = {-1}}}), HasSubstr("-1"));
  EXPECT_EQ(error({{.name = "a", .dtype = DType::kU8, .shape = {1}}, {.name = "a", .dtype = DType::kU8, .shape = {1}}}),
            "tensor a: listed twice");
  const MadeTensors::Spec like_a{.name = "b", .dtype = DType::kU8, .shape = {2}, .same_as = "a"};
  EXPECT_EQ(error({like_a}), "tensor b: expected a to be a tensor of its type and shape");
  EXPECT_EQ(error({{.name = "a", .dtype = DType::kU8, .shape = {1}}, like_a}),
            "tensor b: expected a to be a tensor of its type and shape");
}

}  // namespace
}  // namespace sluice::made_tensors_test
