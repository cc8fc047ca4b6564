#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "jinja/bound_arguments.h"
#include "jinja/library/builtins.h"
#include "jinja/library/operations.h"
#include "jinja/print.h"
#include "jinja/safe_text.h"
#include "jinja/unicode.h"

namespace sluice::jinja {

namespace {

using Kind = Value::Kind;

template <std::string (*kChange)(std::string_view)>
Value changed(Run& run, const Value& self, const Arguments& arguments) {
  const BoundArguments args(run, "the method", arguments, {});
  if (!run.fits(self.bytes().size())) return {};
  return run.text(kChange(self.bytes()));
}

template <bool (*kHolds)(std::string_view)>
Value tested(Run& run, const Value& self, const Arguments& arguments) {
  const BoundArguments args(run, "the method", arguments, {});
  run.work(self.bytes().size() / 64);
  return Value::boolean(kHolds(self.bytes()));
}

template <bool (*kHolds)(char32_t)>
bool all_characters(std::string_view text) {
  const bool is_empty = text.empty();
  while (!text.empty()) {
    const Utf8Char c = decode_utf8(text);
    if (!kHolds(c.code_point)) return false;
    text.remove_prefix(c.length);
  }
  return !is_empty;
}

bool is_ascii_digit(char32_t c) {
  return c >= '0' && c <= '9';
}

bool is_letter(char32_t c) {
  return is_letter_or_digit(c) && !is_ascii_digit(c);
}

template <bool kLeft, bool kRight>
Value strip(Run& run, const Value& self, const Arguments& arguments) {
  const BoundArguments args(run, "strip", arguments, {"chars"});
  if (run.failed()) return {};
  return strip_text(run, self, args.value(0), kLeft, kRight);
}

Value split(Run& run, const Value& self, const Arguments& arguments) {
  const BoundArguments args(run, "split", arguments, {"sep", "maxsplit"});
  const Int most = args.integer(1, -1);
  if (args.has(0)) return split_text(run, self, args.text(0), most, /*from_right=*/false);
  return split_words(run, self, most, /*from_right=*/false);
}

Value rsplit(Run& run, const Value& self, const Arguments& arguments) {
  const BoundArguments args(run, "rsplit", arguments, {"sep", "maxsplit"});
  const Int most = args.integer(1, -1);
  if (args.has(0)) return split_text(run, self, args.text(0), most, /*from_right=*/true);
  return split_words(run, self, most, /*from_right=*/true);
}

Value splitlines(Run& run, const Value& self, const Arguments& arguments) {
  const BoundArguments args(run, "splitlines", arguments, {"keepends"});
  return split_lines(run, self, args.truth(0));
}

Value partition(Run& run, const Value& self, const Arguments& arguments) {
  const BoundArguments args(run, "partition", arguments, {"sep"}, 1);
  const std::string_view text = self.bytes();
  const std::string_view separator = args.text(0);
  if (!run.work(text.size() / 64)) return {};
  const std::size_t at = text.find(separator);
  if (at == std::string_view::npos) return run.tuple({self, run.text({}), run.text({})});
  return run.tuple({run.part(self, text.substr(0, at)), run.part(self, text.substr(at, separator.size())),
                    run.part(self, text.substr(at + separator.size()))});
}

Value rpartition(Run& run, const Value& self, const Arguments& arguments) {
  const BoundArguments args(run, "rpartition", arguments, {"sep"}, 1);
  const std::string_view text = self.bytes();
  const std::string_view separator = args.text(0);
  if (!run.work(text.size() / 64)) return {};
  const std::size_t at = text.rfind(separator);
  if (at == std::string_view::npos) return run.tuple({run.text({}), run.text({}), self});
  return run.tuple({run.part(self, text.substr(0, at)), run.part(self, text.substr(at, separator.size())),
                    run.part(self, text.substr(at + separator.size()))});
}

// The text or the texts of a tuple that a text may start or end with.
template <class Matches>
Value any_of_affixes(Run& run, const Value& affixes, Matches matches) {
  if (affixes.is_text()) return Value::boolean(matches(affixes.bytes()));
  const bool is_tuple = affixes.is(Kind::kSequence) && affixes.sequence()->flavor == Sequence::Flavor::kTuple;
  if (!is_tuple || !std::ranges::all_of(affixes.items(), &Value::is_text)) {
    if (affixes.is_undefined()) {
      run.fail_undefined(affixes);
    } else {
      run.fail("the first argument must be str or a tuple of str, not " + std::string(affixes.type_name()));
    }
    return {};
  }
  run.work(affixes.items().size());
  return Value::boolean(std::ranges::any_of(affixes.items(), [&](const Value& v) { return matches(v.bytes()); }));
}

Value startswith(Run& run, const Value& self, const Arguments& arguments) {
  const BoundArguments args(run, "startswith", arguments, {"prefix"}, 1);
  if (run.failed()) return {};
  return any_of_affixes(run, args.value(0), [&](std::string_view affix) { return self.bytes().starts_with(affix); });
}

Value endswith(Run& run, const Value& self, const Arguments& arguments) {
  const BoundArguments args(run, "endswith", arguments, {"suffix"}, 1);
  if (run.failed()) return {};
  return any_of_affixes(run, args.value(0), [&](std::string_view affix) { return self.bytes().ends_with(affix); });
}

Value removeprefix(Run& run, const Value& self, const Arguments& arguments) {
  const BoundArguments args(run, "removeprefix", arguments, {"prefix"}, 1);
  const std::string_view prefix = args.text(0);
  return self.bytes().starts_with(prefix) ? run.part(self, self.bytes().substr(prefix.size())) : self;
}

Value removesuffix(Run& run, const Value& self, const Arguments& arguments) {
  const BoundArguments args(run, "removesuffix", arguments, {"suffix"}, 1);
  const std::string_view suffix = args.text(0);
  if (!self.bytes().ends_with(suffix)) return self;
  return run.part(self, self.bytes().substr(0, self.bytes().size() - suffix.size()));
}

Value replace_method(Run& run, const Value& self, const Arguments& arguments) {
  const BoundArguments args(run, "replace", arguments, {"old", "new", "count"}, 2);
  if (run.failed()) return {};
  const std::string_view old_part = args.text(0);
  const Value new_part = args.has(1) ? args.value(1) : run.text({});
  args.text(1);  // fails if the argument is no text
  if (run.failed()) return {};
  return replace_text(run, self, old_part, self.is_safe_text() ? escaped(run, new_part) : new_part,
                      args.integer(2, -1));
}

Value join_method(Run& run, const Value& self, const Arguments& arguments) {
  const BoundArguments args(run, "join", arguments, {"iterable"}, 1);
  if (run.failed()) return {};
  const auto items = iterate(run, args.value(0));
  if (items == nullptr) return {};
  if (self.is_safe_text()) {
    std::vector<Value> parts;
    for (const Value& part : items->items) parts.push_back(escaped(run, part));
    return run.failed() ? Value() : join_texts(run, parts, self);
  }
  for (const Value& part : items->items) {
    if (!part.is_text()) run.fail("join: expected str items, found " + std::string(part.type_name()));
  }
  return run.failed() ? Value() : join_texts(run, items->items, self);
}

// The place of a part in code points, -1 if it is not there.
Value find_part(Run& run, const Value& self, const BoundArguments& args, bool from_right) {
  const std::string_view part = args.text(0);
  if (args.has(1) || args.has(2)) run.fail("find: a start and an end are not supported; take a slice");
  if (!run.work(self.bytes().size() / 32)) return {};
  const std::size_t at = from_right ? self.bytes().rfind(part) : self.bytes().find(part);
  if (at == std::string_view::npos) return Value::integer(-1);
  return Value::integer(static_cast<Int>(Text(nullptr, std::string(self.bytes().substr(0, at))).length));
}

Value find(Run& run, const Value& self, const Arguments& arguments) {
  return find_part(run, self, BoundArguments(run, "find", arguments, {"sub", "start", "end"}, 1), false);
}

Value rfind(Run& run, const Value& self, const Arguments& arguments) {
  return find_part(run, self, BoundArguments(run, "rfind", arguments, {"sub", "start", "end"}, 1), true);
}

Value index(Run& run, const Value& self, const Arguments& arguments) {
  const Value place = find_part(run, self, BoundArguments(run, "index", arguments, {"sub", "start", "end"}, 1), false);
  if (!run.failed() && place.as_int() < 0) run.fail("index(): substring not found");
  return place;
}

Value count(Run& run, const Value& self, const Arguments& arguments) {
  const BoundArguments args(run, "count", arguments, {"sub"}, 1);
  const std::string_view part = args.text(0);
  if (!run.work(self.bytes().size() / 16)) return {};
  if (part.empty()) return Value::integer(static_cast<Int>(self.text().length) + 1);
  Int found = 0;
  for (std::size_t at = self.bytes().find(part); at != std::string_view::npos;
       at = self.bytes().find(part, at + part.size())) {
    ++found;
  }
  return Value::integer(found);
}

enum class Side { kLeft, kRight, kCenter };

template <Side kSide>
Value justify(Run& run, const Value& self, const Arguments& arguments) {
  const BoundArguments args(run, "the method", arguments, {"width", "fillchar"}, 1);
  const Int width = args.integer(0, 0);
  const std::string_view fill = args.text(1, " ");
  if (run.failed()) return {};
  if (Text(nullptr, std::string(fill)).length != 1) {
    run.fail("the fill character must be exactly one character long");
    return {};
  }
  return pad_text(run, self, width, fill, kSide != Side::kLeft, kSide != Side::kRight);
}

Value zfill(Run& run, const Value& self, const Arguments& arguments) {
  const BoundArguments args(run, "zfill", arguments, {"width"}, 1);
  const std::string_view text = self.bytes();
  const bool is_signed = text.starts_with('-') || text.starts_with('+');
  const Int width = args.integer(0, 0) - (is_signed ? 1 : 0);
  if (run.failed()) return {};
  const Value digits = run.text(std::string(text.substr(is_signed ? 1 : 0)));
  const Value padded = pad_text(run, digits, width, "0", /*before=*/true, /*after=*/false);
  if (run.failed() || !is_signed) return padded;
  return run.text(std::string(text.substr(0, 1)).append(padded.bytes()));
}

Value format_method(Run& run, const Value& self, const Arguments& arguments) {
  if (!self.is_safe_text()) return format_braces(run, self.bytes(), arguments);
  const Arguments escapes = escaped_arguments(run, arguments);
  return run.failed() ? Value() : format_braces(run, self.bytes(), escapes);
}

Value unsupported(Run& run, const Value& /*self*/, const Arguments& /*arguments*/) {
  run.fail("this method of str is not supported in chat templates");
  return {};
}

constexpr std::array kTextMethods = {
    Method{"strip", strip<true, true>},
    Method{"lstrip", strip<true, false>},
    Method{"rstrip", strip<false, true>},
    Method{"split", split},
    Method{"rsplit", rsplit},
    Method{"splitlines", splitlines},
    Method{"partition", partition},
    Method{"rpartition", rpartition},
    Method{"startswith", startswith},
    Method{"endswith", endswith},
    Method{"removeprefix", removeprefix},
    Method{"removesuffix", removesuffix},
    Method{"replace", replace_method},
    Method{"join", join_method},
    Method{"find", find},
    Method{"rfind", rfind},
    Method{"index", index},
    Method{"count", count},
    Method{"upper", changed<upper>},
    Method{"lower", changed<lower>},
    Method{"casefold", changed<lower>},
    Method{"title", changed<title>},
    Method{"capitalize", changed<capitalize>},
    Method{"isspace", tested<all_characters<is_space>>},
    Method{"isdigit", tested<all_characters<is_ascii_digit>>},
    Method{"isnumeric", tested<all_characters<is_ascii_digit>>},
    Method{"isdecimal", tested<all_characters<is_ascii_digit>>},
    Method{"isalpha", tested<all_characters<is_letter>>},
    Method{"isalnum", tested<all_characters<is_letter_or_digit>>},
    Method{"isupper", tested<is_upper>},
    Method{"islower", tested<is_lower>},
    Method{"ljust", justify<Side::kLeft>},
    Method{"rjust", justify<Side::kRight>},
    Method{"center", justify<Side::kCenter>},
    Method{"zfill", zfill},
    Method{"format", format_method},
    Method{"encode", unsupported},
    Method{"expandtabs", unsupported},
    Method{"format_map", unsupported},
    Method{"isascii", unsupported},
    Method{"isidentifier", unsupported},
    Method{"isprintable", unsupported},
    Method{"istitle", unsupported},
    Method{"maketrans", unsupported},
    Method{"rindex", unsupported},
    Method{"swapcase", unsupported},
    Method{"translate", unsupported},
};

}  // namespace

const Method* find_text_method(std::string_view name) {
  const auto found = std::ranges::find(kTextMethods, name, &Method::name);
  return found == kTextMethods.end() ? nullptr : &*found;
}

}  // namespace sluice::jinja
