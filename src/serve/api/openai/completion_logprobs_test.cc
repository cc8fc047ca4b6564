#include "serve/api/openai/completion_logprobs.h"

#include <random>

#include "base/utf8.h"
#include "serve/api/api_testing.h"

namespace sluice::completion_logprobs_test {
namespace {

namespace json = boost::json;

AnswerForm form_of(int top) {
  AnswerForm form;
  form.top_logprobs = top;
  form.token_text = [](std::int32_t id) { return std::string(tokenizer().token_bytes(id)); };
  form.is_special = [](std::int32_t id) { return tokenizer().is_special(id); };
  return form;
}

// Each token with two better ones; the first of the prompt has none.
PromptLogprobs logprobs_of(const std::vector<std::int32_t>& ids, std::mt19937_64& random) {
  PromptLogprobs out;
  out.start = 1;
  for (std::size_t i = 1; i < ids.size(); ++i) {
    const auto other = [&] { return (ids[i] + 1 + static_cast<std::int32_t>(random() % 1000)) % 1024; };
    out.tokens.push_back({.logprob = -3.0F, .rank = 3, .top = {{other(), -1.0F}, {other(), -2.0F}}});
  }
  return out;
}

std::u32string points_of(std::string_view utf8) {
  std::u32string out;
  for (const char byte : utf8) {
    const auto bits = static_cast<unsigned char>(byte);
    if ((bits & 0xC0U) != 0x80U) {
      out += bits < 0x80U ? bits : bits < 0xE0U ? bits & 0x1FU : bits < 0xF0U ? bits & 0xFU : bits & 0x7U;
    } else {
      out.back() = out.back() << 6U | (bits & 0x3FU);
    }
  }
  return out;
}

std::string random_text(std::mt19937_64& random) {
  static constexpr std::u32string_view kKinds[] = {
      U"abc xyz 0129.,", U"äöüßéñ", U"漢字仮名交じり文", U"🙂🚀🇯🇵👩‍👩‍👧", U"Привет мир",
      U"العربية",        U"\n\t  "};
  std::string text;
  for (std::uint64_t left = 1 + random() % 40; left > 0; --left) {
    const std::u32string_view kind = kKinds[random() % std::size(kKinds)];
    append_utf8(kind[random() % kind.size()], text);
  }
  return text;
}

TEST(CompletionLogprobs, TextAtTheOffsetBeginsWithTheToken) {
  const std::uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  int pieces = 0;
  for (int turn = 0; turn < 1000; ++turn) {
    const std::string text = random_text(random);
    std::vector<std::int32_t> ids = tokenizer().encode(text, {.add_special_tokens = true}).value();
    CompletionLogprobs logprobs;
    logprobs.add_prompt(text, ids, logprobs_of(ids, random), form_of(2));
    const json::value lists = parsed(logprobs.take());
    const std::u32string points = points_of(tokenizer().decode(ids, /*skip_special=*/true));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (tokenizer().is_special(ids[i])) continue;
      const std::string token = text_at(lists, fmt::format("tokens/{}", i));
      const auto offset = static_cast<std::size_t>(number_at(lists, fmt::format("text_offset/{}", i)));
      ASSERT_LT(offset, points.size()) << "seed " << seed << ": " << text;
      if (token.starts_with("bytes:")) {
        ++pieces;
        std::string character;
        append_utf8(points[offset], character);
        const std::string_view bytes = tokenizer().token_bytes(ids[i]);
        const bool begins = character.starts_with(bytes.substr(0, character.size()));
        EXPECT_TRUE(begins || character.find(bytes.substr(0, 1)) != std::string::npos)
            << "seed " << seed << ": " << text;
      } else {
        EXPECT_EQ(points.substr(offset, points_of(token).size()), points_of(token)) << "seed " << seed << ": " << text;
      }
      if (i == 0) continue;
      const json::value own = at(lists, fmt::format("token_logprobs/{}", i));
      const json::value all = at(lists, fmt::format("top_logprobs/{}", i));
      ASSERT_TRUE(all.is_object() && all.get_object().contains(token)) << "seed " << seed << ": " << text;
      EXPECT_EQ(all.at(token), own) << "seed " << seed << ": " << text;
    }
  }
  EXPECT_GT(pieces, 100);
}

TEST(CompletionLogprobs, HiddenTokensTakeNoRoom) {
  const std::int32_t special = *tokenizer().token_to_id("<｜User｜>");
  GenerationDelta delta;
  for (const std::int32_t id : {ids_of("a")[0], special, ids_of("b")[0]}) {
    delta.chosen.push_back({id, -1.0F});
    delta.top.emplace_back();
  }
  AnswerForm form = form_of(0);
  CompletionLogprobs hidden, shown;
  hidden.add(delta, form);
  EXPECT_EQ(dump_json(at(parsed(hidden.take()), "text_offset")), "[0,1,1]");
  form.shows_special = true;
  shown.add(delta, form);
  EXPECT_EQ(dump_json(at(parsed(shown.take()), "text_offset")), "[0,1,9]");
}

TEST(CompletionLogprobs, BrokenCharactersCountAsTheirReplacements) {
  CharacterCount count;
  EXPECT_EQ(count.before("a\xF0\x9F"), 0U);
  EXPECT_EQ(count.before("\x99\x82"), 1U);  // the same character
  EXPECT_EQ(count.before("b"), 2U);
  EXPECT_EQ(count.before("\xE6"), 3U);
  EXPECT_EQ(count.before("c"), 4U);  // after the U+FFFD that stands for it
  EXPECT_EQ(count.before(""), 5U);
  EXPECT_EQ(count.before("\xE6"), 5U);
  count.end();
  EXPECT_EQ(count.before("d"), 6U);
}

}  // namespace
}  // namespace sluice::completion_logprobs_test
