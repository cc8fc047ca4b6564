#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::log_test {
namespace {

class LogTest : public ::testing::Test {
 protected:
  void TearDown() override { set_log_level(LogLevel::kInfo); }
};

TEST_F(LogTest, LevelsHaveNames) {
  ASSERT_TRUE(parse_log_level("warning").ok());
  EXPECT_EQ(*parse_log_level("warning"), LogLevel::kWarning);
  EXPECT_THAT(parse_log_level("loud").status().message(),
              ::testing::AllOf(::testing::HasSubstr("'loud'"), ::testing::HasSubstr("trace, debug, info")));
}

TEST_F(LogTest, LinesBelowTheLevelAreDropped) {
  set_log_level(LogLevel::kWarning);
  ::testing::internal::CaptureStderr();
  log_info("quiet {}", 1);
  log_error("loud {}", 2);
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("quiet")));
  EXPECT_THAT(text, ::testing::MatchesRegex("....-..-.. ..:..:..[.]... error   loud 2\n"));
}

TEST_F(LogTest, LinesAreUtf8) {
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    set_log_format(format);
    ::testing::internal::CaptureStderr();
    log_info("{}: a file", "\xFF\xE2\x82");
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr("\xEF\xBF\xBD\xEF\xBF\xBD: a file"));
  }
  set_log_format(LogFormat::kText);
}

TEST_F(LogTest, BracesInALineAreNotAFormat) {
  ::testing::internal::CaptureStderr();
  log_line(LogLevel::kInfo, "{}");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr("{}\n"));
}

}  // namespace
}  // namespace sluice::log_test
