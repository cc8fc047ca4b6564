#include "files/gguf/gguf_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/storage/temp_folder_testing.h"
#include "base/test_seed_testing.h"
#include "files/gguf/gguf_testing.h"

namespace sluice::gguf_file_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::uint32_t kF32 = 0, kQ8_0 = 8, kQ4_K = 12, kI32 = 26;

// The message of reading these bytes, or "(accepted)". Reads every byte of every tensor, so that a sanitizer sees a
// view that leaves its file.
std::string error_of(std::string_view bytes) {
  const AlignedText text(bytes);
  const auto file = GgufFile::parse(text.bytes(), "x.gguf");
  if (!file.ok()) return file.status().message();
  unsigned sum = 0;
  for (const TensorView& tensor : (*file)->tensors()) {
    for (std::size_t i = 0; i < tensor.bytes; ++i) sum += static_cast<unsigned>(tensor.data[i]);
  }
  for (const auto& [key, value] : (*file)->metadata()) sum += static_cast<unsigned>(describe_gguf(&value).size());
  return sum == ~0U ? "" : "(accepted)";
}
std::string error_of(const GgufBuilder& builder) {
  return error_of(builder.bytes());
}

template <class T>
T value_of(const GgufMetadata& metadata, std::string_view key) {
  const auto found = metadata.find(key);
  if (found == metadata.end() || !std::holds_alternative<T>(found->second)) {
    ADD_FAILURE() << key << ": " << describe_gguf(found == metadata.end() ? nullptr : &found->second);
    return T{};
  }
  return std::get<T>(found->second);
}

TEST(GgufFile, ReadsValuesOfEveryType) {
  GgufBuilder b;
  b.entry("u8", GgufType::kUint8, "\xFF").entry("i8", GgufType::kInt8, "\xFF");
  b.entry("u16", GgufType::kUint16, "\xFE\xFF").entry("i16", GgufType::kInt16, "\xFE\xFF");
  b.u32("u32", 4000000000U).entry("i32", GgufType::kInt32, GgufBuilder::number(-5));
  b.entry("u64", GgufType::kUint64, GgufBuilder::number(~std::uint64_t{0}));
  b.entry("i64", GgufType::kInt64, GgufBuilder::number(std::int64_t{-7}));
  b.f32("f32", 1e-6F).entry("f64", GgufType::kFloat64, GgufBuilder::number(0.1));
  b.entry("yes", GgufType::kBool, "\x01").entry("no", GgufType::kBool, std::string_view("\0", 1));
  b.str("text", "Grüße").str("empty", "");
  b.entry("numbers", GgufType::kArray,
          GgufBuilder::array(GgufType::kInt32, 2, GgufBuilder::number(3) + GgufBuilder::number(-4)));
  b.entry("texts", GgufType::kArray, GgufBuilder::texts({"a", "", "bc"}));
  b.entry("nested", GgufType::kArray,
          GgufBuilder::array(GgufType::kArray, 2, GgufBuilder::texts({"x"}) + GgufBuilder::texts({})));
  const AlignedText text(b.bytes());
  const auto file = GgufFile::parse(text.bytes(), "x.gguf");
  ASSERT_TRUE(file.ok()) << file.status().message();
  const GgufMetadata& m = (*file)->metadata();
  EXPECT_EQ(m.size(), 17U);
  EXPECT_EQ(value_of<std::uint64_t>(m, "u8"), 255U);
  EXPECT_EQ(value_of<std::int64_t>(m, "i8"), -1);
  EXPECT_EQ(value_of<std::uint64_t>(m, "u16"), 65534U);
  EXPECT_EQ(value_of<std::int64_t>(m, "i16"), -2);
  EXPECT_EQ(value_of<std::uint64_t>(m, "u32"), 4000000000U);
  EXPECT_EQ(value_of<std::int64_t>(m, "i32"), -5);
  EXPECT_EQ(value_of<std::uint64_t>(m, "u64"), ~std::uint64_t{0});
  EXPECT_EQ(value_of<std::int64_t>(m, "i64"), -7);
  EXPECT_EQ(value_of<float>(m, "f32"), 1e-6F);
  EXPECT_EQ(value_of<double>(m, "f64"), 0.1);
  EXPECT_TRUE(value_of<bool>(m, "yes"));
  EXPECT_FALSE(value_of<bool>(m, "no"));
  EXPECT_EQ(value_of<std::string_view>(m, "text"), "Grüße");
  EXPECT_EQ(value_of<std::string_view>(m, "empty"), "");
  const auto numbers = value_of<GgufArray>(m, "numbers");
  ASSERT_EQ(numbers.size, 2U);
  EXPECT_EQ(std::get<std::int64_t>(gguf_element(numbers, 1)), -4);
  EXPECT_THAT(value_of<GgufArray>(m, "texts").strings, ::testing::ElementsAre("a", "", "bc"));
  EXPECT_EQ(value_of<GgufArray>(m, "nested").size, 2U);
  EXPECT_EQ(describe_gguf(&m.at("nested")), "an array of 2 array values");
  EXPECT_EQ(describe_gguf(&m.at("text")), "\"Grüße\"");
}

TEST(GgufFile, ReadsTensorsInRowMajorOrder) {
  const TempFolder folder;
  GgufBuilder b;
  b.alignment(64).tensor("w", {32, 3}, kQ8_0, std::string(3 * 34, 'w')).tensor("ids", {2}, kI32, "AAAABBBB");
  b.tensor("a", {}, kF32, "aaaa").tensor("none", {0, 5}, kF32, "");
  const auto file = GgufFile::open(folder.write("m.gguf", b.bytes()));
  ASSERT_TRUE(file.ok()) << file.status().message();
  const auto& tensors = (*file)->tensors();
  ASSERT_EQ(tensors.size(), 4U);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_EQ(tensors[0].elements(), 1);
  EXPECT_EQ(tensors[1].name, "ids");
  EXPECT_EQ(tensors[1].dtype, DType::kI32);
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(tensors[1].data), tensors[1].bytes), "AAAABBBB");
  EXPECT_EQ(shape_text(tensors[2].shape), "[5, 0]");
  EXPECT_NE(tensors[2].data, nullptr);
  EXPECT_EQ(shape_text(tensors[3].shape), "[3, 32]");
  EXPECT_EQ(tensors[3].dtype, DType::kQ8_0);
  EXPECT_EQ(tensors[3].bytes, 102U);
  EXPECT_EQ(tensors[3].file, "m.gguf");
}

TEST(GgufFile, RefusesWrongHeaders) {
  EXPECT_EQ(error_of(GgufBuilder()), "(accepted)");
  EXPECT_THAT(error_of(""), HasSubstr("x.gguf: expected a file that begins with \"GGUF\""));
  EXPECT_THAT(error_of("GGML1234567890123456789012345"), HasSubstr("no GGUF file"));
  EXPECT_THAT(error_of("GGUF\x03"), HasSubstr("offset 4: expected 4 bytes of the version, found only 1"));
  EXPECT_THAT(error_of(GgufBuilder().version(2)), HasSubstr("expected GGUF version 3, found 2"));
  EXPECT_THAT(error_of(GgufBuilder().version(0x03000000)), HasSubstr("found 3 in big-endian byte order"));
  EXPECT_THAT(error_of(GgufBuilder().counts(1, 0)), HasSubstr("offset 8: expected at most 0 tensors"));
  EXPECT_THAT(error_of(GgufBuilder().counts(0, ~std::uint64_t{0})), HasSubstr("found 18446744073709551615"));
  EXPECT_EQ(GgufFile::open("/nonexistent/x.gguf").status().code(), StatusCode::kNotFound);
}

TEST(GgufFile, RefusesWrongMetadata) {
  const auto array = [](GgufType type, std::uint64_t count, std::string_view elements) {
    return error_of(GgufBuilder().entry("k", GgufType::kArray, GgufBuilder::array(type, count, elements)));
  };
  EXPECT_THAT(error_of(GgufBuilder().u32("k", 1).u32("k", 1)), HasSubstr("key 'k': expected keys that differ"));
  EXPECT_THAT(error_of(GgufBuilder().u32("", 1)), HasSubstr("expected a key of 1 to 65535 bytes"));
  EXPECT_THAT(error_of(GgufBuilder().u32("a\nb", 1)), HasSubstr("without control characters, found \"a\\nb\""));
  EXPECT_THAT(error_of(GgufBuilder().u32("\xFF", 1)), HasSubstr("expected a key in UTF-8"));
  EXPECT_THAT(error_of(GgufBuilder().str("k", "\xC3")), HasSubstr("key 'k': offset 37: expected a string in UTF-8"));
  EXPECT_THAT(error_of(GgufBuilder().entry("k", static_cast<GgufType>(13), "xxxx")),
              HasSubstr("expected a value type from 0 to 12, found 13"));
  EXPECT_THAT(error_of(GgufBuilder().entry("k", GgufType::kBool, "\x02")),
              HasSubstr("offset 37: expected a boolean, 0 or 1, found 2"));
  EXPECT_THAT(error_of(GgufBuilder().entry("k", GgufType::kString, GgufBuilder::number(~std::uint64_t{0}))),
              HasSubstr("expected 18446744073709551615 bytes of a string, found only"));
  EXPECT_THAT(array(GgufType::kUint64, std::uint64_t{1} << 61, "xxxxxxxx"), HasSubstr("array elements in the"));
  EXPECT_THAT(array(GgufType::kString, 1000, std::string(7000, 'x')), HasSubstr("array elements in the 70"));
  EXPECT_THAT(array(GgufType::kBool, 2, "\x01\x07"), HasSubstr("expected a boolean, 0 or 1, found 7"));
  EXPECT_THAT(array(static_cast<GgufType>(99), 0, ""), HasSubstr("found 99"));
  std::string nested = GgufBuilder::texts({"x"});
  for (int depth = 1; depth < 4; ++depth) nested = GgufBuilder::array(GgufType::kArray, 1, nested);
  EXPECT_EQ(error_of(GgufBuilder().entry("k", GgufType::kArray, nested)), "(accepted)");
  nested = GgufBuilder::array(GgufType::kArray, 1, nested);
  EXPECT_THAT(error_of(GgufBuilder().entry("k", GgufType::kArray, nested)), HasSubstr("nested at most 4 deep"));
}

TEST(GgufFile, RefusesWrongTensors) {
  const std::string data(256, 'd');
  EXPECT_EQ(error_of(GgufBuilder().tensor("t", {64}, kF32, data)), "(accepted)");
  EXPECT_THAT(error_of(GgufBuilder().tensor("t", {65}, kF32, data)),
              HasSubstr("tensor t: expected 260 bytes for F32 [65] at offset 0 of the data, found 256"));
  EXPECT_THAT(error_of(GgufBuilder().tensor("t", {64}, kF32, data).tensor("t", {1}, kF32, data)),
              HasSubstr("tensor t: expected names that differ"));
  EXPECT_THAT(error_of(GgufBuilder().tensor("a", {64}, kF32, data).tensor_at("b", {1}, kF32, 32)),
              HasSubstr("tensors a and b overlap"));
  EXPECT_THAT(error_of(GgufBuilder().tensor_at("t", {1}, kF32, 4)),
              HasSubstr("tensor t: expected an offset that is a multiple of 32, found 4"));
  EXPECT_THAT(error_of(GgufBuilder().tensor_at("t", {1}, kF32, ~std::uint64_t{31})), HasSubstr("truncated or damaged"));
  EXPECT_THAT(error_of(GgufBuilder().tensor("t", {1, 1, 1, 1, 1}, kF32, data)), HasSubstr("at most 4 dimensions"));
  EXPECT_THAT(error_of(GgufBuilder().tensor("t", {~std::uint64_t{0}}, kF32, data)), HasSubstr("below 2^63"));
  EXPECT_THAT(error_of(GgufBuilder().tensor("t", {1U << 31, 1U << 31, 4}, kF32, data)), HasSubstr("exceeds 2^63"));
  EXPECT_THAT(error_of(GgufBuilder().tensor("t", {1U << 31, 1U << 31, 4, 0}, kF32, data)), HasSubstr("exceeds 2^63"));
  EXPECT_THAT(error_of(GgufBuilder().tensor("t", {32, 8}, kQ4_K, data)),
              HasSubstr("expected rows of whole Q4_K blocks of 256 elements"));
  EXPECT_THAT(error_of(GgufBuilder().tensor("t", {}, kQ8_0, data)), HasSubstr("whole Q8_0 blocks"));
  EXPECT_THAT(error_of(GgufBuilder().tensor("t", {32}, 99, data)),
              AllOf(HasSubstr("expected one of the types F32 (0), F16 (1)"), HasSubstr("found type 99")));
  EXPECT_THAT(error_of(GgufBuilder().tensor("t", {256}, 16, data)),
              HasSubstr("found IQ2_XXS (16); use a file of another quantisation"));
  EXPECT_THAT(error_of(GgufBuilder().tensor("", {1}, kF32, data)), HasSubstr("expected a tensor name of 1 to 63"));
  EXPECT_EQ(error_of(GgufBuilder().tensor(std::string(63, 'n'), {1}, kF32, data)), "(accepted)");
  EXPECT_THAT(error_of(GgufBuilder().tensor(std::string(64, 'n'), {1}, kF32, data)), HasSubstr("1 to 63 bytes"));
}

TEST(GgufFile, RefusesWrongAlignments) {
  for (const std::uint32_t alignment : {0U, 1U, 4U, 24U, 33U}) {
    EXPECT_THAT(error_of(GgufBuilder().u32("general.alignment", alignment)),
                HasSubstr("key 'general.alignment': expected a power of two from 8"))
        << alignment;
  }
  EXPECT_THAT(error_of(GgufBuilder().str("general.alignment", "32")), HasSubstr("found \"32\""));
  EXPECT_EQ(error_of(GgufBuilder().alignment(8).tensor("t", {1}, kF32, "xxxx")), "(accepted)");
  EXPECT_THAT(error_of(GgufBuilder().u32("general.alignment", 1U << 31).tensor("t", {1}, kF32, "xxxx")),
              HasSubstr("found 0 bytes of data"));
}

TEST(GgufFile, EveryTruncationIsRefusedOrHarmless) {
  GgufBuilder b;
  b.str("general.architecture", "llama").entry("a", GgufType::kArray, GgufBuilder::texts({"one", "two"}));
  b.tensor("t", {32, 2}, kQ8_0, std::string(68, 't')).tensor("u", {3}, kF32, std::string(12, 'u'));
  const std::string whole = b.bytes();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string error = error_of(whole.substr(0, size));
    // After the last tensor's bytes there is only padding.
    EXPECT_EQ(error == "(accepted)", size >= whole.size() - 20) << size << ": " << error;
  }
}

TEST(GgufFile, DamagedFilesNeverReadOutside) {
  GgufBuilder b;
  b.str("general.architecture", "llama").u32("general.alignment", 32);
  b.entry("a", GgufType::kArray, GgufBuilder::array(GgufType::kArray, 1, GgufBuilder::texts({"one", "two"})));
  b.tensor("t", {32, 2}, kQ8_0, std::string(68, 't')).tensor("u", {3}, kF32, std::string(12, 'u'));
  const std::string whole = b.bytes();
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 rng(seed);
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = whole;
    for (unsigned changes = rng() % 4 + 1; changes > 0; --changes) {
      bytes[rng() % bytes.size()] = static_cast<char>(rng() % 2 == 0 ? rng() : (rng() % 2 == 0 ? 0xFF : 0));
    }
    accepted += error_of(bytes) == "(accepted)";
  }
  EXPECT_GT(accepted, 100);
}

TEST(GgufModel, OpensSplitModelsFromTheirFirstFile) {
  const TempFolder folder;
  const auto part = [&](int no, int count, const std::string& tensor, int in_all = 3) {
    GgufBuilder b;
    if (no == 0) b.str("general.architecture", "llama");
    b.entry("split.no", GgufType::kUint16, GgufBuilder::number(static_cast<std::uint16_t>(no)));
    b.entry("split.count", GgufType::kUint16, GgufBuilder::number(static_cast<std::uint16_t>(count)));
    b.entry("split.tensors.count", GgufType::kInt32, GgufBuilder::number(in_all));
    return b.tensor(tensor, {1}, kF32, "xxxx").bytes();
  };
  const auto error = [&](const std::string& name) {
    const auto model = GgufModel::open(folder.file(name));
    return model.ok() ? "(accepted)" : model.status().message();
  };
  const std::string first = folder.write("m-00001-of-00003.gguf", part(0, 3, "b"));
  folder.write("m-00002-of-00003.gguf", part(1, 3, "c"));
  EXPECT_THAT(error("m-00001-of-00003.gguf"), HasSubstr("m-00003-of-00003.gguf: no such file"));
  folder.write("m-00003-of-00003.gguf", part(2, 3, "a"));
  const auto model = GgufModel::open(first);
  ASSERT_TRUE(model.ok()) << model.status().message();
  ASSERT_EQ((*model)->tensors().size(), 3U);
  EXPECT_EQ((*model)->tensors()[0]->name, "a");
  EXPECT_EQ((*model)->find("a")->file, "m-00003-of-00003.gguf");
  EXPECT_EQ((*model)->find("d"), nullptr);
  EXPECT_EQ(value_of<std::string_view>((*model)->metadata(), "general.architecture"), "llama");

  EXPECT_THAT(error("m-00002-of-00003.gguf"), HasSubstr("open the first file of the model"));
  folder.write("m-00003-of-00003.gguf", part(2, 3, "c"));
  EXPECT_THAT(error("m-00001-of-00003.gguf"), HasSubstr("tensor c: expected in one file, found in m-00002"));
  folder.write("m-00003-of-00003.gguf", part(1, 3, "a"));
  EXPECT_THAT(error("m-00001-of-00003.gguf"), HasSubstr("expected file 3 of 3 (split.no 2, split.count 3), found"));
  folder.write("m-00003-of-00003.gguf", GgufBuilder().bytes());
  EXPECT_THAT(error("m-00001-of-00003.gguf"), HasSubstr("found split.no nothing"));
  folder.write("m-00003-of-00003.gguf", part(2, 3, "a"));
  folder.write("m-00001-of-00003.gguf", part(0, 3, "b", 4));
  EXPECT_THAT(error("m-00001-of-00003.gguf"), HasSubstr("in all 3 files, 3, found 4"));
  folder.write("other.gguf", part(0, 3, "b"));
  EXPECT_THAT(error("other.gguf"), HasSubstr("expected a name that ends in -00001-of-00003.gguf"));
  folder.write("one.gguf", part(0, 1, "b", 1));
  EXPECT_EQ(error("one.gguf"), "(accepted)");
}

}  // namespace
}  // namespace sluice::gguf_file_test
