#include "files/safetensors.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/storage/temp_folder_testing.h"

namespace sluice::safetensors_test {
namespace {

using ::testing::HasSubstr;

std::string with_header(std::string_view header, std::string_view payload) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes.append(header).append(payload);
}

// The message of opening a file with these bytes, or "(accepted)".
std::string error_of(const TempFolder& folder, std::string_view bytes) {
  const auto file = SafetensorsFile::open(folder.write("x.safetensors", bytes));
  return file.ok() ? "(accepted)" : file.status().message();
}

// One tensor "t" with this entry over 16 bytes of payload.
std::string error_of_entry(const TempFolder& folder, std::string_view entry) {
  return error_of(folder, with_header(fmt::format(R"({{"t":{}}})", entry), std::string(16, 'p')));
}

// Reads every byte of every tensor, so that a sanitizer sees a view that leaves its file.
unsigned touch(const SafetensorsFile& file) {
  unsigned sum = 0;
  for (const TensorView& tensor : file.tensors()) {
    const auto* data = reinterpret_cast<const unsigned char*>(tensor.data);
    for (std::size_t i = 0; i < tensor.bytes; ++i) sum += data[i];
    sum += static_cast<unsigned>(tensor.elements());
  }
  return sum;
}

TEST(Safetensors, ReadsTensorsAndMetadata) {
  const TempFolder folder;
  const std::string path = folder.write(
      "m.safetensors",
      with_header(R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},)"
                  R"("a":{"dtype":"U8","shape":[],"data_offsets":[12,13]},)"
                  R"("none":{"dtype":"F32","shape":[4,0],"data_offsets":[13,13]},)"
                  R"("fp4":{"dtype":"F4","shape":[1,6],"data_offsets":[13,16]}}   )",
                  "0123456789ABCDEF"));
  auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ((*file)->tensors().size(), 4U);
  EXPECT_EQ((*file)->tensors()[0].name, "a");
  const TensorView* b = (*file)->find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->dtype, DType::kBF16);
  EXPECT_EQ(shape_text(b->shape), "[2, 3]");
  EXPECT_EQ(b->elements(), 6);
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(b->data), b->bytes), "0123456789AB");
  EXPECT_EQ(b->file, "m.safetensors");
  EXPECT_EQ((*file)->find("a")->elements(), 1);
  EXPECT_EQ((*file)->find("none")->bytes, 0U);
  EXPECT_NE((*file)->find("none")->data, nullptr);
  EXPECT_EQ((*file)->find("fp4")->bytes, 3U);
  EXPECT_EQ((*file)->find("c"), nullptr);
  EXPECT_EQ((*file)->metadata().at("format"), "pt");
}

TEST(Safetensors, ScalesStayRawBytes) {
  const TempFolder folder;
  std::string codes;
  for (int i = 0; i < 256; ++i) codes.push_back(static_cast<char>(i));
  auto file = SafetensorsFile::open(folder.write(
      "s.safetensors", with_header(R"({"s":{"dtype":"F8_E8M0","shape":[16,16],"data_offsets":[0,256]}})", codes)));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(std::memcmp((*file)->find("s")->data, codes.data(), 256), 0);
}

TEST(Safetensors, MisplacedTensorsAreAlignedCopies) {
  const TempFolder folder;
  const float numbers[2] = {1.5F, -2.0F};
  std::string payload(1, 'x');
  payload.append(reinterpret_cast<const char*>(numbers), sizeof(numbers));
  auto file = SafetensorsFile::open(
      folder.write("a.safetensors", with_header(R"({"f":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}})", payload)));
  ASSERT_TRUE(file.ok());
  const TensorView* tensor = (*file)->find("f");
  ASSERT_EQ(reinterpret_cast<std::uintptr_t>(tensor->data) % alignof(float), 0U);
  EXPECT_EQ(std::memcmp(tensor->data, numbers, sizeof(numbers)), 0);
}

TEST(Safetensors, EmptyTablesAreFine) {
  const TempFolder folder;
  EXPECT_EQ(error_of(folder, with_header("{}", "")), "(accepted)");
  EXPECT_EQ(error_of(folder, with_header(R"({"t":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})", "")),
            "(accepted)");
}

TEST(Safetensors, RefusesDamagedFiles) {
  const TempFolder folder;
  EXPECT_THAT(error_of(folder, ""), HasSubstr("expected a safetensors file, found only 0 bytes"));
  EXPECT_THAT(error_of(folder, "1234567"), HasSubstr("found only 7 bytes"));
  EXPECT_THAT(error_of(folder, std::string(8, '\xFF') + "{}"), HasSubstr("found a length of 18446744073709551615"));
  EXPECT_THAT(error_of(folder, with_header("{}", "").substr(0, 9)), HasSubstr("truncated"));
  EXPECT_THAT(error_of(folder, with_header("", "")), HasSubstr("expected a header that begins with '{'"));
  EXPECT_THAT(error_of(folder, with_header("[1]", "")), HasSubstr("expected a header that begins with '{'"));
  EXPECT_THAT(error_of(folder, with_header("{\"a\":}", "")), HasSubstr("header: line 1, column 6"));
  EXPECT_THAT(error_of(folder, with_header("{}x", "")), HasSubstr("unexpected text"));
  EXPECT_THAT(error_of(folder, with_header(R"({"a":{},"a":{}})", "")), HasSubstr("duplicate key \"a\""));
  EXPECT_THAT(error_of(folder, with_header(R"({"__metadata__":{"a":1}})", "")), HasSubstr("__metadata__"));
  EXPECT_THAT(error_of(folder, with_header(R"({"t":3})", "")), HasSubstr("tensor t: expected an object, found 3"));
  EXPECT_EQ(SafetensorsFile::open(folder.file("no")).status().code(), StatusCode::kNotFound);
}

TEST(Safetensors, RefusesWrongEntries) {
  const TempFolder folder;
  const auto error = [&](std::string_view entry) { return error_of_entry(folder, entry); };
  EXPECT_EQ(error(R"({"dtype":"F32","shape":[4],"data_offsets":[0,16]})"), "(accepted)");
  EXPECT_THAT(error(R"({"dtype":"F33","shape":[4],"data_offsets":[0,16]})"),
              HasSubstr("tensor t: key 'dtype': expected one of BOOL"));
  EXPECT_THAT(error(R"({"dtype":"F33","shape":[4],"data_offsets":[0,16]})"), HasSubstr("found \"F33\""));
  EXPECT_THAT(error(R"({"dtype":7,"shape":[4],"data_offsets":[0,16]})"), HasSubstr("'dtype'"));
  EXPECT_THAT(error(R"({"shape":[4],"data_offsets":[0,16]})"), HasSubstr("found nothing"));
  EXPECT_THAT(error(R"({"dtype":"F32","data_offsets":[0,16]})"), HasSubstr("'shape'"));
  EXPECT_THAT(error(R"({"dtype":"F32","shape":4,"data_offsets":[0,16]})"), HasSubstr("found 4"));
  EXPECT_THAT(error(R"({"dtype":"F32","shape":[-4],"data_offsets":[0,16]})"), HasSubstr("found [-4]"));
  EXPECT_THAT(error(R"({"dtype":"F32","shape":[4.0],"data_offsets":[0,16]})"), HasSubstr("found [4.0]"));
  EXPECT_THAT(error(R"({"dtype":"F32","shape":[4]})"), HasSubstr("'data_offsets'"));
  EXPECT_THAT(error(R"({"dtype":"F32","shape":[4],"data_offsets":[0]})"), HasSubstr("expected data_offsets"));
  EXPECT_THAT(error(R"({"dtype":"F32","shape":[4],"data_offsets":[16,0]})"), HasSubstr("found [16, 0]"));
  EXPECT_THAT(error(R"({"dtype":"F32","shape":[4],"data_offsets":[4,20]})"), HasSubstr("end <= 16, found [4, 20]"));
  EXPECT_THAT(error(R"({"dtype":"F32","shape":[3],"data_offsets":[0,16]})"),
              HasSubstr("expected 12 bytes for F32 [3], found data_offsets of 16"));
  EXPECT_THAT(error(R"({"dtype":"F4","shape":[3],"data_offsets":[0,2]})"), HasSubstr("do not fill whole bytes"));
  EXPECT_THAT(error(R"({"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]})"),
              HasSubstr("at most 16 dimensions"));
}

TEST(Safetensors, RefusesOverflows) {
  const TempFolder folder;
  const auto error = [&](std::string_view entry) { return error_of_entry(folder, entry); };
  EXPECT_THAT(error(R"({"dtype":"F32","shape":[4],"data_offsets":[9223372036854775808,9223372036854775824]})"),
              HasSubstr("end <= 16"));
  EXPECT_THAT(error(R"({"dtype":"F32","shape":[4],"data_offsets":[18446744073709551600,18446744073709551615]})"),
              HasSubstr("end <= 16"));
  EXPECT_THAT(error(R"({"dtype":"F32","shape":[4],"data_offsets":[0,36893488147419103248]})"),
              HasSubstr("data_offsets"));
  EXPECT_THAT(error(R"({"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,16]})"), HasSubstr("below 2^63"));
  EXPECT_THAT(error(R"({"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]})"),
              HasSubstr("exceeds 2^63"));
  EXPECT_THAT(error(R"({"dtype":"F32","shape":[4611686018427387908],"data_offsets":[0,16]})"),
              HasSubstr("exceeds 2^63"));
  EXPECT_THAT(error(R"({"dtype":"U8","shape":[4294967296,0,4294967296],"data_offsets":[0,0]})"),
              HasSubstr("exceeds 2^63"));
}

TEST(Safetensors, RefusesOverlapsAndToleratesHoles) {
  const TempFolder folder;
  const auto two = [](int begin, int end) {
    return with_header(fmt::format(R"({{"a":{{"dtype":"U8","shape":[8],"data_offsets":[0,8]}},)"
                                   R"("b":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}}}})",
                                   end - begin, begin, end),
                       std::string(16, 'p'));
  };
  EXPECT_EQ(error_of(folder, two(8, 16)), "(accepted)");
  EXPECT_EQ(error_of(folder, two(12, 14)), "(accepted)");
  EXPECT_EQ(error_of(folder, two(4, 4)), "(accepted)");
  EXPECT_THAT(error_of(folder, two(7, 16)), HasSubstr("tensors a and b overlap"));
  EXPECT_THAT(error_of(folder, two(0, 8)), HasSubstr("overlap"));
  EXPECT_THAT(error_of(folder, two(2, 4)), HasSubstr("tensors a and b overlap"));
}

std::string small_file() {
  return with_header(R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
                     R"("s":{"dtype":"F8_E8M0","shape":[8],"data_offsets":[16,24]},)"
                     R"("i":{"dtype":"I64","shape":[1],"data_offsets":[24,32]}})",
                     "0123456789ABCDEF0123456789ABCDEF");
}

TEST(Safetensors, EveryTruncationIsAnError) {
  const TempFolder folder;
  const std::string bytes = small_file();
  ASSERT_EQ(error_of(folder, bytes), "(accepted)");
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_NE(error_of(folder, bytes.substr(0, length)), "(accepted)") << "cut to " << length;
  }
}

// Random edits of a valid file: an error or views that stay inside the file, never a crash.
TEST(Safetensors, SurvivesRandomMutations) {
  constexpr unsigned kSeed = 3;
  const TempFolder folder;
  std::mt19937_64 random(kSeed);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  const std::string original = small_file();
  const std::string numbers[] = {"0",
                                 "1",
                                 "-1",
                                 "8",
                                 "16",
                                 "17",
                                 "9223372036854775807",
                                 "9223372036854775808",
                                 "18446744073709551615",
                                 "1e3",
                                 "1e400",
                                 "null",
                                 "[]",
                                 "{}",
                                 "\"F64\"",
                                 "\"BOOL\""};
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = original;
    for (std::size_t edits = 1 + below(3); edits > 0; --edits) {
      const std::size_t at = below(bytes.size());
      switch (below(5)) {
        case 0:
          bytes[at] = static_cast<char>(below(256));
          break;
        case 1:
          bytes.erase(at, 1 + below(8));
          break;
        case 2:
          bytes.insert(at, numbers[below(std::size(numbers))]);
          break;
        case 3: {  // another number in place of one
          const std::size_t digit = bytes.find_first_of("0123456789", at < 8 ? 8 : at);
          if (digit != std::string::npos) bytes.replace(digit, 1, numbers[below(std::size(numbers))]);
          break;
        }
        default:
          bytes[below(8)] = static_cast<char>(below(256));
      }
      if (bytes.size() < 9) bytes.resize(9, ' ');
      // Half of the time the length fits the header again, so that the mutation reaches the entries.
      const std::size_t brace = bytes.find("}}", 8);
      if (below(2) == 0 && brace != std::string::npos) {
        const std::uint64_t length = bytes.rfind("}}", bytes.size()) + 2 - 8;
        std::memcpy(bytes.data(), &length, 8);
      }
    }
    const auto file = SafetensorsFile::open(folder.write("x.safetensors", bytes));
    if (!file.ok()) {
      ASSERT_FALSE(file.status().message().empty());
      continue;
    }
    ++accepted;
    touch(**file);
  }
  EXPECT_GT(accepted, 100) << "seed " << kSeed;  // the mutations reach beyond the header's syntax
  EXPECT_LT(accepted, 19000) << "seed " << kSeed;
}

}  // namespace
}  // namespace sluice::safetensors_test
