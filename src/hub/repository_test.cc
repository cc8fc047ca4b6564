#include "hub/repository.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::repository_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kCommit(40, 'a'), kSha1(40, 'b'), kSha256(64, 'c');

std::string small(const std::string& path) {
  return fmt::format(R"({{"rfilename": "{}", "size": 3, "blobId": "{}"}})", path, kSha1);
}
std::string answer(const std::string& siblings) {
  return fmt::format(R"({{"sha": "{}", "private": false, "siblings": [{}]}})", kCommit, siblings);
}
std::string refusal(const std::string& json) {
  return parse_repository(json).status().message();
}

TEST(Repository, HasSizesAndDigests) {
  const Repository repository =
      parse_repository(answer(small("config.json") +
                              R"(, {"rfilename": "a/m.safetensors", "size": 5000000000, "blobId": ")" + kSha1 +
                              R"(", "lfs": {"sha256": ")" + kSha256 + R"(", "size": 5000000000}})"))
          .value();
  EXPECT_EQ(repository.commit, kCommit);
  ASSERT_EQ(repository.files.size(), 2);
  EXPECT_EQ(repository.files[0].digest, kSha1);
  EXPECT_FALSE(repository.files[0].is_sha256);
  EXPECT_EQ(repository.files[1].digest, kSha256);
  EXPECT_EQ(repository.files[1].bytes, 5'000'000'000);
}

TEST(Repository, OtherAnswersAreRefused) {
  EXPECT_THAT(refusal("<html>"), HasSubstr("line 1"));
  EXPECT_THAT(refusal("[]"), HasSubstr("sha: expected a commit"));
  EXPECT_THAT(refusal(R"({"sha": "../../x", "siblings": []})"), HasSubstr("sha: expected a commit"));
  EXPECT_THAT(refusal(R"({"sha": ")" + kCommit + R"("})"), HasSubstr("siblings: expected a list"));
  for (const char* path : {"../config.json", "/etc/passwd", "a/../../b", "a\\\\b", "a\\u0000b", ""}) {
    EXPECT_THAT(refusal(answer(small(path))), HasSubstr("within the repository")) << path;
  }
  EXPECT_THAT(refusal(answer(small("a") + "," + small("a"))), HasSubstr("in it twice"));
  EXPECT_THAT(refusal(answer(R"({"rfilename": "a"})")), HasSubstr("size: expected"));
  EXPECT_THAT(refusal(answer(R"({"rfilename": "a", "size": -1})")), HasSubstr("size: expected"));
  EXPECT_THAT(refusal(answer(R"({"rfilename": "a", "size": 1, "blobId": "../x"})")), HasSubstr("blobId"));
  EXPECT_THAT(refusal(answer("7")), HasSubstr("rfilename"));
  EXPECT_FALSE(parse_repository(std::string(100'000, '[')).ok());
}

// The paths of the files that are chosen, or the error.
std::vector<std::string> chosen(const std::vector<std::string>& paths, const std::string& name) {
  Repository repository;
  for (const std::string& path : paths) repository.files.push_back({.path = path});
  const auto files = choose_files(repository, parse_hub_name(name).value());
  if (!files.ok()) return {files.status().message()};
  std::vector<std::string> found;
  for (const RepositoryFile& file : *files) found.push_back(file.path);
  return found;
}

TEST(ChooseFiles, SafetensorsAndWhatGoesWithThem) {
  EXPECT_THAT(chosen({".gitattributes", "README.md", "config.json", "tokenizer.json", "tokenizer.model", "merges.txt",
                      "chat_template.jinja", "additional_chat_templates/tool.jinja", "model-00001-of-00002.safetensors",
                      "model-00002-of-00002.safetensors", "model.safetensors.index.json", "consolidated.safetensors",
                      "pytorch_model.bin", "original/params.json", "modeling_x.py", "onnx/model.onnx"},
                     "o/m"),
              ElementsAre("config.json", "tokenizer.json", "tokenizer.model", "merges.txt", "chat_template.jinja",
                          "additional_chat_templates/tool.jinja", "model-00001-of-00002.safetensors",
                          "model-00002-of-00002.safetensors", "model.safetensors.index.json"));
  EXPECT_THAT(chosen({"config.json", "weights.safetensors"}, "o/m"), ElementsAre("config.json", "weights.safetensors"));
  EXPECT_THAT(chosen({"config.json", "pytorch_model.bin"}, "o/m"), ElementsAre(HasSubstr("found neither")));
  EXPECT_THAT(chosen({"config.json", "model.safetensors"}, "o/m:Q4_0"), ElementsAre(HasSubstr("only *.safetensors")));
}

TEST(ChooseFiles, OneQuantisation) {
  const std::vector<std::string> paths = {
      "m-Q4_K.gguf",        "m-Q4_K_M.gguf", "Q8_0/m-Q8_0-00002-of-00002.gguf", "Q8_0/m-Q8_0-00001-of-00002.gguf",
      "mmproj-m-Q4_K.gguf", "config.json"};
  EXPECT_THAT(chosen(paths, "o/m:q4_k_m"), ElementsAre("m-Q4_K_M.gguf"));
  EXPECT_THAT(chosen(paths, "o/m:Q4_K"), ElementsAre("m-Q4_K.gguf"));
  EXPECT_THAT(chosen(paths, "o/m:Q8_0").size(), 2);
  EXPECT_THAT(choose_gguf(paths, parse_hub_name("o/m:Q8_0").value()).value().front(),
              "Q8_0/m-Q8_0-00001-of-00002.gguf");
  EXPECT_THAT(chosen(paths, "o/m"), ElementsAre(HasSubstr("found several; name one of: ")));
  EXPECT_THAT(chosen(paths, "o/m:Q2_K"), ElementsAre(HasSubstr("found none; name one of: ")));
  EXPECT_THAT(chosen({"x-Q4_0.gguf", "x-Q8_0.gguf"}, "o/m"), ElementsAre(HasSubstr("name one of: o/m:Q4_0, o/m:Q8_0")));
  EXPECT_THAT(chosen({"only.gguf", "imatrix.gguf"}, "o/m"), ElementsAre("only.gguf"));
}

}  // namespace
}  // namespace sluice::repository_test
