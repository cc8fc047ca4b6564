#include "engine/runner/device_choice.h"

#include <gtest/gtest.h>

#include "kernels/device/emulated_device.h"

namespace sluice::device_choice_test {
namespace {

Result<DeviceChoice> choose(const char* device, const char* profile) {
  MachineOptions options;
  options.device = device;
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
  for (const char* profile : {"default", "plain", "ref", "tiles"}) {
    EXPECT_EQ(choose("cpu", profile).value().ops, nullptr);
    EXPECT_EQ(choose("emulated", profile).value().ops, &emulated_op_table());
  }
}

TEST(DeviceChoice, UnknownNamesAreErrors) {
  for (const char* name : {"cuda:", "cuda:-1", "cuda:1x", "cpu:0", "emulated:0", ""}) {
    EXPECT_EQ(choose(name, "default").status().message(),
              std::string("--device: expected auto, cpu, cuda, cuda:N or emulated, found '") + name + "'");
  }
  EXPECT_EQ(choose("tpu", "default").status().message(),
            "--device: expected auto, cpu, cuda, cuda:N or emulated, found 'tpu'");
}

}  // namespace
}  // namespace sluice::device_choice_test
