#include "base/utf8.h"

#include <gtest/gtest.h>

namespace sluice::utf8_test {
namespace {

using namespace std::string_literals;

std::string lossy(std::string_view text) {
  std::string out;
  append_lossy_utf8(text, out);
  return out;
}

TEST(Utf8, EveryCodePointRoundTrips) {
  for (char32_t code_point = 0; code_point <= 0x10FFFF; ++code_point) {
    if (code_point >= 0xD800 && code_point <= 0xDFFF) continue;
    std::string text;
    append_utf8(code_point, text);
    const Utf8Char decoded = decode_utf8(text);
    ASSERT_EQ(decoded.kind, Utf8Char::Kind::kValid) << static_cast<unsigned>(code_point);
    ASSERT_EQ(decoded.code_point, code_point);
    ASSERT_EQ(decoded.length, text.size());
    ASSERT_EQ(valid_utf8_prefix(text), text.size());
    ASSERT_EQ(incomplete_utf8_suffix(text), 0U);
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      ASSERT_EQ(incomplete_utf8_suffix(text.substr(0, cut)), cut);
      ASSERT_EQ(valid_utf8_prefix(text.substr(0, cut)), 0U);
    }
  }
}

TEST(Utf8, TheOffsetOfTheFirstBadSequence) {
  EXPECT_EQ(valid_utf8_prefix(""), 0U);
  EXPECT_EQ(valid_utf8_prefix("plain ascii of some length"), 26U);
  EXPECT_EQ(valid_utf8_prefix("0123456789abcdef\xFFxyz"), 16U);
  EXPECT_EQ(valid_utf8_prefix("ab\xC3"), 2U);
  EXPECT_EQ(valid_utf8_prefix("ab\xC3\xA9\xE2\x82z"), 4U);
  EXPECT_EQ(valid_utf8_prefix("\xC0\x80"), 0U);           // overlong
  EXPECT_EQ(valid_utf8_prefix("a\xED\xA0\x80"), 1U);      // surrogate
  EXPECT_EQ(valid_utf8_prefix("a\xF4\x90\x80\x80"), 1U);  // above U+10FFFF
  EXPECT_EQ(valid_utf8_prefix("a\xE0\x9F\xBF"), 1U);
  EXPECT_EQ(valid_utf8_prefix("a\xF0\x8F\xBF\xBF"), 1U);
}

TEST(Utf8, AnIncompleteSuffixIsOnlyWhatCanStillBecomeValid) {
  EXPECT_EQ(incomplete_utf8_suffix(""), 0U);
  EXPECT_EQ(incomplete_utf8_suffix("a\xE2\x82"), 2U);
  EXPECT_EQ(incomplete_utf8_suffix("\x80\x80"), 0U);  // no lead byte
  EXPECT_EQ(incomplete_utf8_suffix("\xE0\x80"), 0U);  // overlong whatever follows
  EXPECT_EQ(incomplete_utf8_suffix("\xF5\x80"), 0U);
  EXPECT_EQ(incomplete_utf8_suffix("\xC3\xA9\x80"), 0U);  // complete, then a stray byte
}

TEST(Utf8, LossyDecodingReplacesMaximalSubparts) {
  const std::string r(kReplacementCharacter);
  EXPECT_EQ(lossy("h\xC3\xA9"), "h\xC3\xA9");
  EXPECT_EQ(lossy("a\xFF"
                  "b"),
            "a" + r + "b");
  EXPECT_EQ(lossy("\xE2\x82"), r);  // one for a truncated character
  EXPECT_EQ(lossy("\xE2\x82z"), r + "z");
  EXPECT_EQ(lossy("\xE0\x80\x80"), r + r + r);  // overlong: no byte after E0 fits
  EXPECT_EQ(lossy("\xED\xA0\x80"), r + r + r);  // surrogate
  EXPECT_EQ(lossy("\xF0\x90\x8D\xE2\x82\xAC"), r + "\xE2\x82\xAC");
  // The Unicode standard's example (section 3.9, table 3-8).
  EXPECT_EQ(lossy("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "a" + r + r + r + "b" + r + "c" + r + r + "d");
}

}  // namespace
}  // namespace sluice::utf8_test
