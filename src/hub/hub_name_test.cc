#include "hub/hub_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::hub_name_test {
namespace {

using ::testing::HasSubstr;

TEST(HubName, HasARevisionAndAQuantisation) {
  const HubName plain = parse_hub_name("org/Model-1.5_x").value();
  EXPECT_EQ(plain.id, "org/Model-1.5_x");
  EXPECT_EQ(plain.revision, "main");
  EXPECT_EQ(plain.quantisation, "");
  const HubName both = parse_hub_name("org/model:Q4_K_M@refs/pr/1").value();
  EXPECT_EQ(both.revision, "refs/pr/1");
  EXPECT_EQ(both.quantisation, "Q4_K_M");
  EXPECT_EQ(both.text(), "org/model:Q4_K_M@refs/pr/1");
  EXPECT_EQ(parse_hub_name("org/model@v1:Q8_0").value().text(), "org/model:Q8_0@v1");
}

TEST(HubName, OtherTextsAreNone) {
  for (const char* text :
       {"",         "model",     "a/b/c",     "org/",      "/model",     "../model", "org/..",
        "org/m@",   "org/m:",    "org/m@a@b", "org/m:a:b", "org/m@../x", "org/m@/x", "org/m@a//b",
        "org/m@-x", "org/m:a/b", "org/m @a",  "org--x/m",  "org/m@a b",  "org/m\n",  "https://hub.example/org/m"}) {
    EXPECT_FALSE(is_hub_name(text)) << text;
  }
}

TEST(HubPath, LeadsNowhereElse) {
  for (const char* path : {"config.json", "a/b/c.safetensors", "...", "a..b", ".gitattributes", "\xc3\xa4.json"}) {
    EXPECT_TRUE(check_hub_path(path).ok()) << path;
  }
  for (const std::string& path :
       {std::string(), std::string("/etc/passwd"), std::string("../x"), std::string("a/../../x"), std::string("a//b"),
        std::string("a/"), std::string("."), std::string("a\\..\\b"), std::string("a\nb"), std::string("a\0b", 3),
        std::string("\xff"), std::string(241, 'a')}) {
    EXPECT_FALSE(check_hub_path(path).ok()) << path;
  }
}

TEST(WebAddress, RedirectsStayOnTheWeb) {
  const WebAddress from = parse_web_address("https://hub.example/a?b=1#c").value();
  EXPECT_EQ(from.server.authority(), "hub.example:443");
  EXPECT_EQ(from.target, "/a?b=1");
  EXPECT_EQ(parse_web_address("http://h:81").value().target, "/");
  EXPECT_EQ(parse_web_address("http://h?x").value().target, "/?x");
  EXPECT_EQ(follow_location(from, "/other").value().server.authority(), "hub.example:443");
  EXPECT_TRUE(follow_location(from, "//cdn.example/x").value().server.tls);
  EXPECT_EQ(follow_location(from, "https://cdn.example/x?y=%2F").value().target, "/x?y=%2F");
  EXPECT_THAT(follow_location(from, "http://cdn.example/x").status().message(), HasSubstr("expected https"));
  for (const char* bad : {"", "x", "file:///etc/passwd", "https://", "https://a b/", "https://h:0/", "/a\r\nb"}) {
    EXPECT_FALSE(follow_location(from, bad).ok()) << bad;
  }
  EXPECT_EQ(escape_path("a b/\xc3\xa4#?%.json"), "a%20b/%C3%A4%23%3F%25.json");
}

}  // namespace
}  // namespace sluice::hub_name_test
