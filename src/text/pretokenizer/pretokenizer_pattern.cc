// translate_pattern: from Oniguruma's language to PCRE2's.
// Used by pretokenizer_class.cc and pretokenizer_json.cc.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "text/pretokenizer/pretokenizer_class.h"
#include "text/pretokenizer/pretokenizer_regex.h"

namespace sluice {
namespace {

constexpr int kMaxNestedClasses = 32;

bool is_alphanumeric(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0;
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_hex(char c) {
  return std::isxdigit(static_cast<unsigned char>(c)) != 0;
}

// Walks over a pattern once, writing the translation.
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
  void replace(std::size_t length, std::string_view by) {
    out_ += by;
    position_ += length;
  }

  Status step() {
    switch (pattern_[position_]) {
      case '\\':
        return escape();
      case '[': {
        PatternClass set;
        SLUICE_RETURN_IF_ERROR(character_class(set, 0));
        out_ += set.pattern();
        return {};
      }
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
    for (std::string_view opening : {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?-i:", "(?x:"}) {
      if (rest().starts_with(opening)) {
        copy(opening.size());
        return {};
      }
    }
    if (rest().starts_with("(?m:")) {  // there "." is a line's end, too
      replace(4, "(?s:");
      return {};
    }
    if (position_ == 0 && rest().starts_with("(?i)")) {
      copy(4);
      return {};
    }
    if (rest().size() > 3 && rest()[2] == '<' && is_alphanumeric(rest()[3])) {  // a name, which nothing refers to
      const std::size_t end = rest().find('>');
      if (end != std::string_view::npos) {
        replace(end + 1, "(");
        return {};
      }
    }
    return unsupported(fmt::format("the group \"{}\"", rest().substr(0, 4)));
  }

  // {n}, {n,}, {,m} or {n,m}; other braces are characters.
  Status interval() {
    std::size_t end = 1;
    while (end < rest().size() && (is_digit(rest()[end]) || rest()[end] == ',')) ++end;
    const std::string_view body = rest().substr(1, end - 1);
    const bool well_formed = end < rest().size() && rest()[end] == '}' &&
                             body.size() > (body.starts_with(",") ? 1 : 0) &&
                             std::count(body.begin(), body.end(), ',') <= 1;
    if (!well_formed) {
      replace(1, "\\{");
      return {};
    }
    const char suffix = end + 1 < rest().size() ? rest()[end + 1] : '\0';
    const bool is_range = body.find(',') != std::string_view::npos;
    if (suffix == '+' || suffix == '*' || (suffix == '?' && !is_range)) {
      return unsupported("a suffix behind an interval quantifier");
    }
    replace(end + 1, fmt::format("{{{}{}}}", body.starts_with(",") ? "0" : "", body));
    return {};
  }

  // One character of a class that may begin or end a range: its spelling for PCRE2.
  Result<std::string> class_character() {
    const std::size_t begin = position_;
    if (rest()[0] == '\\') {
      if (rest().size() < 2) return unsupported("a backslash at the end");
      std::string spelling;
      SLUICE_RETURN_IF_ERROR(character_escape(spelling));
      return spelling;
    }
    ++position_;
    while (position_ < pattern_.size() && (static_cast<unsigned char>(pattern_[position_]) & 0xC0U) == 0x80)
      ++position_;
    const std::string_view text = pattern_.substr(begin, position_ - begin);
    return std::string(text == "-" ? "\\" : "") + std::string(text);
  }

  // Returns whether a class of its own begins here, as "\w", "\p{L}" or "[:alpha:]"; it is added to `set` then.
  Result<bool> class_in_class(PatternClass& set, int depth) {
    if (rest().starts_with("[:")) {
      const std::size_t end = rest().find(":]");
      const bool negated = rest().starts_with("[:^");
      const std::size_t begin = negated ? 3 : 2;
      auto named = end == std::string_view::npos || end < begin
                       ? std::nullopt
                       : named_class(rest().substr(begin, end - begin), /*posix=*/true);
      if (named.has_value()) {
        if (negated) named->negate();
        set.add(*named);
        position_ += end + 2;
        return true;
      }
      return unsupported("an unknown POSIX class");
    }
    if (rest()[0] == '[') {
      if (depth == kMaxNestedClasses) return unsupported("a class too deep in others");
      PatternClass inner;
      SLUICE_RETURN_IF_ERROR(character_class(inner, depth + 1));
      set.add(inner);
      return true;
    }
    if (rest().size() < 2 || rest()[0] != '\\') return false;
    return class_escape(set, /*in_class=*/true);
  }

  Status character_class(PatternClass& set, int depth) {
    ++position_;
    if (rest().starts_with("^")) {
      set.negate();
      ++position_;
    }
    if (rest().starts_with("]")) return unsupported("\"]\" as the first character of a class");
    while (position_ < pattern_.size() && pattern_[position_] != ']') {
      if (rest().starts_with("&&")) {
        position_ += 2;
        set.intersect();
        continue;
      }
      SLUICE_ASSIGN_OR_RETURN(const bool is_class, class_in_class(set, depth));
      if (is_class) {
        const bool is_range = rest().size() > 1 && rest()[0] == '-' && rest()[1] != ']';
        if (is_range) return unsupported("a range that begins with a class");
        continue;
      }
      SLUICE_ASSIGN_OR_RETURN(std::string item, class_character());
      if (rest().size() > 1 && rest()[0] == '-' && rest()[1] != ']' && !rest().starts_with("-&&")) {
        ++position_;
        if (rest()[0] == '[') return unsupported("a range that ends with a class");
        SLUICE_ASSIGN_OR_RETURN(const std::string last, class_character());
        item += "-" + last;
      }
      set.add(item);
    }
    if (position_ == pattern_.size()) return unsupported("a character class without its end");
    ++position_;
    return {};
  }

  // Adds the class that an escape stands for to `set`; false if it stands for none.
  Result<bool> class_escape(PatternClass& set, bool in_class) {
    const char kind = rest()[1];
    PatternClass found;
    switch (kind) {
      case 'w':
      case 'W':
        found = word_class(in_class);
        break;
      case 'h':
      case 'H':
        found.add("0-9A-Fa-f");
        break;
      case 's':
      case 'S':
      case 'd':
      case 'D':
        set.add(rest().substr(0, 2));
        position_ += 2;
        return true;
      case 'p':
      case 'P': {
        SLUICE_RETURN_IF_ERROR(property(found));
        set.add(found);
        return true;
      }
      default:
        return false;
    }
    if (std::isupper(static_cast<unsigned char>(kind)) != 0) found.negate();
    set.add(found);
    position_ += 2;
    return true;
  }

  Status property(PatternClass& set) {
    const std::size_t end = rest().find('}');
    if (!rest().substr(2).starts_with("{") || end == std::string_view::npos) {
      return unsupported("a property without braces");
    }
    std::string_view name = rest().substr(3, end - 3);
    bool negated = rest()[1] == 'P';
    if (name.starts_with("^")) {
      negated = !negated;
      name.remove_prefix(1);
    }
    auto named = named_class(name, /*posix=*/false);
    if (!named.has_value()) return unsupported(fmt::format("the property \"{}\"", rest().substr(0, end + 1)));
    if (negated) named->negate();
    set = std::move(*named);
    position_ += end + 1;
    return {};
  }

  Status escape() {
    if (rest().size() < 2) return unsupported("a backslash at the end");
    PatternClass set;
    SLUICE_ASSIGN_OR_RETURN(const bool is_class, class_escape(set, /*in_class=*/false));
    if (is_class) {
      out_ += set.pattern();
      return {};
    }
    const std::string word = word_class(/*in_class=*/false).pattern();
    switch (rest()[1]) {
      case 'b':
        replace(2, fmt::format("(?:(?<={0})(?!{0})|(?<!{0})(?={0}))", word));
        return {};
      case 'B':
        replace(2, fmt::format("(?:(?<={0})(?={0})|(?<!{0})(?!{0}))", word));
        return {};
      case 'R':
        replace(2, R"((?>\r\n|[\n\x0B\f\r\x{85}\x{2028}\x{2029}]))");
        return {};
      case 'N':
        replace(2, "[^\\n]");
        return {};
      case 'O':
        replace(2, "(?s:.)");
        return {};
      case 'X':
      case 'A':
      case 'z':
      case 'Z':
        copy(2);
        return {};
      default:
        return character_escape(out_);
    }
  }

  // An escape that stands for one character.
  Status character_escape(std::string& out) {
    const char kind = rest()[1];
    if (kind == 'x') return hexadecimal(out);
    if (kind == 'v' || kind == 'a' || kind == 'e') {  // "\v" is a whole class to PCRE2
      out += kind == 'v' ? "\\x0B" : kind == 'a' ? "\\x07" : "\\x1B";
      position_ += 2;
      return {};
    }
    if (is_alphanumeric(kind) && std::string_view("rntf").find(kind) == std::string_view::npos) {
      return unsupported(fmt::format("the escape \"\\{}\"", kind));
    }
    out.append(rest().substr(0, 2));
    position_ += 2;
    return {};
  }

  // \x{H...}, or \xHH below 0x80 (from there on it is a raw byte to Oniguruma).
  Status hexadecimal(std::string& out) {
    const std::string_view digits = rest().substr(2);
    std::size_t length = 4;
    if (digits.starts_with("{")) {
      const std::size_t end = digits.find('}');
      const bool well_formed =
          end != std::string_view::npos && end >= 2 && end <= 7 &&
          std::all_of(digits.begin() + 1, digits.begin() + static_cast<std::ptrdiff_t>(end), is_hex);
      if (!well_formed) return unsupported("a malformed \"\\x{\"");
      length = 2 + end + 1;
    } else if (digits.size() < 2 || digits[0] < '0' || digits[0] > '7' || !is_hex(digits[1])) {
      return unsupported("\"\\x\" without braces that is not ASCII");
    }
    out.append(rest().substr(0, length));
    position_ += length;
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
