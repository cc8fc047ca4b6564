// Strings of JSON, character by character: escapes, surrogates in pairs, bytes that are no UTF-8, at every border of
// tokens, against a reader that was written for this alone.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/sanitizer_testing.h"
#include "base/test_seed_testing.h"
#include "base/utf8.h"
#include "grammar/automata/matcher.h"
#include "grammar/grammar.h"

namespace sluice::json_strings_test {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

enum class Read { kWrong, kBegun, kWhole };

// Reads a string: one that strict parsers take (kWhole), the beginning of one, or neither.
class StringReader {
 public:
  // `least_escapes`: characters are escaped where JSON wants it only, by the short escape if there is one, and at most
  // `most` of them; else every escape may be used.
  StringReader(std::string_view text, bool least_escapes, int most)
      : text_(text), least_escapes_(least_escapes), most_(most) {}

  Read read() {
    if (text_.empty()) return Read::kBegun;
    if (text_[0] != '"') return Read::kWrong;
    at_ = 1;
    for (int characters = 0; at_ < text_.size(); ++characters) {
      if (text_[at_] == '"') return at_ + 1 == text_.size() ? Read::kWhole : Read::kWrong;
      if (least_escapes_ && characters == most_) return Read::kWrong;
      const Read one = text_[at_] == '\\' ? escape() : plain();
      if (one != Read::kWhole) return one;
    }
    return Read::kBegun;
  }

 private:
  Read plain() {
    if (static_cast<unsigned char>(text_[at_]) < 0x20) return Read::kWrong;
    const Utf8Char next = decode_utf8(text_.substr(at_));
    if (next.kind == Utf8Char::Kind::kInvalid) return Read::kWrong;
    at_ += next.length;
    return next.kind == Utf8Char::Kind::kValid ? Read::kWhole : Read::kBegun;
  }

  Read escape() {
    if (++at_ == text_.size()) return Read::kBegun;
    const char letter = text_[at_++];
    if (std::string_view("\"\\bfnrt").find(letter) != std::string_view::npos) return Read::kWhole;
    if (letter == '/') return least_escapes_ ? Read::kWrong : Read::kWhole;
    if (letter != 'u') return Read::kWrong;
    int unit = 0;
    if (const Read read = digits(/*low=*/false, &unit); read != Read::kWhole) return read;
    if (unit < 0xD800 || unit > 0xDBFF) return Read::kWhole;
    for (const char wanted : {'\\', 'u'}) {
      if (at_ == text_.size()) return Read::kBegun;
      if (text_[at_++] != wanted) return Read::kWrong;
    }
    return digits(/*low=*/true, &unit);
  }

  // Returns whether some unit that may stand there begins with `digits` digits, which make `value`.
  bool may_begin(int value, int digits, bool low) const {
    const int shift = 4 * (4 - digits), first = value << shift, last = first + (1 << shift) - 1;
    for (int unit = first; unit <= last; ++unit) {
      const bool is_low = unit >= 0xDC00 && unit <= 0xDFFF;
      const bool is_long = unit < 0x20 && unit != 8 && unit != 9 && unit != 10 && unit != 12 && unit != 13;
      if (least_escapes_ ? is_long : is_low == low) return true;
    }
    return false;
  }

  Read digits(bool low, int* unit) {
    *unit = 0;
    for (int n = 1; n <= 4; ++n) {
      if (at_ == text_.size()) return Read::kBegun;
      const int digit = hex_value(text_[at_++]);
      if (digit < 0) return Read::kWrong;
      *unit = *unit * 16 + digit;
      if (!may_begin(*unit, n, low)) return Read::kWrong;
    }
    return Read::kWhole;
  }

  const std::string_view text_;
  const bool least_escapes_;
  const int most_;
  std::size_t at_ = 0;
};

// Whole escapes and characters, right and wrong ones, their pieces, and pairs of them cut everywhere.
std::vector<std::string> tokens(std::mt19937& random) {
  const std::vector<std::string> whole = {
      "\\ud83d", "\\ude00", "\\uD800", "\\uDBFF", "\\udc00", "\\uDfff", "\\ud7ff", "\\ue000", "\\u0041", "\\u000b",
      "\\u001F", "\\u0008", "\\n", "\\/", "\\\"", "\\\\", "\\x", "a", "\xC3\xA9", "\xE6\xBC\xA2", "\xF0\x9F\x98\x80",
      "\xF4\x8F\xBF\xBF", "\xED\x9F\xBF", "\xEE\x80\x80", "\x7F",
      // Overlong, surrogates, beyond the last character, bytes that nothing has.
      "\xC0\xAF", "\xC1\xBF", "\xE0\x80\xAF", "\xE0\x9F\xBF", "\xF0\x80\x80\xAF", "\xF0\x8F\xBF\xBF", "\xED\xA0\x80",
      "\xED\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\n", std::string(1, '\0')};
  std::vector<std::string> all = whole;
  all.emplace_back("\"");
  for (const char c : std::string_view("\\u0123456789abcdefABCDEF")) all.emplace_back(1, c);
  for (int byte = 0x80; byte < 0x100; ++byte) all.emplace_back(1, static_cast<char>(byte));
  for (int i = 0; i < 400; ++i) {
    const std::string text = whole[random() % whole.size()] + whole[random() % whole.size()];
    const std::size_t first = random() % text.size();
    all.push_back(text.substr(first, 1 + random() % (text.size() - first)));
  }
  return all;
}

void check(const GrammarSource& source, bool least_escapes, int most, std::mt19937& random) {
  SCOPED_TRACE(source.text);
  const std::vector<std::string> texts = tokens(random);
  std::vector<std::string_view> views(texts.begin(), texts.end());
  views.emplace_back();  // the end
  const auto end = static_cast<std::int32_t>(texts.size());
  const auto trie = std::make_shared<const TokenTrie>(views, std::vector<std::int32_t>{end});
  auto network = compile(source);
  ASSERT_TRUE(network.ok()) << network.status().message();
  const auto masks = std::make_shared<const TokenMasks>(trie, std::move(*network));
  for (int walk = 0; walk < (kSanitized ? 5 : 40); ++walk) {
    Matcher matcher(masks);
    std::string text;
    for (int step = 0; step < 12 && !matcher.ended(); ++step) {
      std::vector<std::uint32_t> words(trie->words());
      ASSERT_TRUE(matcher.allowed(words).ok());
      std::vector<std::int32_t> can;
      for (std::int32_t id = 0; id < end; ++id) {
        const bool allowed = (words[static_cast<std::size_t>(id) / 32] >> (id % 32) & 1U) != 0;
        const std::string next = text + texts[static_cast<std::size_t>(id)];
        ASSERT_EQ(allowed, StringReader(next, least_escapes, most).read() != Read::kWrong)
            << testing::PrintToString(next);
        // Seldom the end: what is behind escapes is looked for.
        if (allowed && (next.back() != '"' || random() % 8 == 0)) can.push_back(id);
      }
      EXPECT_EQ(matcher.complete(), StringReader(text, least_escapes, most).read() == Read::kWhole) << text;
      if (can.empty()) break;
      // Escapes are few among the tokens, and begin what is rarely written.
      std::int32_t taken = can[random() % can.size()];
      for (int tries = 0; tries < 6 && texts[static_cast<std::size_t>(taken)].rfind("\\u", 0) != 0; ++tries) {
        taken = can[random() % can.size()];
      }
      ASSERT_TRUE(matcher.accept(taken));
      text += texts[static_cast<std::size_t>(taken)];
    }
  }
}

TEST(JsonStringsTest, AreWhatStrictParsersTake) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  check({.text = R"({"type":"string"})"}, false, 0, random);
  check({.text = R"({"type":"string"})", .compact = true}, false, 0, random);
}

TEST(JsonStringsTest, OfAFewCharacters) {
  const std::uint32_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "SLUICE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  check({.text = R"({"type":"string","maxLength":3})"}, true, 3, random);
}

// Every pair of escapes: the second one is a low surrogate if, and only if, the first one is a high one.
TEST(JsonStringsTest, SurrogatesComeInPairs) {
  auto network = compile({.text = R"({"type":"string"})"});
  ASSERT_TRUE(network.ok());
  const std::vector<std::string_view> views = {"a", ""};
  const auto trie = std::make_shared<const TokenTrie>(views, std::vector<std::int32_t>{1});
  const auto masks = std::make_shared<const TokenMasks>(trie, std::move(*network));
  const std::vector<std::string> units = {"0041", "d7ff", "d800", "DBFF", "dc00", "DFFF", "e000", "ffff"};
  for (const std::string& first : units) {
    for (const std::string& second : units) {
      const std::string text = "\"\\u" + first + "\\u" + second + "\"";
      Matcher matcher(masks);
      EXPECT_EQ(matcher.accept_bytes(text) && matcher.complete(), StringReader(text, false, 0).read() == Read::kWhole)
          << text;
    }
  }
}

}  // namespace
}  // namespace sluice::json_strings_test
