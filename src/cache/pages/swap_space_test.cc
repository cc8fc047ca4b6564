#include "cache/pages/swap_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <numeric>

#include "base/storage/temp_folder_testing.h"

namespace sluice::swap_space_test {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> image(std::size_t size, int first) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(first + static_cast<int>(i % 251));
  return bytes;
}

// The open files that lie in the folder, by descriptor.
std::vector<int> files_in(const std::string& folder) {
  std::vector<int> files;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.starts_with(folder + "/")) files.push_back(std::stoi(entry.path().filename().string()));
  }
  return files;
}

class SwapSpaceTest : public ::testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<SwapSpace> make(std::size_t bytes) const {
    auto space = SwapSpace::create(bytes, GetParam() ? folder_.path() : "");
    EXPECT_TRUE(space.ok()) << space.status().message();
    return std::move(space).value();
  }
  TempFolder folder_;
};

TEST_P(SwapSpaceTest, GivesBackWhatItTook) {
  const auto space = make(1'000'000);
  const auto first = space->store(image(300'000, 1)), second = space->store(image(5, 2)), third = space->store({});
  ASSERT_TRUE(first.ok() && second.ok() && third.ok());
  EXPECT_EQ(space->bytes_used(), 300'005U);
  EXPECT_EQ(*space->take(*second), image(5, 2));
  EXPECT_EQ(*space->take(*first), image(300'000, 1));
  EXPECT_EQ(space->take(*third)->size(), 0U);
  EXPECT_EQ(space->bytes_used(), 0U);
  EXPECT_TRUE(files_in(folder_.path()).empty());
}

TEST_P(SwapSpaceTest, RefusesWhatDoesNotFitWithTheNumbers) {
  const auto space = make(100);
  const auto held = space->store(image(60, 1));
  EXPECT_TRUE(space->has_room(40));
  EXPECT_FALSE(space->has_room(41));
  const auto refused = space->store(image(41, 1));
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.status().message(), HasSubstr("41 bytes do not fit, 60 of 100 are used"));
  EXPECT_EQ(space->bytes_used(), 60U);
  space->drop(*held);
  EXPECT_EQ(space->bytes_used(), 0U);
  EXPECT_TRUE(space->store(image(100, 1)).ok());
}

TEST_P(SwapSpaceTest, ADroppedPlaceIsUsedAgain) {
  const auto space = make(100);
  const auto first = space->store(image(10, 1));
  const auto second = space->store(image(10, 2));
  space->drop(*first);
  const auto third = space->store(image(10, 3));
  EXPECT_EQ(*third, *first);
  EXPECT_EQ(*space->take(*second), image(10, 2));
  EXPECT_EQ(*space->take(*third), image(10, 3));
  EXPECT_DEATH(space->drop(*third), "an image that is in the swap space");
}

TEST_P(SwapSpaceTest, NothingIsLeftBehind) {
  {
    const auto space = make(1000);
    ASSERT_TRUE(space->store(image(500, 1)).ok());
    EXPECT_EQ(files_in(folder_.path()).size(), GetParam() ? 1U : 0U);
    EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));  // the file has no name
  }
  EXPECT_TRUE(files_in(folder_.path()).empty());
}

TEST_P(SwapSpaceTest, ASpaceOfNoBytesHoldsNothing) {
  EXPECT_FALSE(make(0)->store(image(1, 1)).ok());
}

INSTANTIATE_TEST_SUITE_P(Places, SwapSpaceTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "disk" : "memory"; });

TEST(SwapSpaceDiskTest, AMissingDirectoryIsAnErrorAtOnce) {
  const TempFolder folder;
  for (const std::string& path : {folder.file("none"), folder.write("file", "x")}) {
    const auto space = SwapSpace::create(100, path);
    EXPECT_EQ(space.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(space.status().message(),
                HasSubstr("--swap-dir: expected a directory where files can be made, found '" + path + "'"));
  }
}

TEST(SwapSpaceDiskTest, AnImageThatCannotBeReadBackIsAnErrorAndForgotten) {
  const TempFolder folder;
  const auto space = std::move(SwapSpace::create(1000, folder.path())).value();
  const auto lost = space->store(image(500, 1));
  ASSERT_EQ(files_in(folder.path()).size(), 1U);
  ASSERT_EQ(::ftruncate(files_in(folder.path())[0], 100), 0);
  const auto sound = space->store(image(300, 2));
  const auto bytes = space->take(*lost);
  EXPECT_EQ(bytes.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(bytes.status().message(), HasSubstr("cannot read 500 bytes back (the file is shorter)"));
  EXPECT_EQ(space->bytes_used(), 300U);
  EXPECT_EQ(*space->take(*sound), image(300, 2));
  EXPECT_TRUE(files_in(folder.path()).empty());
}

TEST(SwapSpaceDiskTest, AFolderThatIsGoneIsAFullOne) {
  auto folder = std::make_unique<TempFolder>();
  const auto space = std::move(SwapSpace::create(1000, folder->path())).value();
  folder.reset();
  const auto refused = space->store(image(10, 1));
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(space->bytes_used(), 0U);
}

}  // namespace
}  // namespace sluice::swap_space_test
