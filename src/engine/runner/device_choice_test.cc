#include "engine/runner/device_choice.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "kernels/device/emulated_device.h"

namespace sluice::device_choice_test {
namespace {

Result<DeviceChoice> choose(const char* device, const char* profile, int ranks = 1) {
  MachineOptions options;
  options.device = device;
  options.tensor_parallel_size = ranks;
  NumericsOptions numerics;
  numerics.profile = profile;
  return choose_device(options, numerics);
}

TEST(DeviceChoice, TheProfileOfHopperIsNotThatOfOtherDevices) {
  for (const char* device : {"cpu", "emulated"}) {
    const auto refused = choose(device, "sm90");
    EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(refused.status().message(),
              std::string("--profile sm90: its kernels are those of NVIDIA's H100 and H200, found --device ") + device +
                  "; give --device cuda on a machine with such a device, or choose another profile");
    EXPECT_TRUE(choose(device, "default").ok());
  }
}

TEST(DeviceChoice, ProfilesOfTheCpuAreThoseOfItsOpsToo) {
  for (const char* profile : {"default", "plain", "ref", "amx"}) {
    EXPECT_EQ(choose("cpu", profile).value().ops, nullptr);
    EXPECT_EQ(choose("emulated", profile).value().ops, &emulated_op_table());
  }
}

TEST(DeviceChoice, UnknownNamesAreErrors) {
  for (const char* name : {"cuda:", "cuda:-1", "cuda:1x", "cuda:0,", "cuda:,1", "cuda:0,,1", "cuda:0;1", "cuda:0, 1",
                           "cuda:99999999999", "cpu:0", "emulated:0", "tpu", ""}) {
    EXPECT_EQ(choose(name, "default").status().message(),
              std::string("--device: expected auto, cpu, cuda, cuda:N, cuda:N,M or emulated, found '") + name + "'");
  }
}

TEST(DeviceChoice, RanksAreDevicesOfOneKindInAGroup) {
  const auto alone = choose("emulated", "default", 1);
  EXPECT_EQ(alone.value().group, nullptr);
  const auto several = choose("emulated", "default", 4);
  ASSERT_TRUE(several.ok()) << several.status().message();
  ASSERT_NE(several->group, nullptr);
  EXPECT_EQ(several->group->ranks(), 4);
  EXPECT_EQ(&several->device(), several->group);
  EXPECT_EQ(several->ops, &DeviceGroup::ops());
  const Exec of_rank = several->group->rank_exec({.ops = several->ops, .device = several->group}, 3);
  EXPECT_EQ(of_rank.ops, &emulated_op_table());
  EXPECT_EQ(of_rank.group.exchange->ranks(), 4);
}

TEST(DeviceChoice, TheCpuIsNoGroup) {
  EXPECT_EQ(choose("cpu", "default", 2).status().message(),
            "--tensor-parallel-size: expected 1 with --device cpu, found 2; several need --device cuda");
  EXPECT_EQ(choose("cpu", "default", 2).status().code(), StatusCode::kInvalidArgument);
}

TEST(DeviceChoice, NumbersAreAsManyAsRanks) {
  for (const auto& [device, ranks, found] : {std::tuple("cuda:0,1", 1, 2), {"cuda:1", 2, 1}, {"cuda:0,1,2", 2, 3}}) {
    EXPECT_EQ(choose(device, "default", ranks).status().message(),
              std::string("--device ") + device + ": expected as many numbers as --tensor-parallel-size, " +
                  std::to_string(ranks) + ", found " + std::to_string(found));
  }
}

TEST(DeviceChoice, ADeviceIsOneRank) {
  EXPECT_EQ(choose("cuda:1,1", "default", 2).status().message(),
            "--device cuda:1,1: expected a device of its own for each rank, found 1 twice");
}

}  // namespace
}  // namespace sluice::device_choice_test
