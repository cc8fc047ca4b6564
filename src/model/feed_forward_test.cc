#include "model/feed_forward.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/ops/ops.h"

namespace sluice::feed_forward_test {
namespace {

using testing::HasSubstr;

TEST(FeedForward, WhatADeviceDoesNotComputeIsRefusedByName) {
  const Activation gelu{.kind = ActivationKind::kGeluTanh};
  EXPECT_TRUE(check_feed_forward({}, gelu, true).ok());  // the CPU
  OpTable ops = cpu_op_table();
  ops.device = "narrow";
  ops.experts_support = {.biases = false, .gelu = false};
  const Exec exec{.ops = &ops};
  EXPECT_TRUE(check_feed_forward(exec, {.alpha = 1.702F, .limit = 7.0F, .up_offset = 1.0F}, false).ok());
  EXPECT_THAT(check_feed_forward(exec, {}, true).message(), HasSubstr("'narrow' do not compute the biases"));
  EXPECT_THAT(check_feed_forward(exec, gelu, false).message(),
              HasSubstr("'narrow' do not compute the activation GELU"));
}

}  // namespace
}  // namespace sluice::feed_forward_test
