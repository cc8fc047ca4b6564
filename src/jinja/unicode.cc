// Used by jinja and jinja/library.
#include "jinja/unicode.h"

#include <utf8proc.h>

#include <algorithm>

#include "base/utf8.h"

namespace sluice::jinja {

namespace {

// Calls `take` with each code point.
template <class Take>
void for_each_code_point(std::string_view text, Take take) {
  while (!text.empty()) {
    const Utf8Char c = decode_utf8(text);
    take(c.code_point);
    text.remove_prefix(c.length);
  }
}

std::size_t last_code_point_start(std::string_view text) {
  std::size_t start = text.size() - 1;
  while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0U) == 0x80U) --start;
  return start;
}

template <class IsStripped>
std::string_view strip_left_if(std::string_view text, IsStripped is_stripped) {
  while (!text.empty()) {
    const Utf8Char c = decode_utf8(text);
    if (!is_stripped(text.substr(0, c.length), c.code_point)) break;
    text.remove_prefix(c.length);
  }
  return text;
}

template <class IsStripped>
std::string_view strip_right_if(std::string_view text, IsStripped is_stripped) {
  while (!text.empty()) {
    const std::size_t start = last_code_point_start(text);
    if (!is_stripped(text.substr(start), decode_utf8(text.substr(start)).code_point)) break;
    text = text.substr(0, start);
  }
  return text;
}

char32_t to_upper(char32_t c) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}

char32_t to_lower(char32_t c) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

char32_t to_title(char32_t c) {
  return static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
}

constexpr char32_t kSharpS = 0xDF;  // its capital is two letters

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool is_cased(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL || kind == UTF8PROC_CATEGORY_LT;
}

void append_title(std::string& out, char32_t c) {
  if (c == kSharpS) {
    out += "Ss";
  } else {
    append_utf8(to_title(c), out);
  }
}

}  // namespace

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_letter_or_digit(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return true;
    default:
      return false;
  }
}

bool is_printable(char32_t c) {
  if (c < 0x80) return c >= 0x20 && c < 0x7F;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

std::string_view strip_left(std::string_view text) {
  return strip_left_if(text, [](std::string_view, char32_t c) { return is_space(c); });
}

std::string_view strip_right(std::string_view text) {
  return strip_right_if(text, [](std::string_view, char32_t c) { return is_space(c); });
}

std::string_view strip_left(std::string_view text, std::string_view characters) {
  return strip_left_if(text,
                       [&](std::string_view c, char32_t) { return characters.find(c) != std::string_view::npos; });
}

std::string_view strip_right(std::string_view text, std::string_view characters) {
  return strip_right_if(text,
                        [&](std::string_view c, char32_t) { return characters.find(c) != std::string_view::npos; });
}

std::size_t code_point_bytes(std::string_view text, std::size_t offset) {
  return decode_utf8(text.substr(offset)).length;
}

std::size_t offset_of(const Text& text, std::size_t index) {
  if (text.is_ascii()) return index;
  std::size_t offset = 0;
  for (; index > 0; --index) offset += code_point_bytes(text.bytes, offset);
  return offset;
}

std::string_view slice(const Text& text, std::size_t begin, std::size_t end) {
  const std::string_view bytes = text.bytes;
  if (begin >= end) return {};
  const std::size_t first = offset_of(text, begin);
  if (end == text.length) return bytes.substr(first);
  if (text.is_ascii()) return bytes.substr(first, end - begin);
  std::size_t last = first;
  for (std::size_t i = begin; i < end; ++i) last += code_point_bytes(bytes, last);
  return bytes.substr(first, last - first);
}

std::string reversed(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t start = last_code_point_start(text);
    out += text.substr(start);
    text = text.substr(0, start);
  }
  return out;
}

std::string upper(std::string_view text) {
  std::string out;
  for_each_code_point(text, [&](char32_t c) {
    if (c == kSharpS) {
      out += "SS";
    } else {
      append_utf8(to_upper(c), out);
    }
  });
  return out;
}

std::string lower(std::string_view text) {
  std::string out;
  for_each_code_point(text, [&](char32_t c) { append_utf8(to_lower(c), out); });
  return out;
}

std::string capitalize(std::string_view text) {
  std::string out;
  for_each_code_point(text, [&](char32_t c) {
    if (out.empty()) {
      append_title(out, c);
    } else {
      append_utf8(to_lower(c), out);
    }
  });
  return out;
}

std::string title(std::string_view text) {
  std::string out;
  bool after_letter = false;
  for_each_code_point(text, [&](char32_t c) {
    if (after_letter) {
      append_utf8(to_lower(c), out);
    } else {
      append_title(out, c);
    }
    after_letter = is_cased(c);
  });
  return out;
}

bool is_upper(std::string_view text) {
  bool has_letters = false;
  bool all = true;
  for_each_code_point(text, [&](char32_t c) {
    if (!is_cased(c)) return;
    has_letters = true;
    all = all && category(c) == UTF8PROC_CATEGORY_LU;
  });
  return has_letters && all;
}

bool is_lower(std::string_view text) {
  bool has_letters = false;
  bool all = true;
  for_each_code_point(text, [&](char32_t c) {
    if (!is_cased(c)) return;
    has_letters = true;
    all = all && category(c) == UTF8PROC_CATEGORY_LL;
  });
  return has_letters && all;
}

}  // namespace sluice::jinja
