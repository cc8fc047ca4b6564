#include "hub/cached_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/storage/mapped_file.h"
#include "base/storage/temp_folder_testing.h"

namespace sluice::cached_models_test {
namespace {

using ::testing::HasSubstr;

namespace fs = std::filesystem;

const HubName kName = parse_hub_name("org/m").value();

class CachedModels : public ::testing::Test {
 protected:
  CachedModels() { ::setenv("HF_HUB_CACHE", cache_.path().c_str(), 1); }
  ~CachedModels() override { ::unsetenv("HF_HUB_CACHE"); }

  // Publishes files whose content is their digest, each "path=digest".
  void publish_files(const std::string& commit, const std::vector<std::pair<std::string, std::string>>& files,
                     const HubName& name = kName) {
    fs::create_directories(model_ + "/blobs");
    Repository repository{.commit = commit, .files = {}};
    for (const auto& [path, digest] : files) {
      cache_.write("models--org--m/blobs/" + digest, digest);
      repository.files.push_back({.path = path, .bytes = digest.size(), .digest = digest});
    }
    const Status status = publish(model_, repository, repository.files, name);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  const TempFolder cache_;
  const std::string model_ = cache_.file("models--org--m");
};

TEST_F(CachedModels, ArePublishedAsLinks) {
  EXPECT_EQ(find_cached_model(kName).status().code(), StatusCode::kNotFound);
  publish_files("c1", {{"config.json", "aa"}, {"sub/x.json", "bb"}});
  EXPECT_EQ(find_cached_model(kName).value(), model_ + "/snapshots/c1");
  EXPECT_EQ(fs::read_symlink(model_ + "/snapshots/c1/config.json"), "../../blobs/aa");
  EXPECT_EQ(fs::read_symlink(model_ + "/snapshots/c1/sub/x.json"), "../../../blobs/bb");
  publish_files("c2", {{"config.json", "cc"}});
  EXPECT_EQ(read_text_file(model_ + "/refs/main").value(), "c2");
  EXPECT_EQ(find_cached_model(parse_hub_name("org/m@c1").value()).value(), model_ + "/snapshots/c1");
  EXPECT_FALSE(find_cached_model(parse_hub_name("org/m@v9").value()).ok());
  EXPECT_TRUE(is_published(model_ + "/snapshots/c2", {.path = "config.json", .bytes = 2}));
  EXPECT_FALSE(is_published(model_ + "/snapshots/c2", {.path = "config.json", .bytes = 3}));
}

TEST_F(CachedModels, ARefLeadsNowhereElse) {
  publish_files("c1", {{"config.json", "aa"}});
  fs::create_directories(model_ + "/refs");
  for (const char* text : {"..", "../..", "/etc", "c1/../c1", ""}) {
    cache_.write("models--org--m/refs/bad", text);
    EXPECT_FALSE(find_cached_model(parse_hub_name("org/m@bad").value()).ok()) << text;
  }
}

TEST_F(CachedModels, AreRemovedWithoutWhatOthersHave) {
  publish_files("c1", {{"config.json", "shared"}, {"model.safetensors", "old"}}, parse_hub_name("org/m@v1").value());
  publish_files("c2", {{"config.json", "shared"}, {"model.safetensors", "newer"}});
  const std::vector<CachedModel> models = list_cached_models();
  ASSERT_EQ(models.size(), 2);
  EXPECT_EQ(models[0].revision, "v1");
  EXPECT_EQ(models[1].bytes, 11);
  EXPECT_EQ(models[1].kind, "safetensors");
  EXPECT_THAT(remove_cached_model(parse_hub_name("org/m@v2").value(), false).status().message(),
              HasSubstr("no such revision"));
  EXPECT_GE(remove_cached_model(parse_hub_name("org/m@v1").value(), false).value(), 3);
  EXPECT_FALSE(fs::exists(model_ + "/blobs/old"));
  EXPECT_FALSE(fs::exists(model_ + "/refs/v1"));
  EXPECT_EQ(read_text_file(model_ + "/snapshots/c2/config.json").value(), "shared");
  EXPECT_TRUE(remove_cached_model(kName, true).ok());
  EXPECT_FALSE(fs::exists(model_));
}

}  // namespace
}  // namespace sluice::cached_models_test
