// Used by many folders, among them base, cli and files.
#include "base/utf8.h"

#include <cstdint>
#include <cstring>

#include "base/check.h"

namespace sluice {
namespace {

struct LeadByte {
  std::size_t length;  // bytes of the character; 0 if no character starts so
  unsigned char second_low, second_high;
};

LeadByte classify(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte < 0xF0) {
    return {3, static_cast<unsigned char>(byte == 0xE0 ? 0xA0 : 0x80),
            static_cast<unsigned char>(byte == 0xED ? 0x9F : 0xBF)};
  }
  if (byte < 0xF5) {
    return {4, static_cast<unsigned char>(byte == 0xF0 ? 0x90 : 0x80),
            static_cast<unsigned char>(byte == 0xF4 ? 0x8F : 0xBF)};
  }
  return {0, 0, 0};
}

// Returns the number of leading ASCII bytes, found eight at a time; it may be up to seven too low.
std::size_t ascii_run(std::string_view text) {
  std::size_t position = 0;
  while (position + sizeof(std::uint64_t) <= text.size()) {
    std::uint64_t word;
    std::memcpy(&word, text.data() + position, sizeof word);
    if ((word & 0x8080808080808080ULL) != 0) break;
    position += sizeof word;
  }
  return position;
}

}  // namespace

Utf8Char decode_utf8(std::string_view text) {
  using Kind = Utf8Char::Kind;
  SLUICE_DCHECK(!text.empty(), "decode_utf8 of an empty text");
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {Kind::kValid, 1, lead};
  const LeadByte form = classify(lead);
  if (form.length == 0) return {Kind::kInvalid, 1, 0};
  char32_t code_point = lead & (0x7FU >> form.length);
  for (std::size_t i = 1; i < form.length; ++i) {
    if (i == text.size()) return {Kind::kIncomplete, i, 0};
    const auto byte = static_cast<unsigned char>(text[i]);
    const unsigned char low = i == 1 ? form.second_low : 0x80;
    const unsigned char high = i == 1 ? form.second_high : 0xBF;
    if (byte < low || byte > high) return {Kind::kInvalid, i, 0};
    code_point = code_point << 6 | (byte & 0x3FU);
  }
  return {Kind::kValid, form.length, code_point};
}

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t position = 0;
  while (position < text.size()) {
    position += ascii_run(text.substr(position));
    if (position == text.size()) break;
    const Utf8Char next = decode_utf8(text.substr(position));
    if (next.kind != Utf8Char::Kind::kValid) break;
    position += next.length;
  }
  return position;
}

std::size_t incomplete_utf8_suffix(std::string_view text) {
  for (std::size_t length = 1; length <= 3 && length <= text.size(); ++length) {
    const std::string_view tail = text.substr(text.size() - length);
    const bool continuation = (static_cast<unsigned char>(tail[0]) & 0xC0U) == 0x80;
    if (continuation) continue;
    const Utf8Char last = decode_utf8(tail);
    return last.kind == Utf8Char::Kind::kIncomplete && last.length == length ? length : 0;
  }
  return 0;
}

void append_utf8(char32_t code_point, std::string& out) {
  const auto tail = [&](unsigned shift) { out.push_back(static_cast<char>(0x80U | ((code_point >> shift) & 0x3FU))); };
  if (code_point < 0x80) {
    out.push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    out.push_back(static_cast<char>(0xC0U | (code_point >> 6)));
    tail(0);
  } else if (code_point < 0x10000) {
    out.push_back(static_cast<char>(0xE0U | (code_point >> 12)));
    tail(6);
    tail(0);
  } else {
    out.push_back(static_cast<char>(0xF0U | (code_point >> 18)));
    tail(12);
    tail(6);
    tail(0);
  }
}

void append_lossy_utf8(std::string_view text, std::string& out) {
  while (!text.empty()) {
    const std::size_t valid = valid_utf8_prefix(text);
    out.append(text.substr(0, valid));
    text.remove_prefix(valid);
    if (text.empty()) break;
    out.append(kReplacementCharacter);
    text.remove_prefix(decode_utf8(text).length);
  }
}

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  append_lossy_utf8(text, out);
  return out;
}

}  // namespace sluice
