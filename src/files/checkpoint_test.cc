#include "files/checkpoint.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <numeric>

#include "base/storage/temp_folder_testing.h"
#include "base/test_paths_testing.h"
#include "files/safetensors_writer.h"

namespace sluice::checkpoint_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::byte> kBytes(64, std::byte{7});

TensorSource bytes_tensor(std::string name, std::int64_t count) {
  return {std::move(name), DType::kU8, {count}, std::span(kBytes).first(static_cast<std::size_t>(count)), {}};
}

std::string error_of(const std::string& folder) {
  const auto checkpoint = Checkpoint::open(folder);
  return checkpoint.ok() ? "(accepted)" : checkpoint.status().message();
}

std::vector<std::string> names_of(const Checkpoint& checkpoint) {
  std::vector<std::string> names;
  for (const TensorView* tensor : checkpoint.tensors()) names.push_back(tensor->name);
  return names;
}

void write_one(const TempFolder& folder, std::string_view file, std::vector<TensorSource> tensors) {
  const Status status = write_safetensors(folder.file(file), tensors);
  ASSERT_TRUE(status.ok()) << status.message();
}

TEST(SafetensorsWriter, RoundTripsEveryDtype) {
  const TempFolder folder;
  std::vector<std::byte> data(48);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 5);
  std::vector<TensorSource> tensors;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const std::size_t bytes = static_cast<std::size_t>(6 * dtype_bits(dtype) / 8);
    tensors.push_back({"t." + std::string(dtype_name(dtype)), dtype, {2, 3}, std::span(data).first(bytes), {}});
  }
  tensors.push_back({"scalar \"\u00e4\"", DType::kF32, {}, std::span(data).first(4), {}});
  tensors.push_back({"none", DType::kI64, {0, 5}, {}, {}});
  ASSERT_TRUE(write_safetensors(folder.file("x.safetensors"), tensors, {{"format", "pt"}, {"k", "v\n"}}).ok());
  auto file = SafetensorsFile::open(folder.file("x.safetensors"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ((*file)->metadata().at("k"), "v\n");
  ASSERT_EQ((*file)->tensors().size(), tensors.size());
  for (const TensorSource& source : tensors) {
    const TensorView* read = (*file)->find(source.name);
    ASSERT_NE(read, nullptr) << source.name;
    EXPECT_EQ(read->dtype, source.dtype);
    EXPECT_EQ(read->shape, source.shape);
    ASSERT_EQ(read->bytes, source.data.size());
    EXPECT_TRUE(read->bytes == 0 || std::memcmp(read->data, source.data.data(), read->bytes) == 0) << source.name;
    const auto address = reinterpret_cast<std::uintptr_t>(read->data);
    EXPECT_EQ(address % static_cast<std::uintptr_t>(dtype_alignment(source.dtype)), 0U);
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << "a temporary file is left";
}

TEST(SafetensorsWriter, StreamsFromAProducer) {
  const TempFolder folder;
  constexpr std::size_t kSize = (std::size_t{9} << 20) + 3;  // several chunks and a short one
  std::size_t next = 0;
  TensorSource tensor{"big", DType::kU8, {static_cast<std::int64_t>(kSize)}, {}, {}};
  tensor.produce = [&](std::size_t offset, std::span<std::byte> chunk) -> Status {
    EXPECT_EQ(offset, next);
    EXPECT_EQ(offset % (1U << 20), 0U);
    next = offset + chunk.size();
    for (std::size_t i = 0; i < chunk.size(); ++i) chunk[i] = static_cast<std::byte>((offset + i) % 251);
    return {};
  };
  std::size_t reported = 0;
  const auto progress = [&](std::size_t done, std::size_t total) {
    EXPECT_GT(done, reported);
    EXPECT_EQ(total, kSize);
    reported = done;
  };
  ASSERT_TRUE(write_safetensors(folder.file("x.safetensors"), {tensor}, {}, progress).ok());
  EXPECT_EQ(reported, kSize);
  auto file = SafetensorsFile::open(folder.file("x.safetensors"));
  ASSERT_TRUE(file.ok());
  const TensorView* read = (*file)->find("big");
  ASSERT_EQ(read->bytes, kSize);
  for (std::size_t i = 0; i < kSize; ++i) ASSERT_EQ(read->data[i], static_cast<std::byte>(i % 251)) << i;
}

TEST(SafetensorsWriter, FailuresLeaveNoFile) {
  const TempFolder folder;
  TensorSource tensor = bytes_tensor("t", 8);
  tensor.data = {};
  tensor.produce = [](std::size_t, std::span<std::byte>) { return resource_exhausted("out of numbers"); };
  const Status status = write_safetensors(folder.file("x.safetensors"), {tensor});
  EXPECT_THAT(status.message(), HasSubstr("tensor t: out of numbers"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_THAT(write_safetensors(folder.file("x"), {bytes_tensor("t", 8), bytes_tensor("t", 4)}).message(),
              HasSubstr("the name is taken"));
  TensorSource wrong = bytes_tensor("t", 8);
  wrong.shape = {9};
  EXPECT_THAT(write_safetensors(folder.file("x"), {wrong}).message(),
              HasSubstr("expected 9 bytes for U8 [9], found 8"));
  EXPECT_FALSE(write_safetensors(folder.file("no/such/folder/x"), {bytes_tensor("t", 8)}).ok());
}

TEST(SafetensorsWriter, WritesToDevicesAndPipesThemselves) {
  const TempFolder folder;
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_TRUE(write_safetensors(pipe, {bytes_tensor("t", 8)}).ok());
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  std::uint64_t header = 0;
  EXPECT_EQ(::read(reader, &header, sizeof(header)), 8);
  EXPECT_GT(header, 0U);
  ::close(reader);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  EXPECT_FALSE(write_safetensors(folder.path(), {bytes_tensor("t", 8)}).ok()) << "a folder";
}

TEST(Checkpoint, OneFile) {
  const TempFolder folder;
  ASSERT_TRUE(write_checkpoint(folder.path(), {bytes_tensor("b", 8), bytes_tensor("a", 4)}, 100).ok());
  auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_THAT(names_of(*checkpoint), ElementsAre("a", "b"));
  EXPECT_EQ(checkpoint->total_bytes(), 12U);
  EXPECT_EQ(checkpoint->files().size(), 1U);
  EXPECT_EQ(checkpoint->metadata().at("format"), "pt");
  EXPECT_EQ(checkpoint->find("b")->bytes, 8U);
  EXPECT_EQ(checkpoint->find("c"), nullptr);
}

TEST(Checkpoint, ShardsRoundTrip) {
  const TempFolder folder;
  const std::string path = folder.file("new/model");
  ASSERT_TRUE(write_checkpoint(path,
                               {bytes_tensor("e", 6), bytes_tensor("d", 4), bytes_tensor("c", 40), bytes_tensor("b", 1),
                                bytes_tensor("a", 9)},
                               10)
                  .ok());
  auto opened = Checkpoint::open(path);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const Checkpoint checkpoint = std::move(*opened);
  EXPECT_THAT(names_of(checkpoint), ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_EQ(checkpoint.total_bytes(), 60U);
  EXPECT_EQ(checkpoint.find("e")->file, "model-00001-of-00003.safetensors");
  EXPECT_EQ(checkpoint.find("d")->file, "model-00001-of-00003.safetensors");
  EXPECT_EQ(checkpoint.find("c")->file, "model-00002-of-00003.safetensors");
  EXPECT_EQ(checkpoint.find("a")->file, "model-00003-of-00003.safetensors");
  EXPECT_THAT(read_text_file(path + "/model.safetensors.index.json").value(), HasSubstr(R"("total_size":60)"));
  EXPECT_THAT(write_checkpoint(path, {bytes_tensor("a", 1)}, 10).message(),
              HasSubstr("expected a folder without weights"));
}

TEST(Checkpoint, ShardsWithoutAnIndexCountThemselves) {
  const TempFolder folder;
  write_one(folder, "model-00001-of-00002.safetensors", {bytes_tensor("a", 4)});
  EXPECT_THAT(error_of(folder.path()), HasSubstr("expected 2 shards, as their names say"));
  std::filesystem::create_directory(folder.file("more"));
  write_one(folder, "more/model-00002-of-00002.safetensors", {bytes_tensor("b", 4)});
  EXPECT_EQ(error_of(folder.path()), "(accepted)");
  write_one(folder, "consolidated.safetensors", {bytes_tensor("a", 4)});  // a second copy
  EXPECT_EQ(Checkpoint::open(folder.path())->files().size(), 2U);
  write_one(folder, "adapter_model.safetensors", {bytes_tensor("c", 4)});
  EXPECT_THAT(error_of(folder.path()), HasSubstr("found an adapter (LoRA) beside the weights"));
}

TEST(Checkpoint, OneFileOfAnyName) {
  const TempFolder folder;
  write_one(folder, "weights.safetensors", {bytes_tensor("norm.weight", 4)});
  ASSERT_EQ(error_of(folder.path()), "(accepted)");
  EXPECT_NE(Checkpoint::open(folder.path())->find("model.norm.weight"), nullptr);
  write_one(folder, "other.safetensors", {bytes_tensor("a", 4)});
  EXPECT_THAT(error_of(folder.path()),
              HasSubstr("found several without either: other.safetensors, weights.safetensors"));
}

TEST(Checkpoint, NamesWhatLiesThereInstead) {
  const TempFolder folder;
  folder.write("pytorch_model.bin", "PK");
  EXPECT_THAT(error_of(folder.path()),
              HasSubstr("only PyTorch's weights, which are not read (pytorch_model.bin); convert"));
  folder.write("model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 4976698672\n");
  EXPECT_THAT(error_of(folder.path()), HasSubstr("of 4976698672 bytes, found the git-lfs pointer"));
}

TEST(Checkpoint, RefusesFoldersWithoutWeights) {
  const TempFolder folder;
  EXPECT_THAT(error_of(folder.path()), HasSubstr("found an empty folder (--load-format dummy"));
  EXPECT_EQ(Checkpoint::open(folder.file("missing")).status().code(), StatusCode::kNotFound);
}

TEST(Checkpoint, RefusesBrokenIndexes) {
  const TempFolder folder;
  const auto error_of_index = [&](std::string_view text) {
    folder.write("model.safetensors.index.json", text);
    return error_of(folder.path());
  };
  write_one(folder, "one.safetensors", {bytes_tensor("a", 4), bytes_tensor("b", 4)});
  EXPECT_EQ(error_of_index(R"({"weight_map":{"a":"one.safetensors","b":"one.safetensors"}})"), "(accepted)");
  EXPECT_EQ(error_of_index(R"({"weight_map":{"a":"one.safetensors"}})"), "(accepted)");
  EXPECT_THAT(error_of_index("{"), HasSubstr("index.json: line 1, column 2"));
  EXPECT_THAT(error_of_index("[]"), HasSubstr("key 'weight_map'"));
  EXPECT_THAT(error_of_index("{}"), HasSubstr("found nothing"));
  EXPECT_THAT(error_of_index(R"({"weight_map":{}})"), HasSubstr("names no tensor"));
  EXPECT_THAT(error_of_index(R"({"weight_map":{"a":1}})"), HasSubstr("tensor a: expected a file name, found 1"));
  EXPECT_THAT(error_of_index(R"({"weight_map":{"a":"two.safetensors"}})"),
              HasSubstr("names 1 file, and one is missing: two.safetensors"));
  EXPECT_THAT(error_of_index(R"({"weight_map":{"z":"one.safetensors"}})"),
              HasSubstr("tensor z: expected in one.safetensors, found in no shard"));
}

TEST(Checkpoint, RefusesShardNamesThatLeaveTheFolder) {
  const TempFolder folder;
  for (const char* name : {"../one.safetensors", "/etc/passwd", "sub/../../one.safetensors", "sub//one", "..", ".", "",
                           "a\\\\b", "a\\u0000b"}) {
    folder.write("model.safetensors.index.json", std::string(R"({"weight_map":{"a":")") + name + R"("}})");
    EXPECT_THAT(error_of(folder.path()), HasSubstr("expected the name of a file in the model's folder")) << name;
  }
}

TEST(Checkpoint, RefusesTensorsInTheWrongOrTwoShards) {
  const TempFolder folder;
  write_one(folder, "one.safetensors", {bytes_tensor("a", 4)});
  write_one(folder, "two.safetensors", {bytes_tensor("b", 4)});
  folder.write("model.safetensors.index.json", R"({"weight_map":{"a":"two.safetensors","b":"one.safetensors"}})");
  EXPECT_THAT(error_of(folder.path()), HasSubstr("tensor a: expected in two.safetensors, found in one.safetensors"));
  write_one(folder, "two.safetensors", {bytes_tensor("a", 4), bytes_tensor("b", 4)});
  folder.write("model.safetensors.index.json", R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  EXPECT_THAT(error_of(folder.path()),
              HasSubstr("tensor a: expected once, found in one.safetensors and two.safetensors"));
}

TEST(Checkpoint, OpensTheEmbeddedModel) {
  auto checkpoint = Checkpoint::open(source_dir() + "/models/sluice-tiny-v4");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(checkpoint->total_bytes(), 22952988U);
  const TensorView* embed = checkpoint->find("embed.weight");
  ASSERT_NE(embed, nullptr);
  EXPECT_EQ(embed->dtype, DType::kBF16);
  EXPECT_THAT(embed->shape, ElementsAre(4096, 256));
}

}  // namespace
}  // namespace sluice::checkpoint_test
