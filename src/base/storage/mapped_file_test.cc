#include "base/storage/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <utility>

#include "base/formats/dtype.h"
#include "base/storage/temp_folder_testing.h"

namespace sluice::mapped_file_test {
namespace {

using ::testing::HasSubstr;

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST(MappedFile, MapsTheWholeFile) {
  const TempFolder folder;
  const std::string path = folder.write("a", "hello");
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->size(), 5U);
  EXPECT_EQ(text_of(*file), "hello");
  EXPECT_EQ(file->path(), path);
}

TEST(MappedFile, MovingKeepsTheMapping) {
  const TempFolder folder;
  auto file = MappedFile::open(folder.write("a", "hello"));
  ASSERT_TRUE(file.ok());
  const std::byte* data = file->bytes().data();
  MappedFile moved = std::move(*file);
  EXPECT_EQ(moved.bytes().data(), data);
  EXPECT_EQ(text_of(moved), "hello");
  auto other = MappedFile::open(folder.write("b", "other file"));
  ASSERT_TRUE(other.ok());
  moved = std::move(*other);
  EXPECT_EQ(text_of(moved), "other file");
}

TEST(MappedFile, EmptyFileIsAnEmptySpan) {
  const TempFolder folder;
  auto file = MappedFile::open(folder.write("empty", ""));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->size(), 0U);
  EXPECT_TRUE(file->bytes().empty());
  file->will_need(0, 100);
  file->sequential();
}

TEST(MappedFile, HintsTakeAnyRange) {
  const TempFolder folder;
  auto file = MappedFile::open(folder.write("a", std::string(10000, 'x')));
  ASSERT_TRUE(file.ok());
  file->will_need(5000, 1 << 30);
  file->will_need(20000, 1);
  file->random_access();
  file->dont_need(0, 10000);
  EXPECT_EQ(text_of(*file), std::string(10000, 'x'));
}

TEST(MappedFile, RefusesWhatIsNotAFile) {
  const TempFolder folder;
  const auto missing = MappedFile::open(folder.file("missing"));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(missing.status().message(), HasSubstr("missing: no such file"));
  EXPECT_THAT(MappedFile::open(folder.path()).status().message(), HasSubstr("expected a file, found a folder"));
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(MappedFile::open(pipe).status().message(), HasSubstr("expected a regular file"));
}

TEST(ReadTextFile, ReadsAndLimits) {
  const TempFolder folder;
  const std::string path = folder.write("a", "hello");
  EXPECT_EQ(read_text_file(path).value(), "hello");
  EXPECT_EQ(read_text_file(path, 5).value(), "hello");
  EXPECT_THAT(read_text_file(path, 4).status().message(), HasSubstr("expected at most 4 bytes, found 5"));
  EXPECT_EQ(read_text_file(folder.file("b")).status().code(), StatusCode::kNotFound);
}

TEST(DType, BlockTypesAreNotOfSafetensors) {
  for (int i = kDTypeCount; i < kDTypeCount + kBlockDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_TRUE(is_block_dtype(dtype));
    EXPECT_EQ(dtype_from_name(dtype_name(dtype)), std::nullopt);
    EXPECT_GE(dtype_block(dtype).elements, 32);
    EXPECT_EQ(dtype_alignment(dtype), 1);
  }
  EXPECT_EQ(dtype_block(DType::kQ6_K).bytes, 210);
  EXPECT_EQ(dtype_block(DType::kF4).elements, 2);
}

TEST(DType, NamesReadBack) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_name(dtype_name(dtype)), dtype);
    EXPECT_GE(dtype_bits(dtype), 4);
    EXPECT_EQ(dtype_bits(dtype) >= 8 ? dtype_bits(dtype) : 8, dtype_alignment(dtype) * 8);
  }
  EXPECT_EQ(dtype_from_name("F8_E4M3"), DType::kF8E4M3);
  EXPECT_EQ(dtype_from_name("bf16"), std::nullopt);
}

}  // namespace
}  // namespace sluice::mapped_file_test
