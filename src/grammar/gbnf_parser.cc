// Used by gbnf.cc.
#include "grammar/gbnf_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/utf8.h"

namespace sluice {
namespace {

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class GbnfParser {
 public:
  explicit GbnfParser(std::string_view text) : text_(text) {}

  Result<Gbnf> parse() {
    if (const std::size_t valid = valid_utf8_prefix(text_); valid < text_.size()) {
      return invalid_argument(fmt::format("grammar: expected UTF-8, found an invalid byte at offset {}", valid));
    }
    for (skip(true); at_ < text_.size() && error_.ok(); skip(true)) rule();
    if (!error_.ok()) return error_;
    const auto root = names_.find("root");
    if (root == names_.end()) return invalid_argument("grammar: expected a rule named root, found none");
    out_.root = root->second;
    for (const GbnfRule& rule : out_.rules) {
      if (rule.line == 0)
        return invalid_argument(fmt::format("grammar: the rule '{}' is used but not defined", rule.name));
    }
    return std::move(out_);
  }

 private:
  bool done() const { return at_ >= text_.size() || !error_.ok(); }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (done() || peek() != c) return false;
    ++at_;
    return true;
  }
  void fail(std::string_view message) {
    if (!error_.ok()) return;
    const auto line = 1 + std::ranges::count(text_.substr(0, at_), '\n');
    error_ = invalid_argument(fmt::format("grammar: line {}: {}", line, message));
  }

  void skip(bool lines) {
    while (!done()) {
      if (peek() == '#') {
        while (!done() && peek() != '\n') ++at_;
      } else if (peek() == ' ' || peek() == '\t' || (lines && (peek() == '\n' || peek() == '\r'))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  int index_of(const std::string& name) {
    const auto [found, is_new] = names_.emplace(name, static_cast<int>(out_.rules.size()));
    if (is_new) out_.rules.push_back({.name = name, .body = {}});
    return found->second;
  }

  void rule() {
    const auto line = static_cast<int>(1 + std::ranges::count(text_.substr(0, at_), '\n'));
    const std::string defined = name();
    if (defined.empty()) return fail("expected the name of a rule");
    skip(false);
    if (!text_.substr(at_).starts_with("::="))
      return fail(fmt::format("expected ::= behind '{}'", defined.substr(0, 80)));
    at_ += 3;
    const auto index = static_cast<std::size_t>(index_of(defined));
    if (out_.rules[index].line != 0) return fail(fmt::format("the rule '{}' is defined twice", defined.substr(0, 80)));
    skip(true);
    Expression body = choice(false);
    if (!done() && peek() != '\n' && peek() != '\r') fail("expected the end of the rule");
    out_.rules[index].body = std::move(body);
    out_.rules[index].line = line;
  }

  Expression choice(bool nested) {
    Expression out{.kind = Expression::Kind::kChoice};
    if (++depth_ > kMaxExpressionDepth) fail(fmt::format("groups nest deeper than {}", kMaxExpressionDepth));
    while (error_.ok()) {
      out.parts.push_back(sequence(nested));
      if (!take('|')) break;
      skip(true);
    }
    --depth_;
    if (out.parts.size() == 1) return std::move(out.parts[0]);
    return out;
  }

  Expression sequence(bool nested) {
    Expression out{.kind = Expression::Kind::kSequence};
    for (skip(nested); !done(); skip(nested)) {
      std::optional<Expression> item = atom();
      if (!item) break;
      count(*item);
      out.parts.push_back(std::move(*item));
    }
    return out;
  }

  // Reads one atom of the grammar; nullopt if none begins here.
  std::optional<Expression> atom() {
    if (take('"')) return literal();
    if (take('[')) return bracket();
    if (take('.'))
      return Expression{.kind = Expression::Kind::kCharacters, .characters = normalize({{0, kLastCodePoint}})};
    if (take('(')) {
      skip(true);
      Expression out = choice(true);
      skip(true);
      if (!take(')')) fail("expected ) to close a group");
      return out;
    }
    if (is_name(peek())) return Expression{.kind = Expression::Kind::kRule, .rule = index_of(name())};
    if (peek() != '|' && peek() != ')' && peek() != '\n' && peek() != '\r') {
      fail("expected a literal in \"\", a class in [], a group in (), the name of a rule, or .");
    }
    return std::nullopt;
  }

  void count(Expression& item) {
    while (!done()) {
      std::pair<int, int> times;
      if (take('*')) {
        times = {0, -1};
      } else if (take('+')) {
        times = {1, -1};
      } else if (take('?')) {
        times = {0, 1};
      } else if (take('{')) {
        times = braces();
      } else {
        return;
      }
      if (++counts_ > 10'000 || expression_depth(item) > kMaxExpressionDepth) return fail("expected fewer repetitions");
      Expression out{.kind = Expression::Kind::kRepeat, .least = times.first, .most = times.second};
      out.parts.push_back(std::move(item));
      item = std::move(out);
    }
  }

  static int expression_depth(const Expression& e) {
    int depth = 1;
    for (const Expression* inner = &e; inner->kind == Expression::Kind::kRepeat; inner = &inner->parts[0]) ++depth;
    return depth;
  }

  std::pair<int, int> braces() {
    const auto number = [&]() -> std::optional<int> {
      skip(false);
      if (peek() < '0' || peek() > '9') return std::nullopt;
      int value = 0;
      while (peek() >= '0' && peek() <= '9') value = std::min(value * 10 + (text_[at_++] - '0'), kMaxRepeat + 1);
      skip(false);
      return value;
    };
    const auto least = number();
    int most = least.value_or(0);
    const bool has_comma = take(',');
    if (has_comma) most = number().value_or(-1);
    const bool has_count = least || (has_comma && most >= 0);
    if (!take('}') || !has_count) fail("expected a count, as {2}, {2,} or {2,5}");
    if (least.value_or(0) > kMaxRepeat || most > kMaxRepeat)
      fail(fmt::format("expected a count of at most {}", kMaxRepeat));
    if (most >= 0 && most < least.value_or(0)) fail("expected {n,m} with n <= m");
    return {least.value_or(0), most};
  }

  char32_t character() {
    const Utf8Char c = decode_utf8(text_.substr(at_));
    at_ += c.length;
    if (c.code_point != '\\' || done()) return c.code_point;
    const char letter = text_[at_++];
    switch (letter) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'x':
        return hex(2);
      case 'u':
        return hex(4);
      case 'U':
        return hex(8);
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
      case '/':
        return static_cast<char32_t>(letter);
      default:
        break;
    }
    fail("expected one of n r t \\ \" [ ] - ^ / x u U behind \\");
    return 0;
  }

  char32_t hex(int digits) {
    std::uint32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return fail("expected a hexadecimal digit"), char32_t{0};
      value = value * 16 + static_cast<std::uint32_t>(digit);
      ++at_;
    }
    if (value > kLastCodePoint || (value >= 0xD800 && value <= 0xDFFF))
      return fail("expected a character's code point"), char32_t{0};
    return value;
  }

  Expression literal() {
    std::u32string text;
    while (!done() && peek() != '"' && peek() != '\n') text.push_back(character());
    if (!take('"')) fail("expected \" to close a literal");
    return Expression::literal(text);
  }

  Expression bracket() {
    const bool negated = take('^');
    std::vector<CodePointRange> ranges;
    while (!done() && peek() != ']') {
      CodePointRange range;
      range.low = range.high = character();
      if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        range.high = character();
        if (range.high < range.low) fail("expected a range of two characters in order");
      }
      ranges.push_back(range);
    }
    if (!take(']')) fail("expected ] to close a class");
    return {.kind = Expression::Kind::kCharacters, .characters = negated ? complement(ranges) : normalize(ranges)};
  }

  const std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0, counts_ = 0;
  Status error_;
  Gbnf out_;
  std::map<std::string, int> names_;
};

}  // namespace

Result<Gbnf> parse_gbnf(std::string_view text) {
  return GbnfParser(text).parse();
}

}  // namespace sluice
