#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "text/pretokenizer_regex.h"

namespace sluice {
namespace {

bool is_alphanumeric(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0;
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_hex(char c) {
  return std::isxdigit(static_cast<unsigned char>(c)) != 0;
}

bool is_general_category(std::string_view name) {
  static constexpr std::array<std::string_view, 37> kCategories = {
      "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe",
      "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Cn", "Co", "Cs"};
  return std::find(kCategories.begin(), kCategories.end(), name) != kCategories.end();
}

// Walks over a pattern once, copying it to the output.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> run() {
    while (position_ < pattern_.size()) {
      SLUICE_RETURN_IF_ERROR(step());
    }
    return std::move(out_);
  }

 private:
  std::string_view rest() const { return pattern_.substr(position_); }

  Status unsupported(std::string_view construct) const {
    return invalid_argument(
        fmt::format("expected a regular expression of supported constructs, found {} at byte {} of \"{}\"", construct,
                    position_, pattern_));
  }

  void copy(std::size_t length) {
    out_.append(pattern_.substr(position_, length));
    position_ += length;
  }

  Status step() {
    switch (pattern_[position_]) {
      case '\\':
        return escape();
      case '[':
        return character_class();
      case '(':
        return group();
      case '{':
        return interval();
      default:
        copy(1);
        return {};
    }
  }

  Status group() {
    if (rest().starts_with("(*")) return unsupported("a control verb \"(*\"");
    if (!rest().starts_with("(?")) {
      copy(1);
      return {};
    }
    for (std::string_view opening : {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"}) {
      if (rest().starts_with(opening)) {
        copy(opening.size());
        return {};
      }
    }
    if (position_ == 0 && rest().starts_with("(?i)")) {
      copy(4);
      return {};
    }
    return unsupported(fmt::format("the group \"{}\"", rest().substr(0, 4)));
  }

  // {n}, {n,} or {n,m}, greedy: with a suffix it means other things to Oniguruma.
  Status interval() {
    std::size_t end = 1;
    while (end < rest().size() && (is_digit(rest()[end]) || rest()[end] == ',')) ++end;
    const std::string_view body = rest().substr(1, end - 1);
    const bool well_formed = end < rest().size() && rest()[end] == '}' && !body.empty() && is_digit(body[0]) &&
                             std::count(body.begin(), body.end(), ',') <= 1;
    if (!well_formed) return unsupported("a brace that is no quantifier {n}, {n,} or {n,m}");
    const char suffix = end + 1 < rest().size() ? rest()[end + 1] : '\0';
    if (suffix == '+' || suffix == '?' || suffix == '*') return unsupported("a suffix behind an interval quantifier");
    copy(end + 1);
    return {};
  }

  Status character_class() {
    copy(1);
    if (rest().starts_with("^")) copy(1);
    if (rest().starts_with("]")) return unsupported("\"]\" as the first character of a class");
    while (position_ < pattern_.size() && pattern_[position_] != ']') {
      if (pattern_[position_] == '[') return unsupported("a nested character class");
      if (rest().starts_with("&&")) return unsupported("an intersection of character classes");
      if (pattern_[position_] == '\\') {
        SLUICE_RETURN_IF_ERROR(escape());
      } else {
        copy(1);
      }
    }
    if (position_ == pattern_.size()) return unsupported("a character class without its end");
    copy(1);
    return {};
  }

  Status escape() {
    if (rest().size() < 2) return unsupported("a backslash at the end");
    const char kind = rest()[1];
    if (kind == 'p' || kind == 'P') return property();
    if (kind == 'x') return hexadecimal();
    if (is_alphanumeric(kind) && std::string_view("sSdDrntf").find(kind) == std::string_view::npos) {
      return unsupported(fmt::format("the escape \"\\{}\"", kind));
    }
    copy(2);
    return {};
  }

  Status property() {
    const std::size_t end = rest().find('}');
    if (!rest().substr(2).starts_with("{") || end == std::string_view::npos) {
      return unsupported("a property without braces");
    }
    const std::string_view body = rest().substr(3, end - 3);
    const std::string_view negation = body.starts_with("^") ? "^" : "";
    const std::string_view name = body.substr(negation.size());
    if (name.empty() || !std::all_of(name.begin(), name.end(), [](char c) { return is_alphanumeric(c) || c == '_'; })) {
      return unsupported(fmt::format("the property \"{}\"", rest().substr(0, end + 1)));
    }
    const std::string_view kind = is_general_category(name) ? "" : "sc:";
    out_ += fmt::format("{}{{{}{}{}}}", rest().substr(0, 2), negation, kind, name);
    position_ += end + 1;
    return {};
  }

  // \x{H...}, or \xHH below 0x80 (from there on it is a raw byte to Oniguruma).
  Status hexadecimal() {
    const std::string_view digits = rest().substr(2);
    if (digits.starts_with("{")) {
      const std::size_t end = digits.find('}');
      const bool well_formed =
          end != std::string_view::npos && end >= 2 && end <= 7 &&
          std::all_of(digits.begin() + 1, digits.begin() + static_cast<std::ptrdiff_t>(end), is_hex);
      if (!well_formed) return unsupported("a malformed \"\\x{\"");
      copy(2 + end + 1);
      return {};
    }
    if (digits.size() < 2 || digits[0] < '0' || digits[0] > '7' || !is_hex(digits[1])) {
      return unsupported("\"\\x\" without braces that is not ASCII");
    }
    copy(4);
    return {};
  }

  std::string_view pattern_;
  std::size_t position_ = 0;
  std::string out_;
};

}  // namespace

Result<std::string> translate_pattern(std::string_view pattern) {
  return Translator(pattern).run();
}

}  // namespace sluice
