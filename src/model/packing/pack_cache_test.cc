// The packed form of weights on disk: found again, never when anything has changed, and never harmed by what happens
// to the processes and the disk.
#include "model/packing/pack_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "base/storage/temp_folder_testing.h"

namespace sluice::pack_cache_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

PackedKey key_of(int i) {
  PackedKey key{};
  key[0] = static_cast<std::uint8_t>(i);
  return key;
}

std::vector<std::byte> random_bytes(std::size_t count) {
  std::mt19937_64 random(count);
  std::vector<std::byte> bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// Two parts and a piece.
constexpr std::size_t kBytes = 2 * PackedFileWriter::kPart + 12345;

class PackCacheTest : public ::testing::Test {
 protected:
  PackCache cache() const { return PackCache::open(folder_.file("packed")).value(); }
  void keep(int key, const std::vector<std::byte>& bytes, bool valid = true) const {
    const PackKeeper keeper(cache(), key_of(key), bytes, [valid] { return valid; });
  }
  Result<PackedFile> find(int key, std::size_t bytes = kBytes) { return cache().find(key_of(key), bytes, pool_, {}); }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.file("packed"))) names.push_back(entry.path().filename());
    return names;
  }
  static bool equal(const Result<PackedFile>& found, const std::vector<std::byte>& bytes) {
    return found.ok() && std::ranges::equal(found.value().bytes(), bytes);
  }

  TempFolder folder_;
  ThreadPool pool_{2};
};

TEST_F(PackCacheTest, FindsWhatWasKept) {
  const auto bytes = random_bytes(kBytes);
  EXPECT_EQ(find(1).status().code(), StatusCode::kNotFound);
  keep(1, bytes);
  EXPECT_TRUE(equal(find(1), bytes));
  EXPECT_EQ(find(2).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(names().size(), 1U);
}

TEST_F(PackCacheTest, KeepsThoseUsedLast) {
  const auto bytes = random_bytes(kBytes);
  for (const int key : {1, 2}) keep(key, bytes);
  EXPECT_TRUE(find(1).ok());
  keep(3, bytes);
  EXPECT_TRUE(find(1).ok());
  EXPECT_FALSE(find(2).ok());
  EXPECT_TRUE(find(3).ok());
}

TEST_F(PackCacheTest, ADamagedFileIsRemovedAndWrittenAgain) {
  const auto bytes = random_bytes(kBytes);
  keep(1, bytes);
  const std::string path = cache().path_of(key_of(1));
  const auto size = fs::file_size(path);
  // A bit of the header, of each part, of the checksums.
  for (const std::size_t at : {std::size_t{9}, std::size_t{2} << 20, (std::size_t{2} << 20) + kBytes - 1, size - 20}) {
    {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(static_cast<std::streamoff>(at));
      const char changed = static_cast<char>(file.get() ^ 1);
      file.seekp(static_cast<std::streamoff>(at));
      file.put(changed);
    }
    EXPECT_EQ(find(1).status().code(), StatusCode::kInvalidArgument) << at;
    EXPECT_FALSE(fs::exists(path));
    keep(1, bytes);
    EXPECT_TRUE(equal(find(1), bytes));
  }
  fs::resize_file(path, size - 1);
  EXPECT_THAT(find(1).status().message(), HasSubstr("expected"));
  EXPECT_EQ(find(1).status().code(), StatusCode::kNotFound);
  keep(1, bytes);
  EXPECT_EQ(find(1, kBytes - 1).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(PackCacheTest, FilesThatChangedMeanwhileLeaveNothing) {
  keep(1, random_bytes(kBytes), /*valid=*/false);
  EXPECT_TRUE(names().empty());
}

// Runs `child` in a process of its own and returns how it ended.
template <class Child>
int status_of(const Child& child) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    child();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return status;
}

TEST_F(PackCacheTest, AKillInTheMiddleLeavesNothing) {
  const auto bytes = random_bytes(kBytes);
  const PackCache here = cache();
  const int status = status_of([&] {
    auto writer = PackedFileWriter::create(here.making_path_of(key_of(1)), key_of(1), kBytes);
    if (!writer.ok() || !writer.value()->write(std::span(bytes).first(PackedFileWriter::kPart)).ok()) ::_exit(1);
    ::kill(::getpid(), SIGKILL);
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(names().size(), 1U);  // the unfinished file
  EXPECT_EQ(find(1).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(names().empty());
  keep(1, bytes);
  EXPECT_TRUE(equal(find(1), bytes));
}

TEST_F(PackCacheTest, OneOfTwoStartsAtOnceWritesIt) {
  const auto bytes = random_bytes(kBytes);
  const PackCache here = cache();
  auto first = PackedFileWriter::create(here.making_path_of(key_of(1)), key_of(1), kBytes);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(PackedFileWriter::create(here.making_path_of(key_of(1)), key_of(1), kBytes).status().code(),
            StatusCode::kUnavailable);
  keep(1, bytes);  // gives up; opening the cache for it did not remove the file of the first
  for (std::size_t at = 0; at < kBytes; at += PackedFileWriter::kPart) {
    ASSERT_TRUE(
        first.value()->write(std::span(bytes).subspan(at, std::min(PackedFileWriter::kPart, kBytes - at))).ok());
  }
  ASSERT_TRUE(first.value()->finish(here.path_of(key_of(1))).ok());
  first.value().reset();
  EXPECT_TRUE(equal(find(1), bytes));
}

TEST_F(PackCacheTest, ManyStartsAtOnceEndWithAWholeFile) {
  const auto bytes = random_bytes(kBytes);
  std::vector<std::thread> starts;
  for (int i = 0; i < 6; ++i) {
    starts.emplace_back([&] {
      ThreadPool pool(1);
      for (int round = 0; round < 4; ++round) {
        const auto found = cache().find(key_of(1), kBytes, pool, {});
        EXPECT_TRUE(equal(found, bytes) || found.status().code() == StatusCode::kNotFound) << found.status().message();
        keep(1, bytes);
      }
    });
  }
  for (auto& start : starts) start.join();
  EXPECT_TRUE(equal(find(1), bytes));
  EXPECT_EQ(names().size(), 1U);
}

TEST_F(PackCacheTest, AFullDiskLeavesNothingAndEndsNothing) {
  const auto bytes = random_bytes(kBytes);
  const int status = status_of([&] {
    const rlimit limit{PackedFileWriter::kPart, PackedFileWriter::kPart};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    keep(1, bytes);
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(names().empty());
}

TEST_F(PackCacheTest, LeavesRoomOnTheDisk) {
  const auto bytes = random_bytes(1000);
  keep(1, bytes);
  EXPECT_TRUE(cache().make_room(key_of(2), 1000).ok());
  const Status none = cache().make_room(key_of(2), std::size_t{1} << 60);
  EXPECT_EQ(none.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(none.message(), HasSubstr("to spare, found"));
  EXPECT_FALSE(find(1, 1000).ok());  // it went first
}

}  // namespace
}  // namespace sluice::pack_cache_test
