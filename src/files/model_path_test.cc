#include "files/model_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/storage/temp_folder_testing.h"
#include "files/hub_cache.h"

namespace sluice::model_path_test {
namespace {

using ::testing::HasSubstr;

namespace fs = std::filesystem;

// The path that is found, below the folder, or the error.
std::string found(const TempFolder& folder, const std::string& given, ModelUse use = ModelUse::kWeights) {
  const Result<std::string> path = find_model(given.starts_with('/') ? given : folder.file(given), use);
  return path.ok() ? fs::path(*path).lexically_relative(folder.path()).string() : path.status().message();
}

TEST(ModelPath, GgufIsKnownByItsFirstBytes) {
  const TempFolder folder;
  EXPECT_TRUE(is_gguf_path(folder.write("sha256-0123", "GGUF\3")));
  EXPECT_TRUE(is_gguf_path(folder.write("MODEL.GGUF", "GGUF\3")));
  EXPECT_TRUE(is_gguf_path(folder.write("pointer.gguf", "version https://git-lfs")));
  EXPECT_TRUE(is_gguf_path(folder.file("new.gguf")));
  EXPECT_FALSE(is_gguf_path(folder.write("config.json", "{}")));
  fs::create_directory(folder.file("x.gguf"));
  EXPECT_FALSE(is_gguf_path(folder.file("x.gguf")));
}

TEST(ModelPath, AFolderWithOneGgufModelIsThatFile) {
  const TempFolder folder;
  fs::create_directory(folder.file("m"));
  EXPECT_THAT(found(folder, "m"), HasSubstr("found an empty folder"));
  folder.write("m/a-00001-of-00002.gguf", "GGUF");
  folder.write("m/a-00002-of-00002.gguf", "GGUF");
  folder.write("m/mmproj-a.gguf", "GGUF");
  folder.write("m/config.json", "{}");
  EXPECT_EQ(found(folder, "m"), "m/a-00001-of-00002.gguf");
  EXPECT_EQ(found(folder, "m", ModelUse::kDummy), "m");
  folder.write("m/b.gguf", "GGUF");
  EXPECT_THAT(found(folder, "m"), HasSubstr("found 2 GGUF files; name one of them"));
  folder.write("m/model.safetensors", "");
  EXPECT_EQ(found(folder, "m"), "m");
}

TEST(ModelPath, AFolderOfTheHubCacheLeadsToItsSnapshot) {
  const TempFolder folder;
  for (const char* hash : {"aa", "bb"}) {
    fs::create_directories(folder.file("models--org--name/snapshots/") + hash);
    folder.write(std::string("models--org--name/snapshots/") + hash + "/config.json", "{}");
  }
  EXPECT_THAT(found(folder, "models--org--name"), HasSubstr("found aa, bb; name one of them"));
  fs::create_directory(folder.file("models--org--name/refs"));
  folder.write("models--org--name/refs/main", "bb\n");
  EXPECT_EQ(found(folder, "models--org--name"), "models--org--name/snapshots/bb");
  EXPECT_EQ(found(folder, "models--org--name/snapshots/"), "models--org--name/snapshots/bb");
  EXPECT_EQ(hub_id_of_snapshot(folder.file("models--org--name/snapshots/bb")), "org/name");
  ::setenv("HF_HUB_CACHE", folder.path().c_str(), 1);
  EXPECT_EQ(find_model("org/name", ModelUse::kWeights).value(), folder.file("models--org--name/snapshots/bb"));
  EXPECT_THAT(find_model("org/other", ModelUse::kWeights).status().message(),
              HasSubstr("`sluice pull org/other` fetches it"));
  EXPECT_THAT(find_model("https://huggingface.co/org/name/tree/main", ModelUse::kWeights).status().message(),
              HasSubstr("this is a URL; the Hugging Face cache has it: name it org/name"));
  ::unsetenv("HF_HUB_CACHE");
}

TEST(ModelPath, FilesOfAModelNameTheirFolder) {
  const TempFolder folder;
  EXPECT_THAT(found(folder, folder.write("model.safetensors", "x")), HasSubstr("name the folder, " + folder.path()));
  EXPECT_THAT(found(folder, folder.write("config.json", "{}")), HasSubstr("a JSON file, which has no weights"));
  EXPECT_EQ(found(folder, "config.json", ModelUse::kWeightsOrConfig), "config.json");
  EXPECT_THAT(found(folder, folder.write("model", "version https://git-lfs.github.com/spec/v1\n")),
              HasSubstr("git lfs pull"));
  EXPECT_THAT(found(folder, folder.write("page", "<!DOCTYPE html>")), HasSubstr("found an HTML page"));
}

}  // namespace
}  // namespace sluice::model_path_test
