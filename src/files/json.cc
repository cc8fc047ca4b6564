// Used by many folders, among them cli, config and engine.
#include "files/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/value_stack.hpp>
#include <charconv>
#include <cmath>
#include <limits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/utf8.h"

namespace sluice {
namespace {

namespace json = boost::json;

// Text that stands for NaN and infinity while a file of Python's is parsed. No program writes such numbers.
constexpr std::string_view kNanMark = "-0e-000000000", kInfinityMark = "1e999999999";

// The handler that the parser calls: builds the value and refuses what Boost.JSON would let pass.
class ValueBuilder {
 public:
  // Limits that the parser enforces itself; the size of the text bounds all of them already.
  static constexpr std::size_t max_object_size = std::size_t(-1);
  static constexpr std::size_t max_array_size = std::size_t(-1);
  static constexpr std::size_t max_key_size = std::size_t(-1);
  static constexpr std::size_t max_string_size = std::size_t(-1);

  explicit ValueBuilder(bool of_python = false) : of_python_(of_python) {}

  const std::string& complaint() const { return complaint_; }
  json::value release() { return stack_.release(); }

  bool on_document_begin(json::error_code&) {
    stack_.reset();
    return true;
  }
  bool on_document_end(json::error_code&) { return true; }
  bool on_object_begin(json::error_code&) {
    keys_.emplace_back();
    return true;
  }
  bool on_object_end(std::size_t size, json::error_code&) {
    keys_.pop_back();
    stack_.push_object(size);
    return true;
  }
  bool on_array_begin(json::error_code&) { return true; }
  bool on_array_end(std::size_t size, json::error_code&) {
    stack_.push_array(size);
    return true;
  }
  bool on_key_part(json::string_view part, std::size_t, json::error_code&) {
    key_ += part;
    stack_.push_chars(part);
    return true;
  }
  bool on_key(json::string_view part, std::size_t, json::error_code& error) {
    key_ += part;
    const auto [position, is_new] = keys_.back().insert(std::exchange(key_, {}));
    if (!is_new) {
      std::string quoted;
      append_json_string(quoted, *position);
      return fail("duplicate key " + quoted, error);
    }
    stack_.push_key(part);
    return true;
  }
  bool on_string_part(json::string_view part, std::size_t, json::error_code&) {
    stack_.push_chars(part);
    return true;
  }
  bool on_string(json::string_view part, std::size_t, json::error_code&) {
    stack_.push_string(part);
    return true;
  }
  bool on_number_part(json::string_view part, json::error_code&) {
    number_ += part;
    return true;
  }
  bool on_int64(std::int64_t number, json::string_view, json::error_code&) {
    number_.clear();
    stack_.push_int64(number);
    return true;
  }
  bool on_uint64(std::uint64_t number, json::string_view, json::error_code&) {
    number_.clear();
    stack_.push_uint64(number);
    return true;
  }
  // Boost.JSON 1.81 computes mantissa x power of ten, which is off by a bit for long mantissas: read the text again.
  bool on_double(double approximation, json::string_view part, json::error_code& error) {
    number_ += part;
    double number = 0.0;
    const auto [end, code] = std::from_chars(number_.data(), number_.data() + number_.size(), number);
    if (code == std::errc::result_out_of_range) {
      const bool large = std::abs(approximation) > 1.0;
      if (large && !of_python_) return fail("a number beyond the range of 64-bit floats", error);
      number = std::copysign(large ? std::numeric_limits<double>::infinity() : 0.0, approximation);
    }
    if (of_python_ && number_ == kNanMark) number = std::numeric_limits<double>::quiet_NaN();
    number_.clear();
    stack_.push_double(number);
    return true;
  }
  bool on_bool(bool value, json::error_code&) {
    stack_.push_bool(value);
    return true;
  }
  bool on_null(json::error_code&) {
    stack_.push_null();
    return true;
  }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }

 private:
  bool fail(std::string complaint, json::error_code& error) {
    complaint_ = std::move(complaint);
    error = json::make_error_code(json::error::syntax);
    return false;
  }

  const bool of_python_;
  json::value_stack stack_;
  std::vector<std::unordered_set<std::string>> keys_;  // the keys of the objects that are open
  std::string key_;                                    // what was read of it so far
  std::string number_;                                 // what was read of it so far
  std::string complaint_;
};

// A text of Python's as RFC 8259 has it, and how to find a place of it in the source.
struct StandardText {
  struct Shift {
    std::size_t from;       // offset in `text`
    std::ptrdiff_t longer;  // by how much `text` up to there is longer than the source
  };
  std::string text;
  std::vector<Shift> shifts;
  bool different = false;

  bool changed() const { return different; }
  std::size_t source(std::size_t offset) const {
    std::ptrdiff_t longer = 0;
    for (const Shift& shift : shifts) {
      if (shift.from <= offset) longer = shift.longer;
    }
    return static_cast<std::size_t>(static_cast<std::ptrdiff_t>(offset) - longer);
  }
  void append(std::string_view part, std::size_t source_size) {
    text += part;
    different = true;
    if (part.size() == source_size) return;
    const std::ptrdiff_t before = shifts.empty() ? 0 : shifts.back().longer;
    shifts.push_back(
        {text.size(), before + static_cast<std::ptrdiff_t>(part.size()) - static_cast<std::ptrdiff_t>(source_size)});
  }
};

// Returns the code unit of an escape \uXXXX at `at`, or -1.
int escaped_unit(std::string_view text, std::size_t at) {
  if (text.substr(at, 2) != "\\u" || at + 6 > text.size()) return -1;
  int unit = -1;
  const char* end = text.data() + at + 6;
  const auto [stop, error] = std::from_chars(text.data() + at + 2, end, unit, 16);
  return error == std::errc{} && stop == end ? unit : -1;
}

// Copies the string that begins after the quote at `at`, with lone surrogates replaced; returns where it goes on.
std::size_t copy_string(std::string_view source, std::size_t at, StandardText& to) {
  const auto is_high = [](int unit) { return unit >= 0xD800 && unit < 0xDC00; };
  const auto is_low = [](int unit) { return unit >= 0xDC00 && unit < 0xE000; };
  while (at < source.size()) {
    const char c = source[at];
    if (c != '\\') {
      to.text += c;
      ++at;
      if (c == '"') break;
      continue;
    }
    const int unit = escaped_unit(source, at);
    const std::size_t size = unit < 0 ? 2 : is_high(unit) && is_low(escaped_unit(source, at + 6)) ? 12 : 6;
    if (size == 6 && (is_high(unit) || is_low(unit))) {
      to.append("\\ufffd", 6);
    } else {
      to.text += source.substr(at, size);
    }
    at = std::min(at + size, source.size());
  }
  return at;
}

StandardText standard_text(std::string_view source) {
  StandardText to;
  to.text.reserve(source.size());
  for (std::size_t at = 0; at < source.size();) {
    const std::string_view rest = source.substr(at);
    if (rest.front() == '"') {
      to.text += '"';
      at = copy_string(source, at + 1, to);
    } else if (rest.starts_with("NaN")) {
      to.append(kNanMark, 3);
      at += 3;
    } else if (rest.starts_with("Infinity")) {
      to.append(kInfinityMark, 8);
      at += 8;
    } else {
      to.text += source[at++];
    }
  }
  return to;
}

// Makes the message "what: line L, column C: complaint". Columns count characters, so UTF-8 continuation bytes do not
// count.
Status error_at(std::string_view text, std::size_t offset, std::string_view what, std::string_view complaint) {
  std::size_t line = 1;
  std::size_t column = 1;
  for (const char c : text.substr(0, offset)) {
    if (c == '\n') {
      ++line;
      column = 1;
    } else if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U) {
      ++column;
    }
  }
  return invalid_argument(fmt::format("{}: line {}, column {}: {}", what, line, column, complaint));
}

std::string found_at(std::string_view text, std::size_t offset) {
  if (offset >= text.size()) return "the text ends too early";
  const auto c = static_cast<unsigned char>(text[offset]);
  if (c > 0x20 && c < 0x7F) return fmt::format("found '{}'", text[offset]);
  return fmt::format("found byte 0x{:02X}", c);
}

std::string syntax_complaint(const json::error_code& error, std::string_view text, std::size_t offset,
                             const JsonLimits& limits) {
  if (error == json::error::too_deep) return fmt::format("nested deeper than {} levels", limits.max_depth);
  if (error == json::error::incomplete) return "invalid JSON (incomplete): the text ends too early";
  return fmt::format("invalid JSON ({}): {}", error.message(), found_at(text, offset));
}

// A finite number in its shortest decimal form, d.ddd x 10^exponent.
struct Decimal {
  bool negative = false;
  std::string digits;  // at least one digit, no point
  int exponent = 0;
};

Decimal shortest_decimal(double number) {
  char buffer[40];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), number, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<std::size_t>(result.ptr - buffer));
  Decimal decimal;
  const std::size_t e = text.find('e');
  for (const char c : text.substr(0, e)) {
    if (c == '-') decimal.negative = true;
    if (c >= '0' && c <= '9') decimal.digits += c;
  }
  std::string_view exponent = text.substr(e + 1);
  if (exponent.front() == '+') exponent.remove_prefix(1);
  std::from_chars(exponent.data(), exponent.data() + exponent.size(), decimal.exponent);
  return decimal;
}

struct DumpStyle {
  std::string_view item_separator;
  std::string_view key_separator;
  bool python_non_finite;  // writes NaN and Infinity as Python does, not null
};

void append_double(std::string& out, double number, const DumpStyle& style) {
  if (std::isfinite(number)) return append_json_number(out, number);
  if (!style.python_non_finite) {
    out += "null";
  } else if (std::isnan(number)) {
    out += "NaN";
  } else {
    out += number > 0 ? "Infinity" : "-Infinity";
  }
}

void dump(std::string& out, const json::value& value, const DumpStyle& style);

void dump_array(std::string& out, const json::array& array, const DumpStyle& style) {
  out += '[';
  bool first = true;
  for (const json::value& item : array) {
    if (!std::exchange(first, false)) out += style.item_separator;
    dump(out, item, style);
  }
  out += ']';
}

void dump_object(std::string& out, const json::object& object, const DumpStyle& style) {
  out += '{';
  bool first = true;
  for (const auto& [key, item] : object) {
    if (!std::exchange(first, false)) out += style.item_separator;
    append_json_string(out, key);
    out += style.key_separator;
    dump(out, item, style);
  }
  out += '}';
}

void dump(std::string& out, const json::value& value, const DumpStyle& style) {
  switch (value.kind()) {
    case json::kind::null:
      out += "null";
      return;
    case json::kind::bool_:
      out += value.get_bool() ? "true" : "false";
      return;
    case json::kind::int64:
      fmt::format_to(std::back_inserter(out), "{}", value.get_int64());
      return;
    case json::kind::uint64:
      fmt::format_to(std::back_inserter(out), "{}", value.get_uint64());
      return;
    case json::kind::double_:
      return append_double(out, value.get_double(), style);
    case json::kind::string:
      return append_json_string(out, value.get_string());
    case json::kind::array:
      return dump_array(out, value.get_array(), style);
    case json::kind::object:
      return dump_object(out, value.get_object(), style);
  }
}

}  // namespace

Result<json::value> parse_json(std::string_view text, std::string_view what, JsonLimits limits) {
  json::parse_options options;
  options.max_depth = limits.max_depth;
  json::basic_parser<ValueBuilder> parser(options, limits.of_python);
  json::error_code error;
  const StandardText standard = limits.of_python ? standard_text(text) : StandardText();
  const std::string_view parsed = standard.changed() ? std::string_view(standard.text) : text;
  std::size_t offset = standard.source(parser.write_some(false, parsed.data(), parsed.size(), error));
  if (error) {
    const std::string& complaint = parser.handler().complaint();
    return error_at(text, offset, what, complaint.empty() ? syntax_complaint(error, text, offset, limits) : complaint);
  }
  offset = text.find_first_not_of(" \t\r\n", offset);
  if (offset != std::string_view::npos) {
    return error_at(text, offset, what, "unexpected text after the JSON value: " + found_at(text, offset));
  }
  return parser.handler().release();
}

std::string dump_json_python(const json::value& value) {
  std::string out;
  dump(out, value, {", ", ": ", true});
  return out;
}

std::string dump_json(const json::value& value) {
  std::string out;
  dump(out, value, {",", ":", false});
  return out;
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  if (valid_utf8_prefix(text) == text.size()) {
    append_json_piece(out, text);
  } else {
    append_json_piece(out, to_valid_utf8(text));
  }
  out += '"';
}

void append_json_piece(std::string& out, std::string_view text) {
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
}

void append_json_number(std::string& out, double number) {
  const Decimal decimal = shortest_decimal(number);
  const auto digits = static_cast<int>(decimal.digits.size());
  const int exponent = decimal.exponent;
  if (decimal.negative) out += '-';
  if (exponent < -4 || exponent >= 16) {
    out += decimal.digits[0];
    if (digits > 1) out.append(".").append(decimal.digits, 1);
    fmt::format_to(std::back_inserter(out), "e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  } else if (exponent < 0) {
    out.append("0.").append(static_cast<std::size_t>(-exponent - 1), '0').append(decimal.digits);
  } else if (digits <= exponent + 1) {
    out.append(decimal.digits).append(static_cast<std::size_t>(exponent + 1 - digits), '0').append(".0");
  } else {
    const auto whole = static_cast<std::size_t>(exponent + 1);
    out.append(decimal.digits, 0, whole).append(".").append(decimal.digits, whole);
  }
}

std::string describe_json(const json::value* value) {
  if (value == nullptr) return "nothing";
  constexpr std::size_t kMaxShown = 60;
  std::string text = dump_json_python(*value);
  if (text.size() <= kMaxShown) return text;
  std::size_t end = kMaxShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;  // does not cut a character
  return text.substr(0, end) + "...";
}

}  // namespace sluice
