#include "base/storage/mapping_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/storage/mapped_file.h"
#include "base/storage/temp_folder_testing.h"

namespace sluice::mapping_guard_test {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::Not;

constexpr std::size_t kPages = 64 * 4096;

MappedFile open_pages(const TempFolder& folder, const char* name) {
  return MappedFile::open(folder.write(name, std::string(kPages, 'x'))).value();
}

std::string read_all(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.size()};
}

TEST(MappingGuard, ACutFileReadsAsZerosAndIsLost) {
  guard_mappings();
  const TempFolder folder;
  const MappedFile cut = open_pages(folder, "cut"), whole = open_pages(folder, "whole");
  std::filesystem::resize_file(cut.path(), 5 * 4096);
  EXPECT_FALSE(cut.share()->lost());
  EXPECT_EQ(cut.bytes()[3 * 4096], std::byte{'x'});  // the rest of the file
  EXPECT_EQ(cut.bytes()[kPages - 1], std::byte{0});
  EXPECT_TRUE(cut.share()->lost());
  EXPECT_EQ(read_all(cut), std::string(kPages, '\0')) << "all of it, so that it does not fault page by page";
  EXPECT_FALSE(whole.share()->lost());
  EXPECT_EQ(read_all(whole), std::string(kPages, 'x'));
  EXPECT_THAT(lost_ranges(), Contains(cut.path()));
  EXPECT_THAT(lost_ranges(), Not(Contains(whole.path())));
}

TEST(MappingGuard, TheNameOfALostRangeOutlivesItUntilItIsForgotten) {
  guard_mappings();
  const TempFolder folder;
  std::string path;
  {
    const MappedFile file = open_pages(folder, "gone");
    path = file.path();
    std::filesystem::resize_file(path, 0);
    EXPECT_EQ(file.bytes()[0], std::byte{0});
  }
  EXPECT_THAT(lost_ranges(), Contains(path));
  forget_lost_ranges();
  EXPECT_THAT(lost_ranges(), Not(Contains(path)));
}

// The place of a range that is gone is taken by the next.
TEST(MappingGuard, ManyRanges) {
  guard_mappings();
  const TempFolder folder;
  const std::string path = folder.write("many", std::string(kPages, 'x'));
  for (int round = 0; round < 2; ++round) {
    std::vector<MappedFile> files;
    for (int i = 0; i < 300; ++i) files.push_back(MappedFile::open(path).value());
    std::filesystem::resize_file(path, 4096);
    for (const MappedFile& file : files) {
      EXPECT_FALSE(file.share()->lost());
      EXPECT_EQ(file.bytes()[kPages - 1], std::byte{0});
      EXPECT_TRUE(file.share()->lost());
    }
    std::filesystem::resize_file(path, kPages);
  }
}

TEST(MappingGuard, ThreadsThatReadAtOnce) {
  guard_mappings();
  const TempFolder folder;
  for (int round = 0; round < 10; ++round) {
    const MappedFile file = open_pages(folder, "shared");
    std::vector<std::thread> readers;
    std::vector<int> found(4);
    std::filesystem::resize_file(file.path(), 4096);
    for (int& zeros : found) {
      readers.emplace_back([&file, &zeros] {
        for (std::size_t at = 4096; at < kPages; at += 4096) zeros += file.bytes()[at] == std::byte{0} ? 1 : 0;
        if (!file.share()->lost()) zeros = -1;
      });
    }
    for (std::thread& reader : readers) reader.join();
    EXPECT_THAT(found, Each(63));
  }
}

// A mapping that is not of this program's files.
const volatile char* map_foreign(const TempFolder& folder) {
  const std::string path = folder.write("foreign", std::string(kPages, 'x'));
  FILE* file = std::fopen(path.c_str(), "r");
  const void* data = ::mmap(nullptr, kPages, PROT_READ, MAP_SHARED, ::fileno(file), 0);
  std::fclose(file);
  std::filesystem::resize_file(path, 0);
  return static_cast<const volatile char*>(data);
}

TEST(MappingGuardDeathTest, OtherFaultsEndTheProcessAsBefore) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const TempFolder folder;
  EXPECT_DEATH((guard_mappings(), map_foreign(folder)[0]), "");
}

TEST(MappingGuardDeathTest, OtherFaultsGoToTheHandlerThatWasThere) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const TempFolder folder;
  const auto fault = [&] {
    std::signal(SIGBUS, [](int) { ::_exit(7); });
    guard_mappings();
    static_cast<void>(map_foreign(folder)[0]);
  };
  EXPECT_EXIT(fault(), ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace sluice::mapping_guard_test
