// Used by grammar/call_network.cc and schema_network.h.
#include "grammar/schema/json_text.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "grammar/automata/regex.h"
#include "grammar/schema/decimals.h"

namespace sluice {
namespace {

// The letter after the backslash; 0: there is none.
char short_escape(int byte) {
  switch (byte) {
    case '"':
      return '"';
    case '\\':
      return '\\';
    case '\b':
      return 'b';
    case '\f':
      return 'f';
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    default:
      return 0;
  }
}

// The escapes that begin in one state of a string, made as they are needed.
class Escapes {
 public:
  Escapes(NetworkBuilder& builder, std::int32_t from) : builder_(builder), from_(from) {}

  // Lets the escape of `byte`, a control character, a quote or a backslash, lead to `to`.
  void add(int byte, std::int32_t to) {
    if (backslash_ < 0) {
      backslash_ = builder_.add_literal(from_, "\\");
    }
    if (const char letter = short_escape(byte); letter != 0) return add_byte(backslash_, letter, to);
    std::int32_t& last = last_[byte / 16];
    if (last < 0) {
      if (zeros_ < 0) zeros_ = builder_.add_literal(backslash_, "u00");
      last = builder_.add_literal(zeros_, byte < 16 ? "0" : "1");
    }
    const int digit = byte % 16;
    if (digit < 10) return add_byte(last, static_cast<char>('0' + digit), to);
    add_byte(last, static_cast<char>('a' + digit - 10), to);
    add_byte(last, static_cast<char>('A' + digit - 10), to);
  }

 private:
  void add_byte(std::int32_t from, char byte, std::int32_t to) {
    builder_.add_byte(from, static_cast<std::uint8_t>(byte), static_cast<std::uint8_t>(byte), to);
  }

  NetworkBuilder& builder_;
  const std::int32_t from_;
  std::int32_t backslash_ = -1, zeros_ = -1;
  std::array<std::int32_t, 2> last_{-1, -1};
};

// A string's inside with every escape: surrogates come in pairs.
Result<Dfa> free_content() {
  constexpr const char* kPattern =
      R"(([^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u([0-9abcefABCEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))*)";
  SLUICE_ASSIGN_OR_RETURN(const Expression expression, parse_regex(kPattern, "string"));
  return whole_match(expression);
}

Result<Dfa> number_text() {
  SLUICE_ASSIGN_OR_RETURN(const Expression expression,
                          parse_regex(R"(-?(0|[1-9]\d{0,39})(\.\d{1,40})?([eE][+\-]?\d{1,2})?)", "number"));
  return whole_match(expression);
}

const Dfa& shared_content() {
  static const Dfa dfa = *free_content();
  return dfa;
}

const Dfa& shared_number() {
  static const Dfa dfa = *number_text();
  return dfa;
}

}  // namespace

static_assert(kMaxIntegerDigits == 40 && kMaxFractionDigits == 40, "the pattern of number_text() says so");

JsonText::JsonText(NetworkBuilder& builder, bool compact) : builder_(builder), compact_(compact) {}

Status JsonText::ban(std::span<const std::string_view> texts) {
  banned_texts_.assign(texts.begin(), texts.end());
  SLUICE_ASSIGN_OR_RETURN(banned_, texts_with(texts));
  return {};
}

Dfa JsonText::without_banned(const Dfa& content) {
  if (!banned_) return content;
  Result<Dfa> rest = subtract(content, *banned_);
  if (rest.ok()) return std::move(rest).value();
  status_ = rest.status();
  return {};
}

std::int32_t JsonText::raw_string(std::int32_t from, const Dfa* content, std::string_view end) {
  if (content != nullptr) return builder_.add_literal(builder_.add_dfa(from, without_banned(*content)), end);
  if (raw_ < 0) {
    raw_ = builder_.add_rule("text");
    const std::int32_t text = builder_.add_dfa(builder_.start(raw_), without_banned(*text_of_length(0, -1)));
    builder_.set_end(builder_.add_literal(text, end));
  }
  return call(from, raw_);
}

std::int32_t JsonText::call(std::int32_t from, std::int32_t rule) {
  const std::int32_t to = builder_.add_state();
  builder_.add_call(from, rule, to);
  return to;
}

std::int32_t JsonText::space(std::int32_t from) {
  if (compact_) return from;
  if (space_ < 0) build_space();
  return call(from, space_);
}

void JsonText::build_space() {
  space_ = builder_.add_rule("white space");
  std::int32_t at = builder_.start(space_);
  const std::int32_t one = builder_.add_literal(at, " ");
  builder_.set_end(at);
  builder_.set_end(one);
  at = builder_.add_literal(at, "\n");
  builder_.set_end(at);
  for (int i = 0; i < kMaxIndent; ++i) {
    const std::int32_t next = builder_.add_literal(at, " ");
    builder_.add_byte(at, '\t', '\t', next);
    builder_.set_end(next);
    at = next;
  }
}

std::int32_t JsonText::free_string(std::int32_t from) {
  if (string_ < 0) build_string();
  return call(from, string_);
}

void JsonText::build_string() {
  string_ = builder_.add_rule("string");
  const std::int32_t inside = builder_.add_literal(builder_.start(string_), "\"");
  builder_.set_end(builder_.add_literal(builder_.add_dfa(inside, without_banned(shared_content())), "\""));
}

std::int32_t JsonText::free_number(std::int32_t from) {
  return builder_.add_dfa(from, shared_number());
}

std::int32_t JsonText::any_value(std::int32_t from) {
  if (any_ < 0) build_any();
  return call(from, any_);
}

void JsonText::build_any() {
  any_ = builder_.add_rule("value");
  const std::int32_t start = builder_.start(any_);
  builder_.set_end(free_string(start));
  builder_.set_end(any_but_string(start));
}

std::int32_t JsonText::any_but_string(std::int32_t from) {
  if (other_ < 0) build_other();
  return call(from, other_);
}

void JsonText::build_other() {
  other_ = builder_.add_rule("value that is no string");
  const std::int32_t start = builder_.start(other_);
  for (const char* word : {"null", "true", "false"}) builder_.set_end(builder_.add_literal(start, word));
  builder_.set_end(free_number(start));
  // [ space ( value ( , space value )* space )? ]
  std::int32_t open = space(builder_.add_literal(start, "["));
  std::int32_t item = builder_.add_state(), behind = any_value(item);
  builder_.add_empty(open, item);
  builder_.add_empty(space(builder_.add_literal(behind, ",")), item);
  builder_.set_end(builder_.add_literal(open, "]"));
  builder_.set_end(builder_.add_literal(space(behind), "]"));
  open = space(builder_.add_literal(start, "{"));
  item = builder_.add_state();
  behind = any_value(space(builder_.add_literal(free_string(item), ":")));
  builder_.add_empty(open, item);
  builder_.add_empty(space(builder_.add_literal(behind, ",")), item);
  builder_.set_end(builder_.add_literal(open, "}"));
  builder_.set_end(builder_.add_literal(space(behind), "}"));
}

bool JsonText::has_banned(std::string_view text) const {
  return std::ranges::any_of(banned_texts_, [&](const std::string& banned) { return text.find(banned) != text.npos; });
}

// Appends the string as it would an automaton, without making one: there are many keys.
std::int32_t JsonText::string_of(std::int32_t from, std::string_view content) {
  const std::int32_t end = builder_.add_state();
  if (has_banned(content)) return end;  // no edge reaches this state
  std::int32_t at = builder_.add_literal(from, "\"");
  for (const char c : content) {
    const auto byte = static_cast<std::uint8_t>(c);
    const std::int32_t next = builder_.add_state();
    if (byte < 0x20 || byte == '"' || byte == '\\') {
      Escapes(builder_, at).add(byte, next);
    } else {
      builder_.add_byte(at, byte, byte, next);
    }
    at = next;
  }
  builder_.add_byte(at, '"', '"', end);
  return end;
}

std::int32_t JsonText::string_of(std::int32_t from, const Dfa& characters) {
  const Dfa content = without_banned(characters);
  const std::int32_t inside = builder_.add_literal(from, "\"");
  std::vector<std::int32_t> states(content.states.size());
  for (std::int32_t& state : states) state = builder_.add_state();
  builder_.add_empty(inside, states[0]);
  const std::int32_t end = builder_.add_state();
  for (std::size_t s = 0; s < states.size(); ++s) {
    Escapes escapes(builder_, states[s]);
    for (const ByteEdge& edge : content.states[s].edges) {
      const std::int32_t to = states[static_cast<std::size_t>(edge.to)];
      for (int byte = edge.low; byte <= edge.high;) {
        if (byte < 0x20 || byte == '"' || byte == '\\') {
          escapes.add(byte++, to);
          continue;
        }
        int last = byte;
        while (last < edge.high && last + 1 != '"' && last + 1 != '\\') ++last;
        builder_.add_byte(states[s], static_cast<std::uint8_t>(byte), static_cast<std::uint8_t>(last), to);
        byte = last + 1;
      }
    }
    if (content.states[s].accept) builder_.add_byte(states[s], '"', '"', end);
  }
  return end;
}

}  // namespace sluice
