// Used by deepseek_v3_parser.h and json_call.h.
#include "text/chat/parsers/json_prefix.h"

#include <array>
#include <utility>

namespace sluice {

namespace {

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

constexpr std::array<std::string_view, 3> kWords = {"true", "false", "null"};

enum class Prefix { kNo, kPart, kWhole };

// Returns whether `text` is a number of JSON, or the start of one.
Prefix number_prefix(std::string_view text) {
  std::size_t i = 0;
  const auto digits = [&] {
    const std::size_t begin = i;
    while (i < text.size() && is_digit(text[i])) ++i;
    return i - begin;
  };
  if (i < text.size() && text[i] == '-') ++i;
  if (i == text.size()) return Prefix::kPart;
  if (text[i] == '0') {
    ++i;
  } else if (digits() == 0) {
    return Prefix::kNo;
  }
  if (i < text.size() && text[i] == '.') {
    ++i;
    if (digits() == 0) return i == text.size() ? Prefix::kPart : Prefix::kNo;
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
    if (digits() == 0) return i == text.size() ? Prefix::kPart : Prefix::kNo;
  }
  return i == text.size() ? Prefix::kWhole : Prefix::kNo;
}

}  // namespace

std::size_t JsonPrefix::push(std::string_view text) {
  std::size_t used = 0;
  while (used < text.size() && status_ == Status::kOpen && take_byte(text[used])) ++used;
  return used;
}

void JsonPrefix::finish() {
  if (status_ == Status::kOpen && state_ == State::kNumber && open_.empty() && number_is_complete()) end_value();
}

std::string JsonPrefix::take() {
  return std::exchange(ready_, {});
}

std::string JsonPrefix::completion() const {
  if (!passed_any_) return "null";
  std::string closing = passed_open_string_ ? "\"" : "";
  closing.append(open_.rbegin(), open_.rend());
  return closing;
}

bool JsonPrefix::number_is_complete() const {
  return number_prefix(token_) == Prefix::kWhole;
}

// Everything read so far can be closed.
void JsonPrefix::pass_on() {
  ready_ += std::exchange(held_, {});
  passed_any_ = true;
  passed_open_string_ = state_ == State::kString;
}

void JsonPrefix::end_value() {
  state_ = State::kAfterValue;
  pass_on();
  if (!open_.empty()) return;
  state_ = State::kDone;
  status_ = Status::kComplete;
}

bool JsonPrefix::take_byte(char c) {
  const bool ends_number =
      state_ == State::kNumber && !is_digit(c) && std::string_view("+-.eE").find(c) == std::string_view::npos;
  if (ends_number) {
    if (!number_is_complete()) {
      status_ = Status::kBroken;
      return false;
    }
    end_value();
    if (status_ == Status::kComplete) return false;  // the byte comes after the value
  }
  const bool within_token = state_ == State::kString || state_ == State::kEscape || state_ == State::kUnicode ||
                            state_ == State::kNumber || state_ == State::kWord || state_ == State::kLowSurrogate;
  if (!within_token && is_space(c)) {
    if (!is_empty()) held_ += c;  // white space before the value is not its own
    return true;
  }
  held_ += c;
  if (take_value_byte(c)) return true;
  status_ = Status::kBroken;
  held_.clear();
  return false;
}

bool JsonPrefix::take_value_byte(char c) {
  switch (state_) {
    case State::kValueOrEnd:
      if (c == ']') return close(c);
      [[fallthrough]];
    case State::kValue:
      if (c == '{' || c == '[') {
        if (open_.size() >= kMaxDepth) return false;
        open_ += c == '{' ? '}' : ']';
        state_ = c == '{' ? State::kKeyOrEnd : State::kValueOrEnd;
        pass_on();
        return true;
      }
      if (c == '"') {
        is_key_ = false;
        state_ = State::kString;
        pass_on();
        return true;
      }
      token_ = c;
      state_ = c == '-' || is_digit(c) ? State::kNumber : State::kWord;
      return c == '-' || is_digit(c) || c == 't' || c == 'f' || c == 'n';
    case State::kKeyOrEnd:
      if (c == '}') return close(c);
      [[fallthrough]];
    case State::kKey:
      is_key_ = true;
      state_ = State::kString;
      return c == '"';
    case State::kColon:
      state_ = State::kValue;
      return c == ':';
    case State::kString:
    case State::kEscape:
    case State::kUnicode:
    case State::kLowSurrogate:
      return take_string_byte(c);
    case State::kNumber:
      token_ += c;
      return number_prefix(token_) != Prefix::kNo && token_.size() < 64;
    case State::kWord: {
      token_ += c;
      for (const std::string_view word : kWords) {
        if (word == token_) end_value();
        if (word.starts_with(token_)) return true;
      }
      return false;
    }
    case State::kAfterValue:
      return take_after_value(c);
    case State::kDone:
      break;
  }
  return false;
}

bool JsonPrefix::take_string_byte(char c) {
  if (state_ == State::kLowSurrogate) {
    if (c != '\\') return false;
    state_ = State::kEscape;
    return true;
  }
  if (state_ != State::kString) return take_escape_byte(c);
  if (c == '\\') {
    state_ = State::kEscape;
    return true;
  }
  if (c == '"') {
    if (!is_key_) {
      end_value();
    } else {
      state_ = State::kColon;
    }
    return true;
  }
  if (static_cast<unsigned char>(c) < 0x20) return false;
  if (!is_key_) pass_on();
  return true;
}

bool JsonPrefix::take_escape_byte(char c) {
  if (state_ == State::kEscape) {
    if (c == 'u') {
      state_ = State::kUnicode;
      token_.clear();
      return true;
    }
    if (after_high_half_ || std::string_view("\"\\/bfnrt").find(c) == std::string_view::npos) return false;
    state_ = State::kString;
    if (!is_key_) pass_on();
    return true;
  }
  if (hex_digit(c) < 0) return false;
  token_ += c;
  if (token_.size() < 4) return true;
  std::uint32_t unit = 0;
  for (const char digit : token_) unit = unit * 16 + static_cast<std::uint32_t>(hex_digit(digit));
  const bool is_low = unit >= 0xDC00 && unit <= 0xDFFF;
  if (is_low != after_high_half_) return false;
  after_high_half_ = unit >= 0xD800 && unit <= 0xDBFF;
  state_ = after_high_half_ ? State::kLowSurrogate : State::kString;
  if (!is_key_ && !after_high_half_) pass_on();
  return true;
}

bool JsonPrefix::take_after_value(char c) {
  if (c == ',') {
    state_ = open_.back() == '}' ? State::kKey : State::kValue;
    return true;
  }
  return close(c);
}

bool JsonPrefix::close(char bracket) {
  if (open_.empty() || open_.back() != bracket) return false;
  open_.pop_back();
  end_value();
  return true;
}

}  // namespace sluice
