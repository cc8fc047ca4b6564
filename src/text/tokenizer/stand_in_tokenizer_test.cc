#include "text/tokenizer/stand_in_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::stand_in_tokenizer_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(StandInTokenizer, TextIsItsBytesAndOtherIdsAreTheirNumbers) {
  const std::int32_t ends[] = {1, 300, 1000, -1};  // two of them are no tokens
  const auto tokenizer = stand_in_tokenizer(1000, 0, ends).value();
  std::string all;
  for (int byte = 1; byte < 128; ++byte) all.push_back(static_cast<char>(byte));
  all += "\u00e9\u65e5 4711<|end 1|>";
  EncodeOptions plain;
  plain.parse_special = false;
  const std::vector<std::int32_t> ids = tokenizer->encode(all, plain).value();
  EXPECT_EQ(ids.size(), all.size());
  EXPECT_EQ(tokenizer->decode(ids, true), all);
  EXPECT_THAT(tokenizer->encode("a<|end 1|>").value(), ElementsAre('a' + 2, 1));
  EXPECT_EQ(tokenizer->bos_id(), 0);
  EXPECT_EQ(tokenizer->eos_id(), 1);
  EXPECT_TRUE(tokenizer->is_special(300));
  const std::int32_t others[] = {258, 299, 301, 999, 300};
  EXPECT_EQ(tokenizer->decode(others, true), " 258 299 301 999");
  for (std::int32_t id = 0; id < 1000; ++id) EXPECT_TRUE(tokenizer->has_token(id)) << id;
  EXPECT_FALSE(tokenizer->has_token(1000));
}

TEST(StandInTokenizer, NeedsRoomForTheBytes) {
  const std::int32_t ends[] = {1};
  EXPECT_THAT(stand_in_tokenizer(257, 0, ends).status().message(), HasSubstr("256 bytes, found 257"));
  EXPECT_TRUE(stand_in_tokenizer(258, 0, ends).ok());
  EXPECT_TRUE(stand_in_tokenizer(256, -1, {}).ok());
}

}  // namespace
}  // namespace sluice::stand_in_tokenizer_test
