#include "mutator.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace sluice {
namespace {

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '-';
}

// The word at or after `at`: [start, end), empty at the end of the input.
std::pair<std::size_t, std::size_t> word_at(std::string_view input, std::size_t at) {
  while (at < input.size() && !is_word(input[at])) ++at;
  std::size_t start = at, end = at;
  while (start > 0 && is_word(input[start - 1])) --start;
  while (end < input.size() && is_word(input[end])) ++end;
  return {start, end};
}

}  // namespace

std::string Mutator::make() {
  std::string input = pick();
  for (std::size_t changes = 1 + below(below(2) == 0 ? 2 : 8); changes > 0; --changes) change(input);
  if (input.size() > max_bytes_) input.resize(max_bytes_);
  return input;
}

// Half of the time one of the last that were found.
const std::string& Mutator::pick() {
  constexpr std::size_t kRecent = 50;
  const std::size_t recent = std::min(kRecent, inputs_.size());
  return below(2) == 0 ? inputs_[below(inputs_.size())] : inputs_[inputs_.size() - 1 - below(recent)];
}

// Small, at the limits of a type, or anything.
std::uint64_t Mutator::number() {
  constexpr std::uint64_t kOne = 1;
  switch (below(5)) {
    case 0:
      return below(17);
    case 1:
      return kOne << below(64);
    case 2:
      return (kOne << below(64)) - 1;
    case 3:
      return ~std::uint64_t{0} - below(64);
    default:
      return random_();
  }
}

std::string Mutator::decimal() {
  constexpr std::array kSpecial = {"1e308", "-1e308", "1e-320", "1e999", "-0", "0.1", "1E400", "18446744073709551616"};
  switch (below(4)) {
    case 0:
      return kSpecial[below(kSpecial.size())];
    case 1:
      return std::to_string(static_cast<std::int64_t>(number()));
    default:
      return std::to_string(number());
  }
}

void Mutator::change(std::string& input) {
  const std::size_t at = below(input.size() + 1);
  switch (below(3)) {
    case 0:
      return change_bytes(input, at);
    case 1:
      return change_range(input, at);
    default:
      return change_token(input, at);
  }
}

void Mutator::change_bytes(std::string& input, std::size_t at) {
  const std::size_t rest = input.size() - at;
  if (rest == 0) return;
  switch (below(3)) {
    case 0:
      input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
      return;
    case 1:
      input[at] = static_cast<char>(number());
      return;
    default: {  // an integer of 2, 4 or 8 bytes
      const std::uint64_t value = number();
      std::memcpy(input.data() + at, &value, std::min(std::size_t{2} << below(3), rest));
      return;
    }
  }
}

void Mutator::change_range(std::string& input, std::size_t at) {
  const std::size_t length = std::min(input.size() - at, 1 + below(below(2) == 0 ? 8 : 256));
  switch (below(5)) {
    case 0:
      input.erase(at, length);
      return;
    case 1: {  // again, once or many times
      const std::string piece = input.substr(at, length);
      for (std::size_t times = below(8) == 0 ? below(600) : 1; times > 0 && input.size() < max_bytes_; --times) {
        input.insert(at, piece);
      }
      return;
    }
    case 2:
      input.insert(below(input.size() + 1), input.substr(at, length));
      return;
    case 3:
      if (below(4) == 0) input.resize(at);
      return;
    default: {  // the rest of another input
      const std::string& other = pick();
      const std::size_t from = std::min(other.size(), below(2) == 0 ? at : below(other.size() + 1));
      input = input.substr(0, at) + other.substr(from);
      return;
    }
  }
}

void Mutator::change_token(std::string& input, std::size_t at) {
  const auto [start, end] = word_at(input, at);
  switch (below(5)) {
    case 0:
      if (!words_.empty()) input.insert(at, words_[below(words_.size())]);
      return;
    case 1:
      if (!words_.empty()) input.replace(start, end - start, words_[below(words_.size())]);
      return;
    case 2: {  // a word of another place
      const std::string& other = pick();
      const auto [from, to] = word_at(other, below(other.size() + 1));
      input.replace(start, end - start, other.substr(from, to - from));
      return;
    }
    case 3:
      input.replace(start, end - start, decimal());
      return;
    default:
      input.erase(start, end - start);
      return;
  }
}

}  // namespace sluice
