// Used by jinja/library/number_filters.cc and token_stream.h.
#include "jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "jinja/unicode.h"

namespace sluice::jinja {

namespace {

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

constexpr int digit_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

constexpr bool is_name_char(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

// Longest first.
constexpr std::array<std::string_view, 26> kSigns = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                     "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                     ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

std::string normalize_newlines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text += source[i];
    } else {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize_newlines(source)), rest_(source_) {}

  Result<std::vector<Token>> run() {
    while (status_.ok() && !rest_.empty()) lex_root();
    if (!status_.ok()) return status_;
    push(Token::Type::kEnd);
    return std::move(tokens_);
  }

 private:
  // Text up to the next tag, and the tag.
  void lex_root() {
    std::size_t at = rest_.find('{');
    while (at != std::string_view::npos && !starts_tag(rest_.substr(at))) at = rest_.find('{', at + 1);
    if (at == std::string_view::npos) {
      push_data(rest_);
      advance(rest_.size());
      return;
    }
    const char kind = rest_[at + 1];
    const char mark = at + 2 < rest_.size() ? rest_[at + 2] : '\0';
    push_data(before_tag(rest_.substr(0, at), mark, /*is_variable=*/kind == '{'));
    advance(at + 2 + (mark == '-' || mark == '+' ? 1 : 0));
    if (kind == '#') return skip_comment();
    if (kind == '%' && lex_raw()) return;
    push(kind == '{' ? Token::Type::kVariableBegin : Token::Type::kBlockBegin);
    lex_tag(/*is_variable=*/kind == '{');
  }

  static bool starts_tag(std::string_view text) {
    return text.size() >= 2 && (text[1] == '{' || text[1] == '%' || text[1] == '#');
  }

  // Returns the part of the text before a tag that is left.
  std::string_view before_tag(std::string_view text, char mark, bool is_variable) const {
    if (mark == '-') return strip_right(text);
    if (mark == '+' || is_variable) return text;
    const std::size_t newline = text.rfind('\n');
    const std::size_t start = newline == std::string_view::npos ? 0 : newline + 1;
    const bool at_line_start = newline != std::string_view::npos || line_starting_;
    return at_line_start && strip_left(text.substr(start)).empty() ? text.substr(0, start) : text;
  }

  // The length of an end like "%}" with its mark and the white space that it takes along, 0 if there is none here.
  static std::size_t end_length(std::string_view text, std::string_view end, bool may_keep, bool trims_newline) {
    if (text.starts_with('-') && text.substr(1).starts_with(end)) {
      const std::string_view after = text.substr(1 + end.size());
      return 1 + end.size() + (after.size() - strip_left(after).size());
    }
    if (may_keep && text.starts_with('+') && text.substr(1).starts_with(end)) return 1 + end.size();
    if (!text.starts_with(end)) return 0;
    return end.size() + (trims_newline && text.substr(end.size()).starts_with('\n') ? 1 : 0);
  }

  void skip_comment() {
    for (std::size_t at = 0; at < rest_.size(); ++at) {
      const std::size_t length = end_length(rest_.substr(at), "#}", true, true);
      if (length > 0) return end_tag(at + length);
    }
    fail("a comment is not closed; expected '#}'");
  }

  // {% raw %}...{% endraw %}, from after "{%"; false if it is another tag.
  bool lex_raw() {
    std::string_view text = strip_left(rest_);
    if (!text.starts_with("raw")) return false;
    text = strip_left(text.substr(3));
    const std::size_t length = end_length(text, "%}", false, false);
    if (length == 0) return false;
    end_tag(static_cast<std::size_t>(text.data() - rest_.data()) + length);
    for (std::size_t at = rest_.find("{%"); at != std::string_view::npos; at = rest_.find("{%", at + 1)) {
      std::string_view end = rest_.substr(at + 2);
      const char mark = end.empty() ? '\0' : end.front();
      if (mark == '-' || mark == '+') end.remove_prefix(1);
      end = strip_left(end);
      if (!end.starts_with("endraw")) continue;
      end = strip_left(end.substr(6));
      const std::size_t end_size = end_length(end, "%}", true, true);
      if (end_size == 0) continue;
      push_data(before_tag(rest_.substr(0, at), mark, false));
      end_tag(static_cast<std::size_t>(end.data() - rest_.data()) + end_size);
      return true;
    }
    fail("{% raw %} is not closed; expected {% endraw %}");
    return true;
  }

  void lex_tag(bool is_variable) {
    std::string open;  // expected closing brackets
    while (status_.ok()) {
      if (rest_.empty()) return fail(std::string("a tag is not closed; expected '") + (is_variable ? "}}'" : "%}'"));
      if (open.empty()) {
        const std::size_t length = end_length(rest_, is_variable ? "}}" : "%}", !is_variable, !is_variable);
        if (length > 0) {
          push(is_variable ? Token::Type::kVariableEnd : Token::Type::kBlockEnd);
          return end_tag(length);
        }
      }
      lex_word(open);
    }
  }

  void lex_word(std::string& open) {
    const std::size_t space = rest_.size() - strip_left(rest_).size();
    if (space > 0) return advance(space);
    const char c = rest_.front();
    if (is_digit(c)) return lex_number();
    if (is_name_char(c)) {
      const auto end = std::ranges::find_if_not(rest_, is_name_char);
      const auto length = static_cast<std::size_t>(end - rest_.begin());
      push(Token::Type::kName).text = rest_.substr(0, length);
      return advance(length);
    }
    if (c == '"' || c == '\'') return lex_string(c);
    for (const std::string_view sign : kSigns) {
      if (rest_.starts_with(sign)) return lex_sign(sign, open);
    }
    fail("unexpected character '" + std::string(1, c) + "'");
  }

  void lex_sign(std::string_view sign, std::string& open) {
    if (sign == "(") open += ')';
    if (sign == "[") open += ']';
    if (sign == "{") open += '}';
    if (sign == ")" || sign == "]" || sign == "}") {
      if (open.empty()) return fail("unexpected '" + std::string(sign) + "'");
      if (open.back() != sign.front()) {
        return fail("unexpected '" + std::string(sign) + "', expected '" + open.back() + "'");
      }
      open.pop_back();
    }
    push(Token::Type::kSign).text = sign;
    advance(sign.size());
  }

  // Digits with single underscores between them; their length.
  static std::size_t digits(std::string_view text, int base = 10) {
    std::size_t length = 0;
    while (length < text.size()) {
      const bool joins =
          text[length] == '_' && length > 0 && length + 1 < text.size() && digit_value(text[length + 1]) < base;
      if (digit_value(text[length]) >= base && !joins) break;
      ++length;
    }
    return length;
  }

  // The length of a number with a point or an exponent, 0 if it has neither.
  std::size_t float_length() const {
    const bool after_point = !tokens_.empty() && tokens_.back().type == Token::Type::kSign &&
                             tokens_.back().text == "." && rest_.data() > source_.data() && rest_.data()[-1] == '.';
    if (after_point) return 0;
    const std::size_t whole = digits(rest_);
    std::size_t length = whole;
    if (rest_.substr(length).starts_with('.')) {
      const std::size_t fraction = digits(rest_.substr(length + 1));
      if (fraction > 0) length += 1 + fraction;
    }
    std::string_view exponent = rest_.substr(length);
    if (exponent.starts_with('e') || exponent.starts_with('E')) {
      const std::size_t sign = exponent.substr(1).starts_with('+') || exponent.substr(1).starts_with('-') ? 1 : 0;
      const std::size_t count = digits(exponent.substr(1 + sign));
      if (count > 0) length += 1 + sign + count;
    }
    return length > whole ? length : 0;
  }

  void lex_number() {
    if (const std::size_t length = float_length(); length > 0) {
      std::string text(rest_.substr(0, length));
      std::erase(text, '_');
      double number = 0.0;
      const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (code != std::errc()) return fail("the number " + text + " is beyond the range of 64-bit floats");
      push(Token::Type::kFloat).real = number;
      return advance(length);
    }
    int base = 10;
    std::size_t prefix = 0;
    if (rest_.size() > 2 && rest_[0] == '0') {
      const char kind = static_cast<char>(rest_[1] | 0x20);
      const int given = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
      if (given != 10 && digits(rest_.substr(2), given) > 0) {
        base = given;
        prefix = 2;
      }
    }
    // A decimal number does not start with zeros.
    const bool is_zero = base == 10 && rest_[0] == '0';
    const std::size_t length = prefix + digits(rest_.substr(prefix), is_zero ? 1 : base);
    Int number = 0;
    for (const char c : rest_.substr(prefix, length - prefix)) {
      if (c == '_') continue;
      if (__builtin_mul_overflow(number, Int(base), &number) ||
          __builtin_add_overflow(number, Int(digit_value(c)), &number)) {
        return fail("an integer has too many digits");
      }
    }
    push(Token::Type::kInteger).integer = number;
    advance(length);
  }

  void lex_string(char quote) {
    std::size_t end = 1;
    while (end < rest_.size() && rest_[end] != quote) end += rest_[end] == '\\' ? 2 : 1;
    if (end >= rest_.size()) return fail("a string is not closed");
    std::string text;
    if (!unescape(rest_.substr(1, end - 1), text)) return;
    push(Token::Type::kString).text = std::move(text);
    advance(end + 1);
  }

  // Python's escapes; an unknown one stays as it is written.
  bool unescape(std::string_view raw, std::string& out) {
    constexpr std::string_view kLetters = "abfnrtv\\'\"";
    constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";
    while (!raw.empty()) {
      const std::size_t plain = std::min(raw.find('\\'), raw.size());
      out += raw.substr(0, plain);
      raw.remove_prefix(plain);
      if (raw.empty()) break;
      raw.remove_prefix(1);
      const char c = raw.front();
      if (const std::size_t letter = kLetters.find(c); letter != std::string_view::npos) {
        out += kMeanings[letter];
        raw.remove_prefix(1);
      } else if (c == '\n') {
        raw.remove_prefix(1);
      } else if (c >= '0' && c <= '7') {
        if (!append_code(raw, 0, 3, 8, out)) return false;
      } else if (c == 'x' || c == 'u' || c == 'U') {
        if (!append_code(raw, 1, c == 'x' ? 2 : c == 'u' ? 4 : 8, 16, out)) return false;
      } else if (c == 'N') {
        fail("\\N{name} in a string is not supported; write the character itself");
        return false;
      } else {
        out += '\\';
      }
    }
    return true;
  }

  // A code point by up to (base 8) or exactly (base 16) `count` digits after `skip` bytes.
  bool append_code(std::string_view& raw, std::size_t skip, std::size_t count, int base, std::string& out) {
    char32_t code = 0;
    std::size_t used = 0;
    while (used < count && skip + used < raw.size() && digit_value(raw[skip + used]) < base) {
      code = code * static_cast<char32_t>(base) + static_cast<char32_t>(digit_value(raw[skip + used]));
      ++used;
    }
    const bool is_scalar = code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
    if ((base == 16 && used != count) || !is_scalar) {
      fail("a string has an escape that is no character: '\\" + std::string(raw.substr(0, skip + used)) + "'");
      return false;
    }
    append_utf8(code, out);
    raw.remove_prefix(skip + used);
    return true;
  }

  Token& push(Token::Type type) {
    tokens_.push_back({.type = type, .line = line_});
    return tokens_.back();
  }

  void push_data(std::string_view text) {
    if (!text.empty()) push(Token::Type::kData).text = text;
  }

  // Goes past the end of a tag.
  void end_tag(std::size_t length) {
    line_starting_ = rest_[length - 1] == '\n';
    advance(length);
  }

  void advance(std::size_t length) {
    line_ += static_cast<int>(std::ranges::count(rest_.substr(0, length), '\n'));
    rest_.remove_prefix(length);
  }

  void fail(std::string message) {
    if (status_.ok()) status_ = invalid_argument("line " + std::to_string(line_) + ": " + std::move(message));
  }

  std::string source_;
  std::string_view rest_;
  int line_ = 1;
  bool line_starting_ = true;  // the text begins a line: after a trimmed newline, or at the start
  std::vector<Token> tokens_;
  Status status_;
};

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view source) {
  if (valid_utf8_prefix(source) != source.size()) {
    return invalid_argument("expected UTF-8, found an invalid byte at offset " +
                            std::to_string(valid_utf8_prefix(source)));
  }
  return Lexer(source).run();
}

}  // namespace sluice::jinja
