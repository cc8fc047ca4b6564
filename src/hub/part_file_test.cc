#include "hub/part_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "base/storage/mapped_file.h"
#include "base/storage/temp_folder_testing.h"
#include "hub/hub_http.h"
#include "hub/transfer_progress.h"

namespace sluice::part_file_test {
namespace {

using ::testing::HasSubstr;

// printf hello | git hash-object --stdin; printf hello | sha256sum
const RepositoryFile kGit{.path = "f", .bytes = 5, .digest = "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0"};
const RepositoryFile kLfs{.path = "f",
                          .bytes = 5,
                          .digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
                          .is_sha256 = true};

TEST(PartFile, ChunksComeInAnyOrder) {
  const TempFolder folder;
  for (const RepositoryFile& wanted : {kGit, kLfs}) {
    const std::string path = folder.file(wanted.digest);
    PartFile file(path, wanted);
    ASSERT_TRUE(file.open().ok());
    file.plan(2);
    const auto first = file.take().value(), second = file.take().value(), third = file.take().value();
    EXPECT_FALSE(file.take().has_value());
    EXPECT_TRUE(file.put(third, "o").ok());
    EXPECT_TRUE(file.put(second, "l").ok());
    EXPECT_EQ(file.written(), 0);
    EXPECT_TRUE(file.put(first, "he").ok());
    EXPECT_EQ(read_text_file(path).value(), "hel");
    EXPECT_TRUE(file.put(second, "l").ok());
    EXPECT_TRUE(file.finish().ok()) << file.finish().message();
    EXPECT_EQ(read_text_file(path).value(), "hello");
  }
}

TEST(PartFile, GoesOnWhereItStopped) {
  const TempFolder folder;
  PartFile file(folder.write("part", "hel"), kLfs);
  ASSERT_TRUE(file.open().ok());
  file.plan(100);
  const PartFile::Chunk chunk = file.take().value();
  EXPECT_EQ(chunk.begin, 3);
  EXPECT_EQ(file.finish().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(file.put(chunk, "lo").ok());
  EXPECT_TRUE(file.finish().ok());
}

TEST(PartFile, WrongBytesAreFound) {
  const TempFolder folder;
  PartFile file(folder.write("part", "Hello"), kGit);
  ASSERT_TRUE(file.open().ok());
  file.plan(100);
  EXPECT_FALSE(file.take().has_value());
  EXPECT_THAT(file.finish().message(), HasSubstr("the bytes that came are not the file's"));
  EXPECT_TRUE(file.is_wrong());
  PartFile longer(folder.write("longer", "hello and more"), kGit);
  ASSERT_TRUE(longer.open().ok());
  EXPECT_EQ(longer.written(), 0);
}

TEST(HubRetries, AreBounded) {
  EXPECT_LT(back_off_seconds(1), back_off_seconds(2));
  EXPECT_LE(back_off_seconds(1000), 8);
  set_log_level(LogLevel::kOff);
  HubAnswer answer{.passing = true, .head = {.status = 429, .fields = {{"retry-after", "0"}}}};
  HubRetries retries;
  int tries = 0;
  while (retries.wait(answer, unavailable("busy"), false).ok()) ++tries;
  EXPECT_EQ(tries, 4);
  HubRetries progressing;
  tries = 0;
  while (progressing.wait(answer, unavailable("cut"), true).ok()) ++tries;
  EXPECT_EQ(tries, 99);
  answer.head.fields = {{"Retry-After", "4000"}};
  EXPECT_THAT(HubRetries().wait(answer, unavailable("busy"), false).message(), HasSubstr("asks to wait 4000 seconds"));
  answer.passing = false;
  EXPECT_EQ(HubRetries().wait(answer, unavailable("wrong"), false).message(), "wrong");
  set_log_level(LogLevel::kInfo);
}

TEST(TransferProgress, SaysWhatIsLeft) {
  EXPECT_EQ(format_time_left(41.9), "41 s");
  EXPECT_EQ(format_time_left(185), "3 min 5 s");
  EXPECT_EQ(format_time_left(7805), "2 h 10 min");
  TransferProgress progress("m", 500, 2000);
  EXPECT_THAT(progress.text(), HasSubstr("500 B of 2.0 kB, 25 %"));
  progress.add(500);
  EXPECT_THAT(progress.text(), ::testing::EndsWith(" left"));
  progress.take_back(600);
  EXPECT_THAT(progress.text(), HasSubstr("400 B of 2.0 kB"));
}

}  // namespace
}  // namespace sluice::part_file_test
