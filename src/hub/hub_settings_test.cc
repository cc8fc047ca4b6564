#include "hub/hub_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/storage/temp_folder_testing.h"

namespace sluice::hub_settings_test {
namespace {

using ::testing::HasSubstr;

// Variables of the environment, which are gone at the end.
class Variables {
 public:
  void set(const char* name, const std::string& value) {
    ::setenv(name, value.c_str(), 1);
    names_.push_back(name);
  }
  ~Variables() {
    for (const char* name : names_) ::unsetenv(name);
  }

 private:
  std::vector<const char*> names_;
};

TEST(HubSettings, ComeFromTheEnvironment) {
  const TempFolder folder;
  Variables variables;
  variables.set("HF_HOME", folder.path());
  variables.set("HF_ENDPOINT", "http://127.0.0.1:81/mirror/");
  folder.write("token", "hf_file\n");
  HubSettings settings = read_hub_settings().value();
  EXPECT_EQ(settings.endpoint, "http://127.0.0.1:81/mirror");
  EXPECT_EQ(settings.token, "hf_file");
  EXPECT_EQ(settings.folder, folder.path() + "/hub");
  EXPECT_TRUE(settings.is_endpoint(parse_server_url("http://127.0.0.1:81").value()));
  EXPECT_FALSE(settings.is_endpoint(parse_server_url("https://127.0.0.1:81").value()));
  EXPECT_FALSE(settings.is_endpoint(parse_server_url("http://127.0.0.1:82").value()));
  variables.set("HF_TOKEN", "hf_variable");
  variables.set("HF_HUB_OFFLINE", "1");
  settings = read_hub_settings().value();
  EXPECT_EQ(settings.token, "hf_variable");
  EXPECT_TRUE(settings.offline);
}

TEST(HubSettings, AWrongVariableIsNamed) {
  const TempFolder folder;
  Variables variables;
  variables.set("HF_HOME", folder.path());
  for (const auto& [name, value] :
       {std::pair{"HF_ENDPOINT", "ftp://x"}, std::pair{"HF_TOKEN", "a\r\nX-Evil: 1"},
        std::pair{"HF_HUB_DOWNLOAD_TIMEOUT", "soon"}, std::pair{"HTTPS_PROXY", "socks5://x:1"}}) {
    Variables wrong;
    wrong.set(name, value);
    EXPECT_THAT(read_hub_settings().status().message(), HasSubstr(name));
  }
}

TEST(HubSettings, NoProxySparesHosts) {
  HubSettings settings;
  settings.https_proxy = parse_server_url("http://proxy.example:3128").value();
  settings.no_proxy = "a.example, .b.example,10.0.0.1:8443";
  const auto spared = [&](const char* url) { return !settings.proxy_for(parse_server_url(url).value()).has_value(); };
  EXPECT_TRUE(spared("https://a.example"));
  EXPECT_TRUE(spared("https://x.a.example"));
  EXPECT_TRUE(spared("https://b.example"));
  EXPECT_TRUE(spared("https://10.0.0.1:8443"));
  EXPECT_TRUE(spared("http://other.example"));  // its proxy is another variable
  EXPECT_FALSE(spared("https://aa.example"));
  EXPECT_FALSE(spared("https://huggingface.co"));
  settings.no_proxy = "*";
  EXPECT_TRUE(spared("https://huggingface.co"));
}

}  // namespace
}  // namespace sluice::hub_settings_test
