#include "text/chat/fill_in_middle.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "files/json.h"
#include "text/tokenizer/tokenizer_testing.h"

namespace sluice::fill_in_middle_test {
namespace {

std::unique_ptr<Tokenizer> with_tokens(const std::vector<std::string>& special) {
  boost::json::object root = small_tokenizer_json();
  for (std::size_t i = 0; i < special.size(); ++i) {
    set_json(root, "added_tokens/" + std::to_string(i),
             R"({"id":)" + std::to_string(300 + i) + R"(,"content":")" + special[i] +
                 R"(","special":true,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false})");
  }
  auto made = Tokenizer::from_json(dump_json(root));
  EXPECT_TRUE(made.ok()) << made.status().message();
  return made.ok() ? std::move(made).value() : nullptr;
}

TEST(FillInMiddleTest, TheTextsStandBetweenTheMarks) {
  for (const std::vector<std::string>& marks :
       {std::vector<std::string>{"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
        {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
        {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"}}) {
    const auto tokenizer = with_tokens(marks);
    const auto fill = FillInMiddle::of(*tokenizer);
    ASSERT_TRUE(fill);
    EXPECT_EQ(fill->encode("ab", "c").value(), (std::vector<std::int32_t>{300, 'a', 'b', 301, 'c', 302}));
    EXPECT_EQ(fill->encode("", "").value(), (std::vector<std::int32_t>{300, 301, 302}));
    const auto ids = fill->encode(marks[1], marks[2]).value();  // a client's text stays text
    EXPECT_EQ(ids.size(), 3 + marks[1].size() + marks[2].size());
  }
}

TEST(FillInMiddleTest, WithoutTheTokensThereIsNone) {
  EXPECT_FALSE(FillInMiddle::of(*with_tokens({"<｜fim▁begin｜>", "<｜fim▁hole｜>"})));
}

}  // namespace
}  // namespace sluice::fill_in_middle_test
