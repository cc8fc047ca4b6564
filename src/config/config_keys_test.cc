#include "config/config_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "base/storage/mapped_file.h"
#include "base/test_paths_testing.h"
#include "config/model_families.h"
#include "config/rope_config.h"

namespace sluice::config_keys_test {
namespace {

// The text that docs/models/config_keys.md has between its marks.
std::string tables() {
  std::string text = "\n## Every family\n\n" + table_text({"", every_familys_keys()});
  text += "\n## Rope parameters\n\n| type | required | optional |\n|---|---|---|\n" + rope_types_text();
  for (const ModelFamily& family : model_families()) {
    text += "\n## " + std::string(family.model_type) + "\n\n" + table_text(*family.keys);
  }
  return text;
}

TEST(ConfigKeys, TheDocumentationHasTheTables) {
  constexpr std::string_view kMark = "<!-- the tables, as config_test writes them with SLUICE_WRITE_DOCS=1 -->\n";
  const std::string path = source_dir() + "/docs/models/config_keys.md";
  const std::string page = read_text_file(path).value();
  const std::size_t at = page.find(kMark);
  ASSERT_NE(at, std::string::npos);
  if (std::getenv("SLUICE_WRITE_DOCS") != nullptr) {
    std::ofstream(path) << page.substr(0, at) << kMark << tables();
    return;
  }
  EXPECT_EQ(page.substr(at + kMark.size()), tables())
      << "SLUICE_WRITE_DOCS=1 build/config_test --gtest_filter='ConfigKeys.*' writes them";
}

TEST(ConfigKeys, ATableHasAKeyOnce) {
  for (const ModelFamily& family : model_families()) {
    std::set<std::string_view> names;
    for (const ConfigKey& key : family.keys->keys) {
      EXPECT_TRUE(names.insert(key.name).second) << family.model_type << " " << key.name;
      EXPECT_FALSE(is_harmless_key(key.name)) << key.name;
      EXPECT_LE(key.min, key.max) << key.name;
      EXPECT_FALSE(key.absent.empty()) << key.name;
    }
  }
}

}  // namespace
}  // namespace sluice::config_keys_test
