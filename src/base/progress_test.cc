#include "base/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::progress_test {
namespace {

TEST(ProgressTest, BytesHaveDecimalUnits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(23'300'000), "23.3 MB");
  EXPECT_EQ(format_bytes(1.5e12), "1.5 TB");
  EXPECT_EQ(format_bytes(2e15), "2000.0 TB");
}

TEST(ProgressTest, DrawsOneLineAndErasesIt) {
  ::testing::internal::CaptureStderr();
  {
    ProgressBar bar("loading", true);
    bar.update(0, 100);
    bar.update(50, 100);  // too soon after the first
    bar.update(100, 100);
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, ::testing::HasSubstr("loading   0 % [.............................."));
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr(" 50 %")));
  EXPECT_THAT(text, ::testing::HasSubstr("loading 100 % [##############################] 100 B"));
  EXPECT_THAT(text, ::testing::EndsWith("\r\x1b[K"));
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("\n")));
}

TEST(ProgressTest, CountsItems) {
  ::testing::internal::CaptureStderr();
  {
    ProgressBar bar("items", true, ProgressBar::Unit::kItems);
    bar.update(4, 8);
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr("###...............] 4 of 8  "));
}

TEST(ProgressTest, SilentWhenItDoesNotDraw) {
  ::testing::internal::CaptureStderr();
  {
    ProgressBar bar("loading", false);
    bar.update(1, 0);
    bar.update(1, 1);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace sluice::progress_test
