// Unicode's normal forms and classes for TokenizerNormalizer.
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>

#include "base/check.h"
#include "base/utf8.h"
#include "text/tokenizer/tokenizer_normalizer.h"

namespace sluice {
namespace {

// Characters that combine or compose by utf8proc's tables, but were not assigned yet by those of the `tokenizers`
// package (Unicode 9): it leaves them where they are, and nothing moves or composes across them.
struct Range {
  char32_t first, last;
};
constexpr Range kUnassigned[] = {
    {0x07FD, 0x07FD},   {0x0898, 0x089F},   {0x08CA, 0x08D3},   {0x09FE, 0x09FE},   {0x0C3C, 0x0C3C},
    {0x0D3B, 0x0D3C},   {0x0EBA, 0x0EBA},   {0x1715, 0x1715},   {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},
    {0xA82C, 0xA82C},   {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50},
    {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x11839, 0x1183A},
    {0x11930, 0x11930}, {0x11938, 0x11938}, {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0},
    {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45},
    {0x11D97, 0x11D97}, {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136},
    {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF},
};

// The same of compatible forms, of decomposed ones, and of marks.
constexpr Range kLaterCompatible[] = {
    {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},   {0xAB69, 0xAB69},   {0x10781, 0x10785}, {0x10787, 0x107B0},
    {0x107B2, 0x107BA}, {0x1E030, 0x1E06D}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9},
};
constexpr Range kLaterDecomposed[] = {{0x11938, 0x11938}};
constexpr Range kLaterMarks[] = {
    {0x07FD, 0x07FD},   {0x0898, 0x089F},   {0x08CA, 0x08D3},   {0x09FE, 0x09FE},   {0x0AFA, 0x0AFF},
    {0x0B55, 0x0B55},   {0x0C04, 0x0C04},   {0x0C3C, 0x0C3C},   {0x0CF3, 0x0CF3},   {0x0D00, 0x0D00},
    {0x0D3B, 0x0D3C},   {0x0D81, 0x0D81},   {0x0EBA, 0x0EBA},   {0x0ECE, 0x0ECE},   {0x1715, 0x1715},
    {0x180F, 0x180F},   {0x1ABF, 0x1ACE},   {0x1CF7, 0x1CF7},   {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},
    {0xA8FF, 0xA8FF},   {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50},
    {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x11073, 0x11074}, {0x110C2, 0x110C2}, {0x11145, 0x11146},
    {0x111C9, 0x111C9}, {0x111CE, 0x111CF}, {0x11241, 0x11241}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E},
    {0x1182C, 0x1183A}, {0x11930, 0x11935}, {0x11937, 0x11938}, {0x1193B, 0x1193E}, {0x11940, 0x11940},
    {0x11942, 0x11943}, {0x119D1, 0x119D7}, {0x119DA, 0x119E0}, {0x119E4, 0x119E4}, {0x11A01, 0x11A0A},
    {0x11A33, 0x11A39}, {0x11A3B, 0x11A3E}, {0x11A47, 0x11A47}, {0x11A51, 0x11A5B}, {0x11A8A, 0x11A99},
    {0x11D31, 0x11D36}, {0x11D3A, 0x11D3A}, {0x11D3C, 0x11D3D}, {0x11D3F, 0x11D45}, {0x11D47, 0x11D47},
    {0x11D8A, 0x11D8E}, {0x11D90, 0x11D91}, {0x11D93, 0x11D97}, {0x11EF3, 0x11EF6}, {0x11F00, 0x11F01},
    {0x11F03, 0x11F03}, {0x11F34, 0x11F3A}, {0x11F3E, 0x11F42}, {0x13440, 0x13440}, {0x13447, 0x13455},
    {0x16F4F, 0x16F4F}, {0x16F7F, 0x16F87}, {0x16FE4, 0x16FE4}, {0x16FF0, 0x16FF1}, {0x1CF00, 0x1CF2D},
    {0x1CF30, 0x1CF46}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF},
    {0x1E4EC, 0x1E4EF},
};

// Capitals that utf8proc does not know yet: of each the small letter is `lower` for the first, and so on.
struct Capitals {
  char32_t first, last, lower;
};
constexpr Capitals kLaterCapitals[] = {
    {0x1C89, 0x1C89, 0x1C8A},    {0xA7CB, 0xA7CB, 0x0264},    {0xA7CC, 0xA7CC, 0xA7CD}, {0xA7CE, 0xA7CE, 0xA7CF},
    {0xA7D2, 0xA7D2, 0xA7D3},    {0xA7D4, 0xA7D4, 0xA7D5},    {0xA7DA, 0xA7DA, 0xA7DB}, {0xA7DC, 0xA7DC, 0x019B},
    {0x10D50, 0x10D65, 0x10D70}, {0x16EA0, 0x16EB8, 0x16EBB},
};

template <std::size_t kCount>
bool is_in(const Range (&ranges)[kCount], char32_t c) {
  const Range* range = std::partition_point(ranges, ranges + kCount, [&](const Range& r) { return r.last < c; });
  return range != ranges + kCount && c >= range->first;
}

void append_mapped(std::string_view text, int options, std::string& out) {
  if (text.empty()) return;
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &mapped, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | options));
  SLUICE_CHECK(length >= 0, "valid UTF-8 can be mapped as far as there is memory");
  out.append(reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(length));
  std::free(mapped);
}

}  // namespace

// Below U+0300 every character is its own composed form and none combines; U+0300 is CC 80. ASCII has but one form.
bool is_certainly_normal(std::string_view text, bool composed) {
  const unsigned char limit = composed ? 0xCC : 0x80;
  return std::all_of(text.begin(), text.end(), [&](char c) { return static_cast<unsigned char>(c) < limit; });
}

void append_normal_form(std::string_view text, bool compatible, bool composed, std::string& out) {
  const int options = (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) | (compatible ? UTF8PROC_COMPAT : 0);
  std::size_t done = 0;
  for (std::size_t position = 0; position < text.size();) {
    const Utf8Char next = decode_utf8(text.substr(position));
    const std::size_t end = position + next.length;
    if (is_in(kUnassigned, next.code_point) || (compatible && is_in(kLaterCompatible, next.code_point)) ||
        (!composed && is_in(kLaterDecomposed, next.code_point))) {
      append_mapped(text.substr(done, position - done), options, out);
      out.append(text.substr(position, next.length));
      done = end;
    }
    position = end;
  }
  append_mapped(text.substr(done), options, out);
}

void append_lowercase(std::string_view text, std::string& out) {
  for (std::size_t position = 0; position < text.size();) {
    const Utf8Char next = decode_utf8(text.substr(position));
    const char32_t c = next.code_point;
    if (c == 0x130) {  // the only letter whose lower case is two characters
      out += "i\u0307";
    } else {
      const auto* later =
          std::ranges::find_if(kLaterCapitals, [&](const Capitals& r) { return c >= r.first && c <= r.last; });
      append_utf8(later != std::end(kLaterCapitals)
                      ? later->lower + (c - later->first)
                      : static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))),
                  out);
    }
    position += next.length;
  }
}

void append_without_accents(std::string_view text, std::string& out) {
  for (std::size_t position = 0; position < text.size();) {
    const Utf8Char next = decode_utf8(text.substr(position));
    const char32_t c = next.code_point;
    const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
    const bool is_mark =
        (category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME && !is_in(kLaterMarks, c)) ||
        c == 0x1CF2 || c == 0x1CF3;
    if (!is_mark) out.append(text.substr(position, next.length));
    position += next.length;
  }
}

}  // namespace sluice
