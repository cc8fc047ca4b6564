// Used by grammar and grammar/schema.
#include "grammar/automata/regex.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/utf8.h"

namespace sluice {
namespace {

using Kind = Expression::Kind;
using Ranges = std::vector<CodePointRange>;

bool is_digit(char32_t c) {
  return c >= '0' && c <= '9';
}

int hex_value(char32_t c) {
  if (is_digit(c)) return static_cast<int>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<int>(c - 'a') + 10;
  if (c >= 'A' && c <= 'F') return static_cast<int>(c - 'A') + 10;
  return -1;
}

class RegexParser {
 public:
  RegexParser(std::string_view pattern, std::string_view what) : what_(what) {
    while (!pattern.empty()) {
      const Utf8Char c = decode_utf8(pattern);
      text_.push_back(c.kind == Utf8Char::Kind::kValid ? c.code_point : U'\uFFFD');
      pattern.remove_prefix(c.length);
    }
  }

  Result<Expression> parse() {
    ignore_case_ = take(U"(?i)");
    Expression out = choice();
    if (at_ < text_.size()) fail("expected the end, found an unmatched )");
    if (!error_.ok()) return error_;
    return out;
  }

 private:
  bool done() const { return at_ >= text_.size() || !error_.ok(); }
  char32_t peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : 0; }
  bool take(char32_t c) {
    if (done() || peek() != c) return false;
    ++at_;
    return true;
  }
  bool take(std::u32string_view word) {
    if (!std::u32string_view(text_).substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  void fail(std::string_view message) {
    if (error_.ok()) error_ = invalid_argument(fmt::format("{}: at character {}: {}", what_, at_, message));
  }

  Expression choice() {
    if (++depth_ > kMaxExpressionDepth) fail(fmt::format("groups nest deeper than {}", kMaxExpressionDepth));
    Expression out{.kind = Kind::kChoice};
    if (error_.ok()) {
      do out.parts.push_back(sequence());
      while (take('|'));
    }
    --depth_;
    if (out.parts.size() == 1) return std::move(out.parts[0]);
    return out;
  }

  Expression sequence() {
    Expression out{.kind = Kind::kSequence};
    while (!done() && peek() != '|' && peek() != ')') out.parts.push_back(repeated());
    return out;
  }

  Expression repeated() {
    Expression one = atom();
    while (!done()) {
      std::optional<std::pair<int, int>> count;
      if (take('*')) {
        count = {0, -1};
      } else if (take('+')) {
        count = {1, -1};
      } else if (take('?')) {
        count = {0, 1};
      } else if (peek() == '{') {
        count = braces();
      }
      if (!count) break;
      take('?');  // a lazy repetition matches the same texts
      if (one.kind == Kind::kRepeat && one.least == 0 && one.most == -1) continue;
      if (one.kind == Kind::kBegin || one.kind == Kind::kEnd) fail("^ and $ cannot be repeated");
      Expression out{.kind = Kind::kRepeat, .least = count->first, .most = count->second};
      out.parts.push_back(std::move(one));
      one = std::move(out);
      if (++repeats_ > 10'000) fail("expected fewer repetitions");
      if (peek() == '*' || peek() == '+' || peek() == '{') fail("expected something to repeat, found a second count");
    }
    return one;
  }

  std::optional<std::pair<int, int>> braces() {
    ++at_;
    const auto number = [&]() -> std::optional<int> {
      if (!is_digit(peek())) return std::nullopt;
      int value = 0;
      while (is_digit(peek())) {
        value = std::min(value * 10 + static_cast<int>(peek() - '0'), kMaxRepeat + 1);
        ++at_;
      }
      return value;
    };
    const auto least = number();
    if (!least) return fail("expected a count behind {; write \\{ for the character"), std::nullopt;
    int most = *least;
    if (take(',')) most = number().value_or(-1);
    if (!take('}')) return fail("expected } behind a count"), std::nullopt;
    if (*least > kMaxRepeat || most > kMaxRepeat) {
      return fail(fmt::format("expected a count of at most {}", kMaxRepeat)), std::nullopt;
    }
    if (most >= 0 && most < *least) return fail("expected {n,m} with n <= m"), std::nullopt;
    return std::pair{*least, most};
  }

  Expression atom() {
    if (take('(')) return group();
    if (take('[')) return characters(bracket());
    if (take('.')) return characters(complement({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}));
    if (take('^')) return {.kind = Kind::kBegin};
    if (take('$')) return {.kind = Kind::kEnd};
    if (take(U"\\A")) return {.kind = Kind::kBegin};
    if (take(U"\\Z") || take(U"\\z")) return {.kind = Kind::kEnd};
    if (take('\\')) return characters(in_both_cases(escape(false)));
    if (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{') {
      fail("expected something to repeat");
      return {};
    }
    const char32_t c = text_[at_++];
    return characters(in_both_cases({{c, c}}));
  }

  // With (?i): letters of ASCII stand for both cases.
  Ranges in_both_cases(Ranges ranges) const {
    if (!ignore_case_) return ranges;
    for (std::size_t i = 0, count = ranges.size(); i < count; ++i) {
      for (const char32_t first : {U'a', U'A'}) {
        const char32_t low = std::max(ranges[i].low, first),
                       high = std::min(ranges[i].high, static_cast<char32_t>(first + 25));
        const char32_t other = first == U'a' ? U'A' : U'a';
        if (low <= high) ranges.push_back({low - first + other, high - first + other});
      }
    }
    return ranges;
  }

  static Expression characters(Ranges ranges) {
    return {.kind = Kind::kCharacters, .characters = normalize(std::move(ranges))};
  }

  Expression group() {
    if (take(U"?:")) {
    } else if (take(U"?=") || take(U"?!") || take(U"?<=") || take(U"?<!")) {
      fail("look-around is not supported");
    } else if (take(U"?<") || take(U"?P<")) {
      while (!done() && peek() != '>') ++at_;
      if (!take('>')) fail("expected > behind a group's name");
    } else if (peek() == '?') {
      fail("this kind of group is not supported");
    }
    Expression out = choice();
    if (!take(')')) fail("expected ) to close a group");
    return out;
  }

  Ranges bracket() {
    const bool negated = take('^');
    Ranges out;
    while (!done() && peek() != ']') {
      const Ranges low = bracket_item();
      const bool is_one = low.size() == 1 && low[0].low == low[0].high;
      if (is_one && peek() == '-' && peek(1) != ']' && peek(1) != 0) {
        ++at_;
        const Ranges high = bracket_item();
        if (high.size() != 1 || high[0].low != high[0].high || high[0].low < low[0].low) {
          fail("expected a range of two characters in order");
        } else {
          out.push_back({low[0].low, high[0].high});
        }
      } else {
        out.insert(out.end(), low.begin(), low.end());
      }
    }
    if (!take(']')) fail("expected ] to close a class");
    out = in_both_cases(std::move(out));
    if (!negated) return out;
    // Other cases of letters beyond ASCII are not known here: with (?i) no such class has them.
    if (ignore_case_) out.push_back({0x80, kLastCodePoint});
    return complement(out);
  }

  Ranges bracket_item() {
    if (take('\\')) return escape(true);
    if (done()) return {};
    const char32_t c = text_[at_++];
    return {{c, c}};
  }

  char32_t hex(int digits) {
    char32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const int digit = hex_value(peek());
      if (digit < 0 || done()) return fail("expected a hexadecimal digit"), char32_t{0};
      value = value * 16 + static_cast<char32_t>(digit);
      ++at_;
    }
    return value;
  }

  char32_t unicode_escape() {
    if (take('{')) {
      char32_t value = 0;
      while (!done() && peek() != '}') value = std::min<char32_t>(value * 16 + hex(1), kLastCodePoint + 1);
      if (!take('}') || value > kLastCodePoint) fail("expected a code point in \\u{...}");
      return value;
    }
    const char32_t high = hex(4);
    if (high < 0xD800 || high > 0xDBFF || peek() != '\\' || peek(1) != 'u') return high;
    at_ += 2;
    const char32_t low = hex(4);
    if (low < 0xDC00 || low > 0xDFFF) fail("expected the second half of a surrogate pair");
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  }

  // Reads the rest of an escape, after the backslash.
  Ranges escape(bool in_class) {
    if (done()) return fail("expected a character behind \\"), Ranges{};
    const char32_t c = text_[at_++];
    const auto one = [](char32_t value) { return Ranges{{value, value}}; };
    switch (c) {
      case 'd':
      case 'D':
      case 'w':
      case 'W':
      case 's':
      case 'S':
        return escaped_class(static_cast<char>(c));
      case 't':
        return one('\t');
      case 'n':
        return one('\n');
      case 'v':
        return one('\v');
      case 'f':
        return one('\f');
      case 'r':
        return one('\r');
      case 'x':
        return one(hex(2));
      case 'u':
        return one(unicode_escape());
      case 'c': {
        const char32_t letter = peek();
        const bool is_letter = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
        if (!is_letter) return fail("expected a letter behind \\c"), Ranges{};
        ++at_;
        return one(letter % 32);
      }
      case 'b':
        if (in_class) return one('\b');
        break;
      default:
        break;
    }
    if (c == '0' && !is_digit(peek())) return one(0);
    const bool is_word = is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!is_word) return one(c);
    std::string letter;
    append_utf8(c, letter);
    fail(is_digit(c) ? "back references are not supported" : fmt::format("\\{} is not supported", letter));
    return {};
  }

  const std::string_view what_;
  std::u32string text_;
  std::size_t at_ = 0;
  int depth_ = 0, repeats_ = 0;
  bool ignore_case_ = false;
  Status error_;
};

std::int32_t append_repeat(Nfa& nfa, const Expression& e, std::int32_t from) {
  for (int i = 0; i < e.least && !nfa.too_large(); ++i) from = append_expression(nfa, e.parts[0], from);
  if (e.most < 0) {
    const std::int32_t loop = nfa.add_state(), out = nfa.add_state();
    nfa.add_empty(from, loop);
    nfa.add_empty(append_expression(nfa, e.parts[0], loop), loop);
    nfa.add_empty(loop, out);
    return out;
  }
  const std::int32_t out = nfa.add_state();
  nfa.add_empty(from, out);
  for (int i = e.least; i < e.most && !nfa.too_large(); ++i) {
    const std::int32_t begin = nfa.add_state();
    nfa.add_empty(from, begin);
    from = append_expression(nfa, e.parts[0], begin);
    nfa.add_empty(from, out);
  }
  return out;
}

}  // namespace

Expression Expression::literal(std::u32string_view text) {
  Expression out{.kind = Kind::kSequence};
  for (const char32_t c : text) out.parts.push_back({.kind = Kind::kCharacters, .characters = {{c, c}}});
  return out;
}

std::vector<CodePointRange> escaped_class(char letter) {
  Ranges out;
  switch (letter | 0x20) {
    case 'd':
      out = {{'0', '9'}};
      break;
    case 'w':
      out = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
      break;
    default:
      out = {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
             {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
      // ECMAScript counts it as space, Python does not: neither class has it, so that both accept what is written.
      if (letter < 'a') out.push_back({0xFEFF, 0xFEFF});
  }
  return letter >= 'a' ? out : complement(out);
}

LookAheads split_look_aheads(std::string_view pattern) {
  const LookAheads whole{.heads = {}, .rest = std::string(pattern)};
  LookAheads out;
  std::size_t begin = 0, depth = 0;
  std::size_t rest = 1;  // where the pattern goes on after ^ and the look-aheads
  bool in_class = false;
  if (!pattern.starts_with("^(?=") && !pattern.starts_with("^(?!")) return whole;
  for (std::size_t i = 1; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const std::string_view here = pattern.substr(i);
    if (c == '\\') {
      ++i;
    } else if (in_class) {
      in_class = c != ']';
    } else if (c == '[') {
      in_class = true;
    } else if (c == '(') {
      if (depth++ == 0 && i == rest && (here.starts_with("(?=") || here.starts_with("(?!"))) begin = i;
    } else if (c == ')') {
      if (depth == 0) return whole;
      if (--depth > 0 || begin == 0) continue;
      const bool is_repeated =
          i + 1 < pattern.size() && std::string_view("*+?{").find(pattern[i + 1]) != std::string_view::npos;
      if (is_repeated) return whole;
      out.heads.push_back({.negative = pattern[begin + 2] == '!',
                           .text = "^(?:" + std::string(pattern.substr(begin + 3, i - begin - 3)) + ")"});
      rest = i + 1;
      begin = 0;
    } else if (c == '|' && depth == 0) {
      return whole;
    }
  }
  out.rest = "^" + std::string(pattern.substr(rest));
  return out;
}

Result<Expression> parse_regex(std::string_view pattern, std::string_view what) {
  return RegexParser(pattern, what).parse();
}

std::int32_t append_expression(Nfa& nfa, const Expression& e, std::int32_t from) {
  if (nfa.too_large()) return from;  // determinize() reports it
  switch (e.kind) {
    case Kind::kCharacters: {
      const std::int32_t to = nfa.add_state();
      nfa.add_characters(from, e.characters, to);
      return to;
    }
    case Kind::kSequence:
      for (const Expression& part : e.parts) from = append_expression(nfa, part, from);
      return from;
    case Kind::kChoice: {
      const std::int32_t out = nfa.add_state();
      for (const Expression& part : e.parts) {
        const std::int32_t begin = nfa.add_state();
        nfa.add_empty(from, begin);
        nfa.add_empty(append_expression(nfa, part, begin), out);
      }
      return out;
    }
    case Kind::kRepeat:
      return append_repeat(nfa, e, from);
    case Kind::kBegin:
    case Kind::kEnd: {
      const std::int32_t to = nfa.add_state();
      nfa.add_empty(from, to, e.kind == Kind::kBegin ? Nfa::Where::kBegin : Nfa::Where::kEnd);
      return to;
    }
    case Kind::kEmpty:
    case Kind::kRule:
      break;
  }
  return from;
}

namespace {

Result<Dfa> automaton_of(const Expression& expression, bool search) {
  Nfa nfa;
  nfa.start = nfa.add_state();
  const std::vector<CodePointRange> any{{0, kLastCodePoint}};
  if (search) nfa.add_characters(nfa.start, any, nfa.start);
  // A state of its own: an expression may begin with a loop.
  const std::int32_t begin = nfa.add_state();
  nfa.add_empty(nfa.start, begin);
  nfa.accept = nfa.add_state();
  nfa.add_empty(append_expression(nfa, expression, begin), nfa.accept);
  if (search) nfa.add_characters(nfa.accept, any, nfa.accept);
  return determinize(nfa);
}

}  // namespace

Result<Dfa> whole_match(const Expression& expression) {
  return automaton_of(expression, false);
}

Result<Dfa> search_match(const Expression& expression) {
  return automaton_of(expression, true);
}

}  // namespace sluice
