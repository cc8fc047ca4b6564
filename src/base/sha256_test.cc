#include "base/sha256.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/storage/temp_folder_testing.h"

namespace sluice::sha256_test {
namespace {

// FIPS 180-4, examples.
TEST(Sha256Test, KnownDigests) {
  Sha256 hasher;
  hasher.add("abc", 3);
  EXPECT_EQ(to_hex(hasher.finish()), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  hasher.begin();
  EXPECT_EQ(to_hex(hasher.finish()), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256Test, OfAFile) {
  const TempFolder folder;
  const std::string path = folder.path() + "/file";
  std::ofstream(path) << "abc";
  const auto digest = sha256_of_file(path);
  ASSERT_TRUE(digest.ok());
  EXPECT_EQ(*digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_FALSE(sha256_of_file(folder.path() + "/none").ok());
}

}  // namespace
}  // namespace sluice::sha256_test
