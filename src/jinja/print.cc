// Used by jinja and jinja/library.
#include "jinja/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/utf8.h"
#include "files/json.h"
#include "jinja/library/operations.h"
#include "jinja/unicode.h"

namespace sluice::jinja {

namespace {

using Kind = Value::Kind;

void append_real(std::string& out, double number) {
  if (std::isfinite(number)) {
    append_json_number(out, number);
  } else {
    out += std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
  }
}

void append_text_repr(std::string_view text, std::string& out) {
  const bool doubles = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = doubles ? '"' : '\'';
  out += quote;
  while (!text.empty()) {
    const Utf8Char c = decode_utf8(text);
    if (c.code_point == static_cast<char32_t>(quote) || c.code_point == '\\') {
      out += '\\';
      out += text.front();
    } else if (c.code_point == '\n') {
      out += "\\n";
    } else if (c.code_point == '\r') {
      out += "\\r";
    } else if (c.code_point == '\t') {
      out += "\\t";
    } else if (is_printable(c.code_point)) {
      out += text.substr(0, c.length);
    } else {
      const auto code = static_cast<std::uint32_t>(c.code_point);
      const char* form = code < 0x100 ? "\\x{:02x}" : code < 0x10000 ? "\\u{:04x}" : "\\U{:08x}";
      fmt::format_to(std::back_inserter(out), fmt::runtime(form), code);
    }
    text.remove_prefix(c.length);
  }
  out += quote;
}

void append_items_repr(Run& run, const Sequence& sequence, std::string& out) {
  using Flavor = Sequence::Flavor;
  const bool is_tuple = sequence.flavor == Flavor::kTuple;
  std::string_view name;
  if (sequence.flavor == Flavor::kDictKeys) name = "dict_keys(";
  if (sequence.flavor == Flavor::kDictValues) name = "dict_values(";
  if (sequence.flavor == Flavor::kDictItems) name = "dict_items(";
  out.append(name).append(is_tuple ? "(" : "[");
  bool first = true;
  for (const Value& item : sequence.items) {
    if (!std::exchange(first, false)) out += ", ";
    append_repr(run, item, out);
    if (!run.allows(out.size())) return;
  }
  if (is_tuple && sequence.items.size() == 1) out += ',';
  out += is_tuple ? ')' : ']';
  if (!name.empty()) out += ')';
}

void append_dict_repr(Run& run, const Dict& dict, std::string& out) {
  out += '{';
  bool first = true;
  for (const auto& [key, value] : dict.entries) {
    if (!std::exchange(first, false)) out += ", ";
    append_repr(run, key, out);
    out += ": ";
    append_repr(run, value, out);
    if (!run.allows(out.size())) return;
  }
  out += '}';
}

void append_escaped_ascii(std::string_view text, std::string& out) {
  std::string quoted;
  append_json_string(quoted, text);
  for (std::string_view rest = quoted; !rest.empty();) {
    const Utf8Char c = decode_utf8(rest);
    const auto code = static_cast<std::uint32_t>(c.code_point);
    if (code < 0x7F) {
      out += rest.front();
    } else if (code == 0x7F) {
      out += '\x7F';
    } else if (code < 0x10000) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", code);
    } else {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}\\u{:04x}", 0xD800 + ((code - 0x10000) >> 10U),
                     0xDC00 + ((code - 0x10000) & 0x3FFU));
    }
    rest.remove_prefix(c.length);
  }
}

class JsonWriter {
 public:
  JsonWriter(Run& run, const JsonForm& form, std::string& out) : run_(run), form_(form), out_(out) {}

  void write(const Value& value) {
    if (!run_.step() || !run_.allows(out_.size())) return;
    switch (value.kind()) {
      case Kind::kNone:
        out_ += "null";
        return;
      case Kind::kBool:
        out_ += value.as_bool() ? "true" : "false";
        return;
      case Kind::kInt:
        out_ += to_text(value.as_int());
        return;
      case Kind::kFloat:
        return write_real(value.as_real());
      case Kind::kText:
        return write_text(value.bytes());
      case Kind::kSequence:
        if (value.sequence()->flavor > Sequence::Flavor::kTuple) break;
        return write_items(value.items());
      case Kind::kDict:
        return write_dict(value.dict());
      case Kind::kUndefined:
      case Kind::kNamespace:
      case Kind::kFunction:
      case Kind::kGenerator:
      case Kind::kLoop:
        break;
    }
    const std::string why = value.is_undefined() ? " (" + std::string(value.hint()) + ")" : "";
    run_.fail("Object of type " + std::string(value.type_name()) + " is not JSON serializable" + why);
  }

 private:
  void write_real(double number) {
    if (std::isfinite(number)) return append_json_number(out_, number);
    out_ += std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
  }

  void write_text(std::string_view text) {
    if (!run_.work(text.size() / 64)) return;
    if (form_.ensure_ascii) {
      append_escaped_ascii(text, out_);
    } else {
      append_json_string(out_, text);
    }
  }

  void new_line(int level) {
    if (!form_.has_indent) return;
    out_ += '\n';
    for (int i = 0; i < level && run_.allows(out_.size()); ++i) out_ += form_.indent;
  }

  void write_items(const std::vector<Value>& items) {
    if (items.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    ++level_;
    bool first = true;
    for (const Value& item : items) {
      if (!std::exchange(first, false)) out_ += form_.item_separator;
      new_line(level_);
      write(item);
      if (run_.failed()) return;
    }
    new_line(--level_);
    out_ += ']';
  }

  void write_dict(const Dict& dict) {
    if (dict.entries.empty()) {
      out_ += "{}";
      return;
    }
    out_ += '{';
    ++level_;
    bool first = true;
    for (const auto* entry : ordered(dict)) {
      if (!std::exchange(first, false)) out_ += form_.item_separator;
      new_line(level_);
      write_key(entry->first);
      out_ += form_.key_separator;
      write(entry->second);
      if (run_.failed()) return;
    }
    new_line(--level_);
    out_ += '}';
  }

  std::vector<const Dict::Entries::value_type*> ordered(const Dict& dict) {
    std::vector<const Dict::Entries::value_type*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (form_.sort_keys) {
      std::ranges::stable_sort(entries, [&](const auto* a, const auto* b) { return less(run_, a->first, b->first); });
    }
    return entries;
  }

  // A key that is no text becomes one.
  void write_key(const Value& key) {
    if (key.is_text()) return write_text(key.bytes());
    if (!key.is_number() && !key.is_none()) {
      return run_.fail("keys must be str, int, float, bool or None, not " + std::string(key.type_name()));
    }
    out_ += '"';
    write(key);
    out_ += '"';
  }

  Run& run_;
  const JsonForm& form_;
  std::string& out_;
  int level_ = 0;
};

}  // namespace

std::string to_text(Int number) {
  return fmt::format("{}", number);
}

void append_str(Run& run, const Value& value, std::string& out) {
  if (value.is_text()) {
    out += value.bytes();
  } else if (!value.is_undefined()) {
    append_repr(run, value, out);
  }
}

std::string to_str(Run& run, const Value& value) {
  std::string out;
  append_str(run, value, out);
  return out;
}

void append_repr(Run& run, const Value& value, std::string& out) {
  if (!run.step() || !run.allows(out.size())) return;
  switch (value.kind()) {
    case Kind::kUndefined:
      out += "Undefined";
      return;
    case Kind::kNone:
      out += "None";
      return;
    case Kind::kBool:
      out += value.as_bool() ? "True" : "False";
      return;
    case Kind::kInt:
      out += to_text(value.as_int());
      return;
    case Kind::kFloat:
      return append_real(out, value.as_real());
    case Kind::kText:
      if (!run.work(value.bytes().size() / 64)) return;
      if (value.is_safe_text()) out += "Markup(";
      append_text_repr(value.bytes(), out);
      if (value.is_safe_text()) out += ')';
      return;
    case Kind::kSequence:
      if (value.sequence()->flavor == Sequence::Flavor::kRange) break;
      return append_items_repr(run, *value.sequence(), out);
    case Kind::kDict:
      return append_dict_repr(run, value.dict(), out);
    case Kind::kNamespace:
    case Kind::kFunction:
    case Kind::kGenerator:
    case Kind::kLoop:
      break;
  }
  run.fail("a " + std::string(value.type_name()) + " has no text of its own" +
           (value.is(Kind::kGenerator) || value.is(Kind::kSequence) ? "; make a list of it with |list" : ""));
}

void append_json(Run& run, const Value& value, const JsonForm& form, std::string& out) {
  JsonWriter(run, form, out).write(value);
}

}  // namespace sluice::jinja
