#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "jinja/bound_arguments.h"
#include "jinja/library/builtins.h"
#include "jinja/library/operations.h"
#include "jinja/marks.h"
#include "jinja/print.h"
#include "jinja/safe_text.h"
#include "jinja/unicode.h"

namespace sluice::jinja {

namespace {

Value as_text(Run& run, const Value& input) {
  return marked_text(run, input);
}

template <std::string (*kChange)(std::string_view), bool kStaysSafe = true>
Value change(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "the filter", arguments, {});
  const Value text = as_text(run, input);
  if (run.failed() || !run.fits(text.bytes().size())) return {};
  return run.as_safe(run.text(kChange(text.bytes())), kStaysSafe && text.is_safe_text());
}

// The first letter of every word in upper case; words begin after white space and - ( { [ <.
std::string title_words(std::string_view text) {
  std::string out;
  bool at_start = true;
  while (!text.empty()) {
    const Utf8Char c = decode_utf8(text);
    const std::string_view character = text.substr(0, c.length);
    const bool separates =
        is_space(c.code_point) || std::string_view("-({[<").find(character) != std::string_view::npos;
    if (separates) {
      out += character;
    } else {
      out += at_start ? upper(character) : lower(character);
    }
    at_start = separates;
    text.remove_prefix(c.length);
  }
  return out;
}

Value unchanged(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "the filter", arguments, {});
  const Value text = as_text(run, input);
  return run.failed() || !run.fits(text.bytes().size()) ? Value() : text;
}

Value safe(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "safe", arguments, {});
  return run.as_safe(as_text(run, input));
}

template <bool kForced>
Value escape(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "escape", arguments, {});
  return escaped(run, kForced ? run.as_safe(as_text(run, input), false) : input);
}

Value trim(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "trim", arguments, {"chars"});
  const Value text = as_text(run, input);
  if (run.failed()) return {};
  return settled_safe(run, strip_text(run, text, args.value(0), /*left=*/true, /*right=*/true), text);
}

Value replace(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "replace", arguments, {"old", "new", "count"}, 2);
  const Value text = as_text(run, input);
  if (run.failed()) return {};
  const std::string old_part = to_str(run, args.value(0));
  const Value new_part = marked_text(run, args.value(1));
  return run.as_safe(replace_text(run, text, old_part, new_part, args.integer(2, -1)), false);
}

Value center(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "center", arguments, {"width"});
  const Value text = as_text(run, input);
  return run.failed() ? Value() : settled_safe(run, pad_text(run, text, args.integer(0, 80), " ", true, true), text);
}

Value indent(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "indent", arguments, {"width", "first", "blank"});
  if (input.is_undefined()) {
    run.fail_undefined(input);
  } else if (!input.is_text()) {
    run.fail("indent() expected a text, found '" + std::string(input.type_name()) + "'");
  }
  if (run.failed()) return {};
  std::string indention;
  if (args.has(0) && args.value(0).is_text()) {
    indention = args.text(0);
  } else {
    const Int width = std::max(args.integer(0, 4), Int(0));
    if (!run.fits(static_cast<std::size_t>(std::min(width, Int(1) << 40U)))) return {};
    indention.assign(static_cast<std::size_t>(width), ' ');
  }
  const Value lines = split_lines(run, run.text(std::string(input.bytes()) + "\n"), /*keep_ends=*/false);
  if (run.failed()) return {};
  std::string out = args.truth(1) ? indention : "";
  bool first = true;
  for (const Value& line : lines.items()) {
    if (!run.allows(out.size() + indention.size())) return {};
    if (!std::exchange(first, false)) {
      out += '\n';
      if (args.truth(2) || !line.bytes().empty()) out += indention;
    }
    out += line.bytes();
  }
  return settled_safe(run, run.text(std::move(out)), input);
}

Value truncate(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "truncate", arguments, {"length", "killwords", "end", "leeway"});
  const Value text = as_text(run, input);
  const std::string_view end = args.text(2, "...");
  const auto end_length = static_cast<Int>(Text(nullptr, std::string(end)).length);
  const Int length = args.integer(0, 255);
  const Int leeway = args.integer(3, 5);
  if (length < end_length || leeway < 0) run.fail("truncate() expected a length of at least that of its end");
  if (run.failed()) return {};
  if (static_cast<Int>(text.text().length) - leeway <= length) return text;
  std::string_view kept = slice(text.text(), 0, static_cast<std::size_t>(length - end_length));
  if (!args.truth(1)) kept = kept.substr(0, kept.rfind(' '));
  if (!text.is_safe_text()) return run.text(std::string(kept).append(end));
  const Value escaped_end = escaped(run, run.text(std::string(end)));
  return run.failed() ? Value() : run.as_safe(run.text(std::string(kept).append(escaped_end.bytes())));
}

Value wordcount(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "wordcount", arguments, {});
  const Value text = as_text(run, input);
  if (run.failed() || !run.work(text.bytes().size() / 8)) return {};
  Int words = 0;
  bool in_word = false;
  for (std::string_view rest = text.bytes(); !rest.empty();) {
    const Utf8Char c = decode_utf8(rest);
    const bool is_word = is_letter_or_digit(c.code_point) || c.code_point == '_';
    words += is_word && !in_word ? 1 : 0;
    in_word = is_word;
    rest.remove_prefix(c.length);
  }
  return Value::integer(words);
}

Value format(Run& run, const Value& input, const Arguments& arguments) {
  const Value text = as_text(run, input);
  if (run.failed()) return {};
  if (arguments.named.empty()) {
    const Value values = run.tuple(arguments.positional);
    return run.failed() ? Value() : format_percent(run, text, values);
  }
  if (!arguments.positional.empty()) run.fail("format: positional or named arguments, not both");
  Dict::Entries entries;
  for (const auto& [name, value] : arguments.named) entries.emplace_back(run.text(name), value);
  const Value names = run.dict(std::move(entries));
  return run.failed() ? Value() : format_percent(run, text, names);
}

Value join(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "join", arguments, {"d", "attribute"});
  const auto items = iterate(run, input);
  if (run.failed()) return {};
  const Value separator = marked_text(run, args.value(0));
  if (!args.has(1)) return join_texts(run, items->items, separator);
  std::vector<Value> parts;
  for (const Value& value : items->items) {
    parts.push_back(sort_key(run, value, args.value(1), /*case_sensitive=*/true));
    if (run.failed()) return {};
  }
  return join_texts(run, parts, separator);
}

Value tojson(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonForm form{.ensure_ascii = args.truth(0), .sort_keys = args.truth(3), .has_indent = args.has(1)};
  if (form.has_indent) {
    form.item_separator = ",";
    if (args.value(1).is_text()) {
      form.indent = args.text(1);
    } else {
      const Int width = std::clamp(args.integer(1, 0), Int(0), Int(1000));
      form.indent.assign(static_cast<std::size_t>(width), ' ');
    }
  }
  if (args.has(2)) {
    const auto separators = iterate(run, args.value(2));
    if (run.failed()) return {};
    if (separators->items.size() != 2 || !std::ranges::all_of(separators->items, &Value::is_text)) {
      run.fail("tojson() expected two separators, for items and for keys");
      return {};
    }
    form.item_separator = separators->items[0].bytes();
    form.key_separator = separators->items[1].bytes();
  }
  std::string out;
  if (!run.failed()) append_json(run, input, form, out);
  return run.text(std::move(out));
}

constexpr std::array kTextFilters = {
    FilterEntry{"trim", trim},
    FilterEntry{"tojson", tojson},
    FilterEntry{"join", join},
    FilterEntry{"replace", replace},
    FilterEntry{"upper", change<upper>},
    FilterEntry{"lower", change<lower>},
    FilterEntry{"title", change<title_words, false>},
    FilterEntry{"capitalize", change<capitalize>},
    FilterEntry{"string", unchanged},
    FilterEntry{"safe", safe},
    FilterEntry{"escape", escape<false>},
    FilterEntry{"e", escape<false>},
    FilterEntry{"forceescape", escape<true>},
    FilterEntry{"indent", indent},
    FilterEntry{"center", center},
    FilterEntry{"truncate", truncate},
    FilterEntry{"wordcount", wordcount},
    FilterEntry{"format", format},
};

}  // namespace

const FilterEntry* find_text_filter(std::string_view name) {
  const auto found = std::ranges::find(kTextFilters, name, &FilterEntry::name);
  return found == kTextFilters.end() ? nullptr : &*found;
}

}  // namespace sluice::jinja
