// Used by jinja and jinja/library.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "jinja/library/operations.h"
#include "jinja/print.h"
#include "jinja/safe_text.h"

namespace sluice::jinja {

namespace {

using Kind = Value::Kind;

constexpr std::size_t kMaxWidth = 10'000;
constexpr int kMaxPrecision = 300;

struct Specification {
  bool left = false;
  bool zero = false;
  bool plus = false;
  bool space = false;
  bool alternate = false;
  std::size_t width = 0;
  int precision = -1;
};

std::size_t length_of(std::string_view text) {
  return Text(nullptr, std::string(text)).length;
}

// `text` filled up to the width; zeros go between the sign and the digits.
std::string padded(std::string text, const Specification& spec, bool is_number) {
  const std::size_t length = length_of(text);
  if (length >= spec.width) return text;
  const std::size_t missing = spec.width - length;
  if (spec.left) return text.append(missing, ' ');
  if (!spec.zero || !is_number) return std::string(missing, ' ') + text;
  const bool is_signed = text.starts_with('-') || text.starts_with('+') || text.starts_with(' ');
  return text.insert(is_signed ? 1 : 0, missing, '0');
}

std::string with_sign(std::string digits, bool negative, const Specification& spec) {
  if (negative) return "-" + digits;
  if (spec.plus) return "+" + digits;
  return spec.space ? " " + digits : digits;
}

class PercentFormatter {
 public:
  PercentFormatter(Run& run, std::string_view format, const Value& arguments)
      : run_(run), rest_(format), arguments_(arguments) {
    const bool is_tuple = arguments.is(Kind::kSequence) && arguments.sequence()->flavor == Sequence::Flavor::kTuple;
    if (is_tuple) {
      values_ = arguments.items();
    } else {
      values_.push_back(arguments);
    }
  }

  Value format() {
    while (!rest_.empty() && !run_.failed()) {
      const std::size_t percent = std::min(rest_.find('%'), rest_.size());
      out_ += rest_.substr(0, percent);
      rest_.remove_prefix(percent);
      if (rest_.empty()) break;
      rest_.remove_prefix(1);
      format_one();
      if (!run_.allows(out_.size())) return {};
    }
    // Python lets a list pass where it could be a mapping, and an undefined value too.
    const bool is_list = arguments_.is(Kind::kSequence) && arguments_.sequence()->flavor == Sequence::Flavor::kList;
    const bool is_mapping = arguments_.is(Kind::kDict) || is_list || arguments_.is_undefined();
    const bool takes_all = next_ >= values_.size() || is_mapping || used_names_;
    if (!takes_all) run_.fail("not all arguments converted during string formatting");
    return run_.text(std::move(out_));
  }

 private:
  void format_one() {
    Value named;
    const bool has_name = rest_.starts_with('(');
    if (has_name && !read_name(named)) return;
    Specification spec;
    if (!read_specification(spec)) return;
    if (rest_.empty()) return run_.fail("incomplete format");
    const char kind = rest_.front();
    rest_.remove_prefix(1);
    if (kind == '%') {
      out_ += '%';
    } else if (has_name) {
      convert(kind, spec, named);
    } else if (next_ >= values_.size()) {
      run_.fail("not enough arguments for format string");
    } else {
      convert(kind, spec, values_[next_++]);
    }
  }

  bool read_name(Value& value) {
    const std::size_t end = rest_.find(')');
    const Value* found = nullptr;
    used_names_ = true;
    if (end != std::string_view::npos && arguments_.is(Kind::kDict)) {
      found = arguments_.dict().find(rest_.substr(1, end - 1));
    }
    if (found == nullptr) {
      run_.fail("the format string names a key that is not there");
      return false;
    }
    rest_.remove_prefix(end + 1);
    value = *found;
    return true;
  }

  bool read_specification(Specification& spec) {
    for (; !rest_.empty(); rest_.remove_prefix(1)) {
      const char flag = rest_.front();
      if (flag == '-') {
        spec.left = true;
      } else if (flag == '0') {
        spec.zero = true;
      } else if (flag == '+') {
        spec.plus = true;
      } else if (flag == ' ') {
        spec.space = true;
      } else if (flag == '#') {
        spec.alternate = true;
      } else {
        break;
      }
    }
    spec.width = read_number();
    if (rest_.starts_with('.')) {
      rest_.remove_prefix(1);
      spec.precision = static_cast<int>(read_number());
    }
    if (spec.width <= kMaxWidth && spec.precision <= kMaxPrecision) return true;
    run_.fail("a width or precision of a format string is too large");
    return false;
  }

  std::size_t read_number() {
    std::size_t number = 0;
    while (!rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9') {
      number = std::min(number * 10 + static_cast<std::size_t>(rest_.front() - '0'), kMaxWidth + 1);
      rest_.remove_prefix(1);
    }
    return number;
  }

  void convert(char kind, const Specification& spec, const Value& value) {
    switch (kind) {
      case 's':
      case 'r': {
        std::string text;
        if (kind == 's') {
          append_str(run_, value, text);
        } else {
          append_repr(run_, value, text);
        }
        if (spec.precision >= 0) text = cut(text, static_cast<std::size_t>(spec.precision));
        out_ += padded(std::move(text), spec, false);
        return;
      }
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return convert_integer(kind, spec, value);
      case 'f':
      case 'F':
      case 'e':
      case 'E':
      case 'g':
      case 'G':
        return convert_real(kind, spec, value);
      default:
        return run_.fail("unsupported format character '" + std::string(1, kind) + "'");
    }
  }

  static std::string cut(const std::string& text, std::size_t length) {
    const Text whole(nullptr, text);
    std::size_t offset = 0;
    for (std::size_t i = 0; i < std::min(length, whole.length); ++i) {
      do {
        ++offset;
      } while (offset < text.size() && (static_cast<unsigned char>(text[offset]) & 0xC0U) == 0x80U);
    }
    return text.substr(0, offset);
  }

  void convert_integer(char kind, const Specification& spec, const Value& value) {
    if (!value.is_number() || (kind != 'd' && kind != 'i' && kind != 'u' && !value.is_integral())) {
      return run_.fail("%" + std::string(1, kind) + " format: a number is required, not " +
                       std::string(value.type_name()));
    }
    if (value.is(Kind::kFloat) && !(std::abs(value.as_real()) < 1e30)) {
      return run_.fail("cannot convert a float that large to an integer");
    }
    const Int number = value.is(Kind::kFloat) ? static_cast<Int>(value.as_real()) : value.as_int();
    const bool negative = number < 0;
    const auto magnitude = negative ? -static_cast<unsigned __int128>(number) : static_cast<unsigned __int128>(number);
    std::string digits;
    if (kind == 'x') {
      digits = fmt::format("{}{:x}", spec.alternate ? "0x" : "", magnitude);
    } else if (kind == 'X') {
      digits = fmt::format("{}{:X}", spec.alternate ? "0X" : "", magnitude);
    } else if (kind == 'o') {
      digits = fmt::format("{}{:o}", spec.alternate ? "0o" : "", magnitude);
    } else {
      digits = fmt::format("{}", magnitude);
    }
    out_ += padded(with_sign(std::move(digits), negative, spec), spec, true);
  }

  void convert_real(char kind, const Specification& spec, const Value& value) {
    if (!value.is_number()) return run_.fail("must be real number, not " + std::string(value.type_name()));
    const double number = value.as_real();
    const std::string form = std::string("{:.{}") + kind + "}";
    const double magnitude = std::abs(number);
    std::string digits = fmt::format(fmt::runtime(form), magnitude, spec.precision < 0 ? 6 : spec.precision);
    out_ += padded(with_sign(std::move(digits), std::signbit(number), spec), spec, true);
  }

  Run& run_;
  std::string_view rest_;
  const Value& arguments_;
  std::vector<Value> values_;
  std::size_t next_ = 0;
  bool used_names_ = false;
  std::string out_;
};

// The value that a replacement field names: {} counts, {0} and {name} tell.
const Value* field(Run& run, std::string_view name, const Arguments& arguments, std::size_t& next) {
  if (name.find_first_of(".[!:") != std::string_view::npos) {
    run.fail("format: expected {}, {0} or {name}, found {" + std::string(name) + "}");
    return nullptr;
  }
  const bool is_number = std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; }) && name.size() < 6;
  if (is_number) {
    const std::size_t index = name.empty() ? next++ : static_cast<std::size_t>(std::stoi(std::string(name)));
    if (index < arguments.positional.size()) return &arguments.positional[index];
    run.fail("format: replacement index " + std::to_string(index) + " out of range");
    return nullptr;
  }
  for (const auto& [key, value] : arguments.named) {
    if (key == name) return &value;
  }
  run.fail("format: no argument '" + std::string(name) + "'");
  return nullptr;
}

}  // namespace

Value format_percent(Run& run, const Value& format, const Value& arguments) {
  if (!format.is_safe_text()) return PercentFormatter(run, format.bytes(), arguments).format();
  const Value escaped = escaped_operand(run, arguments);
  if (run.failed()) return {};
  return run.as_safe(PercentFormatter(run, format.bytes(), escaped).format());
}

Value format_braces(Run& run, std::string_view format, const Arguments& arguments) {
  std::string out;
  std::size_t next = 0;
  while (!format.empty() && !run.failed()) {
    const std::size_t brace = std::min(format.find_first_of("{}"), format.size());
    out += format.substr(0, brace);
    format.remove_prefix(brace);
    if (format.empty()) break;
    if (format.size() > 1 && format[1] == format[0]) {
      out += format[0];
      format.remove_prefix(2);
      continue;
    }
    const std::size_t end = format.find('}');
    if (format[0] == '}' || end == std::string_view::npos) {
      run.fail("format: a single brace in the format string");
      return {};
    }
    const Value* value = field(run, format.substr(1, end - 1), arguments, next);
    if (value == nullptr) return {};
    append_str(run, *value, out);
    if (!run.allows(out.size())) return {};
    format.remove_prefix(end + 1);
  }
  return run.text(std::move(out));
}

}  // namespace sluice::jinja
