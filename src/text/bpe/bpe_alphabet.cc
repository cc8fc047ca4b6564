#include <array>
#include <cstdint>

#include "base/utf8.h"
#include "text/bpe/bpe_vocabulary.h"

namespace sluice {
namespace {

// Printable Latin-1 stands for itself; the other 68 bytes take the characters from U+0100 on, in byte order.
constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr int kCharacters = 0x100 + 68;

constexpr std::array<char16_t, 256> kCharacterOfByte = [] {
  std::array<char16_t, 256> table{};
  char16_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    table[static_cast<std::size_t>(byte)] = stands_for_itself(byte) ? static_cast<char16_t>(byte) : next++;
  }
  return table;
}();

constexpr std::array<std::int16_t, kCharacters> kByteOfCharacter = [] {
  std::array<std::int16_t, kCharacters> table{};
  table.fill(-1);
  for (std::size_t byte = 0; byte < 256; ++byte) table[kCharacterOfByte[byte]] = static_cast<std::int16_t>(byte);
  return table;
}();

}  // namespace

bool append_alphabet_bytes(std::string_view text, std::string& out) {
  const std::size_t original_size = out.size();
  std::size_t position = 0;
  while (position < text.size()) {
    const Utf8Char next = decode_utf8(text.substr(position));
    const bool known =
        next.kind == Utf8Char::Kind::kValid && next.code_point < kCharacters && kByteOfCharacter[next.code_point] >= 0;
    if (!known) {
      out.resize(original_size);
      return false;
    }
    out.push_back(static_cast<char>(kByteOfCharacter[next.code_point]));
    position += next.length;
  }
  return true;
}

std::string alphabet_character(unsigned char byte) {
  std::string character;
  append_utf8(kCharacterOfByte[byte], character);
  return character;
}

}  // namespace sluice
