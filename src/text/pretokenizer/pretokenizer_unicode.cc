#include <algorithm>
#include <array>
#include <cstddef>

#include "base/utf8.h"
#include "text/pretokenizer/pretokenizer.h"

namespace sluice {
namespace {

// A character of each general category, of three and of four bytes, that PCRE2 10.42 (Unicode 14) knows. No pattern
// that lists letters by hand happens to list them. If such a pattern has a long range of everything (DeepSeek-V2's from
// U+0800 to U+4E00), they lie in or outside of it as the characters do that they stand for. Zero where none is needed.
struct Stand {
  char32_t three_bytes, four_bytes;
};
constexpr Stand kCf = {0x2066, 0x110CD};
constexpr Stand kLl = {0xA7C3, 0x10597};
constexpr Stand kLowLl = {0x1C88, 0x00000};  // under U+4E00
constexpr Stand kLm = {0x08C9, 0x1AFF0};
constexpr Stand kHanScript = {0x0000, 0x30000};  // also in the script Han
constexpr Stand kLo = {0x08BE, 0x10FB0};
constexpr Stand kLu = {0xA7C2, 0x10570};
constexpr Stand kLowLu = {0x10C7, 0x00000};
constexpr Stand kMc = {0x1715, 0x11930};
constexpr Stand kMn = {0x0898, 0x1193B};
constexpr Stand kNd = {0x0000, 0x11950};
constexpr Stand kNo = {0x0000, 0x10FC5};
constexpr Stand kPd = {0x0000, 0x10EAD};
constexpr Stand kPo = {0x1B7D, 0x10F86};
constexpr Stand kSm = {0x0000, 0x1EEF0};
constexpr Stand kSo = {0x2E50, 0x1FAF0};

struct Row {
  char32_t first, last;
  Stand stand;
};

// The characters that Unicode 14 did not have or classed otherwise than Unicode 16. U+180E was a space once, and still
// is to PCRE2's \s.
constexpr Row kRows[] = {
    // clang-format off
    {0x0897, 0x0897, kMn}, {0x0CF3, 0x0CF3, kMc}, {0x0ECE, 0x0ECE, kMn}, {0x180E, 0x180E, kCf}, {0x1B4E, 0x1B4F, kPo},
    {0x1B7F, 0x1B7F, kPo}, {0x1C89, 0x1C89, kLowLu}, {0x1C8A, 0x1C8A, kLowLl},
    {0x2427, 0x2429, kSo}, {0x2FFC, 0x2FFF, kSo},
    {0x31E4, 0x31E5, kSo}, {0x31EF, 0x31EF, kSo}, {0xA7CB, 0xA7CC, kLu}, {0xA7CD, 0xA7CD, kLl}, {0xA7DA, 0xA7DA, kLu},
    {0xA7DB, 0xA7DB, kLl}, {0xA7DC, 0xA7DC, kLu}, {0x105C0, 0x105F3, kLo}, {0x10D40, 0x10D49, kNd},
    {0x10D4A, 0x10D4D, kLo}, {0x10D4E, 0x10D4E, kLm}, {0x10D4F, 0x10D4F, kLo}, {0x10D50, 0x10D65, kLu},
    {0x10D69, 0x10D6D, kMn}, {0x10D6E, 0x10D6E, kPd}, {0x10D6F, 0x10D6F, kLm}, {0x10D70, 0x10D85, kLl},
    {0x10D8E, 0x10D8F, kSm}, {0x10EC2, 0x10EC4, kLo}, {0x10EFC, 0x10EFF, kMn}, {0x1123F, 0x11240, kLo},
    {0x11241, 0x11241, kMn}, {0x11380, 0x11389, kLo}, {0x1138B, 0x1138B, kLo}, {0x1138E, 0x1138E, kLo},
    {0x11390, 0x113B5, kLo}, {0x113B7, 0x113B7, kLo}, {0x113B8, 0x113BA, kMc}, {0x113BB, 0x113C0, kMn},
    {0x113C2, 0x113C2, kMc}, {0x113C5, 0x113C5, kMc}, {0x113C7, 0x113CA, kMc}, {0x113CC, 0x113CD, kMc},
    {0x113CE, 0x113CE, kMn}, {0x113CF, 0x113CF, kMc}, {0x113D0, 0x113D0, kMn}, {0x113D1, 0x113D1, kLo},
    {0x113D2, 0x113D2, kMn}, {0x113D3, 0x113D3, kLo}, {0x113D4, 0x113D5, kPo}, {0x113D7, 0x113D8, kPo},
    {0x113E1, 0x113E2, kMn}, {0x116D0, 0x116E3, kNd}, {0x1171E, 0x1171E, kMc}, {0x11B00, 0x11B09, kPo},
    {0x11BC0, 0x11BE0, kLo}, {0x11BE1, 0x11BE1, kPo}, {0x11BF0, 0x11BF9, kNd}, {0x11F00, 0x11F01, kMn},
    {0x11F02, 0x11F02, kLo}, {0x11F03, 0x11F03, kMc}, {0x11F04, 0x11F10, kLo}, {0x11F12, 0x11F33, kLo},
    {0x11F34, 0x11F35, kMc}, {0x11F36, 0x11F3A, kMn}, {0x11F3E, 0x11F3F, kMc}, {0x11F40, 0x11F40, kMn},
    {0x11F41, 0x11F41, kMc}, {0x11F42, 0x11F42, kMn}, {0x11F43, 0x11F4F, kPo}, {0x11F50, 0x11F59, kNd},
    {0x11F5A, 0x11F5A, kMn}, {0x1342F, 0x1342F, kLo}, {0x13439, 0x1343F, kCf}, {0x13440, 0x13440, kMn},
    {0x13441, 0x13446, kLo}, {0x13447, 0x13455, kMn}, {0x13460, 0x143FA, kLo}, {0x16100, 0x1611D, kLo},
    {0x1611E, 0x16129, kMn}, {0x1612A, 0x1612C, kMc}, {0x1612D, 0x1612F, kMn}, {0x16130, 0x16139, kNd},
    {0x16D40, 0x16D42, kLm}, {0x16D43, 0x16D6A, kLo}, {0x16D6B, 0x16D6C, kLm}, {0x16D6D, 0x16D6F, kPo},
    {0x16D70, 0x16D79, kNd}, {0x18CFF, 0x18CFF, kLo}, {0x1B132, 0x1B132, kLo}, {0x1B155, 0x1B155, kLo},
    {0x1CC00, 0x1CCEF, kSo}, {0x1CCF0, 0x1CCF9, kNd}, {0x1CD00, 0x1CEB3, kSo}, {0x1D2C0, 0x1D2D3, kNo},
    {0x1DF25, 0x1DF2A, kLl}, {0x1E030, 0x1E06D, kLm}, {0x1E08F, 0x1E08F, kMn}, {0x1E4D0, 0x1E4EA, kLo},
    {0x1E4EB, 0x1E4EB, kLm}, {0x1E4EC, 0x1E4EF, kMn}, {0x1E4F0, 0x1E4F9, kNd}, {0x1E5D0, 0x1E5ED, kLo},
    {0x1E5EE, 0x1E5EF, kMn}, {0x1E5F0, 0x1E5F0, kLo}, {0x1E5F1, 0x1E5FA, kNd}, {0x1E5FF, 0x1E5FF, kPo},
    {0x1F6DC, 0x1F6DC, kSo}, {0x1F774, 0x1F776, kSo}, {0x1F77B, 0x1F77F, kSo}, {0x1F7D9, 0x1F7D9, kSo},
    {0x1F8B2, 0x1F8BB, kSo}, {0x1F8C0, 0x1F8C1, kSo}, {0x1FA75, 0x1FA77, kSo}, {0x1FA87, 0x1FA89, kSo},
    {0x1FA8F, 0x1FA8F, kSo}, {0x1FAAD, 0x1FAAF, kSo}, {0x1FABB, 0x1FABF, kSo}, {0x1FAC6, 0x1FAC6, kSo},
    {0x1FACE, 0x1FACF, kSo}, {0x1FADA, 0x1FADC, kSo}, {0x1FADF, 0x1FADF, kSo}, {0x1FAE8, 0x1FAE9, kSo},
    {0x1FAF7, 0x1FAF8, kSo}, {0x1FBCB, 0x1FBEF, kSo}, {0x2B739, 0x2B739, kHanScript}, {0x2EBF0, 0x2EE5D, kHanScript},
    {0x31350, 0x323AF, kHanScript},
    // clang-format on
};

constexpr unsigned kBlockBits = 8;

// The blocks of 256 characters that have a row at all.
constexpr std::array<bool, (0x110000 >> kBlockBits)> kBlocks = [] {
  std::array<bool, (0x110000 >> kBlockBits)> blocks{};
  for (const Row& row : kRows) {
    for (char32_t block = row.first >> kBlockBits; block <= row.last >> kBlockBits; ++block) blocks[block] = true;
  }
  return blocks;
}();

}  // namespace

char32_t regex_shape(char32_t character) {
  const char32_t c = character;
  if (!kBlocks[c >> kBlockBits]) return c;
  const Row* row = std::partition_point(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.last < c; });
  if (row == std::end(kRows) || c < row->first) return c;
  return c < 0x10000 ? row->stand.three_bytes : row->stand.four_bytes;
}

std::string_view regex_shape(std::string_view text, std::string& buffer) {
  bool replaced = false;
  std::size_t position = 0;
  while (position < text.size()) {
    // Every row is of three or four bytes.
    if (static_cast<unsigned char>(text[position]) < 0xE0) {
      ++position;
      continue;
    }
    const Utf8Char next = decode_utf8(text.substr(position));
    const char32_t stand = regex_shape(next.code_point);
    if (stand != next.code_point) {
      if (!replaced) buffer.assign(text);
      replaced = true;
      std::string bytes;
      append_utf8(stand, bytes);
      buffer.replace(position, next.length, bytes);
    }
    position += next.length;
  }
  return replaced ? std::string_view(buffer) : text;
}

}  // namespace sluice
