// A fast hash of short byte strings for tables in memory. Its values are not stable across versions: never store them.
// Used by bpe.cc and bpe_vocabulary.cc.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace sluice {

// Mixes two words into one: all bits of the 128-bit product, folded.
inline std::uint64_t mix_words(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

inline std::uint64_t hash_bytes(std::string_view bytes) {
  constexpr std::uint64_t kFirst = 0x9E3779B97F4A7C15ULL;
  constexpr std::uint64_t kSecond = 0xD6E8FEB86659FD93ULL;
  std::uint64_t hash = kFirst ^ (bytes.size() * kSecond);
  std::uint64_t word;
  while (bytes.size() > sizeof word) {
    std::memcpy(&word, bytes.data(), sizeof word);
    hash = mix_words(hash ^ word, kSecond);
    bytes.remove_prefix(sizeof word);
  }
  word = 0;
  std::memcpy(&word, bytes.data(), bytes.size());
  return mix_words(hash ^ word, kFirst);
}

}  // namespace sluice
