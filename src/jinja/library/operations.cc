// Used by jinja and jinja/library.
#include "jinja/library/operations.h"

#include <algorithm>
#include <string>
#include <utility>

#include "jinja/library/builtins.h"
#include "jinja/marks.h"
#include "jinja/safe_text.h"
#include "jinja/unicode.h"

namespace sluice::jinja {

namespace {

using Kind = Value::Kind;

bool equal_items(Run& run, const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!equal(run, a[i], b[i])) return false;
  }
  return true;
}

bool equal_dicts(Run& run, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = find_key(run, b, key);
    if (other == nullptr || !equal(run, value, *other)) return false;
  }
  return true;
}

// Exact: an integer beyond 2^53 is not rounded before it is compared.
bool less_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.as_int() < b.as_int();
  return static_cast<long double>(a.is_integral() ? static_cast<long double>(a.as_int()) : a.as_real()) <
         static_cast<long double>(b.is_integral() ? static_cast<long double>(b.as_int()) : b.as_real());
}

bool equal_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.as_int() == b.as_int();
  const auto wide = [](const Value& v) {
    return v.is_integral() ? static_cast<long double>(v.as_int()) : static_cast<long double>(v.as_real());
  };
  return wide(a) == wide(b);
}

void fail_order(Run& run, std::string_view sign, const Value& a, const Value& b) {
  if (a.is_undefined()) return run.fail_undefined(a);
  if (b.is_undefined()) return run.fail_undefined(b);
  run.fail("'" + std::string(sign) + "' not supported between instances of '" + std::string(a.type_name()) + "' and '" +
           std::string(b.type_name()) + "'");
}

// -1, 0 or 1; fails for what Python does not order.
int order(Run& run, std::string_view sign, const Value& a, const Value& b) {
  if (!run.step()) return 0;
  if (a.is_number() && b.is_number()) return less_numbers(a, b) ? -1 : less_numbers(b, a) ? 1 : 0;
  if (a.is_text() && b.is_text()) {
    run.work(std::min(a.bytes().size(), b.bytes().size()) / 64);
    const int sign_of = a.bytes().compare(b.bytes());  // UTF-8 sorts as its code points do
    return sign_of < 0 ? -1 : sign_of > 0 ? 1 : 0;
  }
  const bool both_ordered = a.is(Kind::kSequence) && b.is(Kind::kSequence) &&
                            a.sequence()->flavor == b.sequence()->flavor &&
                            a.sequence()->flavor <= Sequence::Flavor::kTuple;
  if (!both_ordered) {
    fail_order(run, sign, a, b);
    return 0;
  }
  const std::size_t shared = std::min(a.items().size(), b.items().size());
  for (std::size_t i = 0; i < shared; ++i) {
    if (equal(run, a.items()[i], b.items()[i])) continue;
    return order(run, sign, a.items()[i], b.items()[i]);
  }
  return a.items().size() < b.items().size() ? -1 : a.items().size() > b.items().size() ? 1 : 0;
}

bool contains_in_generator(Run& run, Generator& generator, const Value& item) {
  while (generator.next < generator.items->items.size()) {
    if (equal(run, generator.items->items[generator.next++], item)) return true;
  }
  return false;
}

std::shared_ptr<const Sequence> share(Run& run, std::vector<Value> items) {
  const Value list = run.list(std::move(items));
  return run.failed() ? nullptr : list.sequence();
}

std::shared_ptr<const Sequence> characters(Run& run, const Value& value) {
  const Text& text = value.text();
  std::vector<Value> items;
  if (!run.work(text.length) || !run.fits(text.length * sizeof(Value))) return nullptr;
  items.reserve(text.length);
  for (std::size_t offset = 0; offset < text.bytes.size() && !run.failed();) {
    const std::size_t length = code_point_bytes(text.bytes, offset);
    items.push_back(run.part(value, value.bytes().substr(offset, length)));
    offset += length;
  }
  return share(run, std::move(items));
}

std::string object_name(const Value& value) {
  if (value.is_none()) return "None";
  return std::string(value.type_name()) + " object";
}

// The place of an index that counts from the end when negative; false if there is none.
bool place(Int index, std::size_t size, std::size_t& out) {
  const auto length = static_cast<Int>(size);
  if (index < 0) index += length;
  if (index < 0 || index >= length) return false;
  out = static_cast<std::size_t>(index);
  return true;
}

bool has_index(const Value& value) {
  return value.is(Kind::kSequence) && value.sequence()->flavor <= Sequence::Flavor::kRange;
}

// value[key] where there is one.
bool find_item(Run& run, const Value& value, const Value& key, Value& out) {
  std::size_t index = 0;
  if (value.is(Kind::kDict)) {
    const Value* found = find_key(run, value.dict(), key);
    if (found != nullptr) out = *found;
    return found != nullptr;
  }
  if (has_index(value) && key.is_integral() && place(key.as_int(), value.items().size(), index)) {
    out = value.items()[index];
    return true;
  }
  if (value.is_text() && key.is_integral() && place(key.as_int(), value.text().length, index)) {
    run.work(value.text().is_ascii() ? 0 : index / 64);
    out = settled_safe(run, run.part(value, slice(value.text(), index, index + 1)), value);
    return true;
  }
  return false;
}

Value missing(Run& run, const Value& value, const Value& key) {
  if (key.is_text()) {
    return run.undefined("'" + object_name(value) + "' has no attribute '" + std::string(key.bytes().substr(0, 100)) +
                         "'");
  }
  return run.undefined(object_name(value) + " has no element" +
                       (key.is_integral() ? " " + std::to_string(static_cast<long long>(key.as_int())) : ""));
}

// The places that [from:to:step] of `size` items names.
struct Places {
  Int begin;
  Int end;
  Int step;
};

bool read_places(Run& run, std::size_t size, const Value& from, const Value& to, const Value& step, Places& out) {
  for (const Value* part : {&from, &to, &step}) {
    if (part->is_none() || part->is_integral()) continue;
    run.fail("slice indices must be integers or None");
    return false;
  }
  const auto length = static_cast<Int>(size);
  out.step = step.is_none() ? 1 : step.as_int();
  if (out.step == 0) {
    run.fail("slice step cannot be zero");
    return false;
  }
  const bool backwards = out.step < 0;
  const Int lowest = backwards ? -1 : 0;
  const Int highest = backwards ? length - 1 : length;
  const auto clamp = [&](const Value& part, Int absent) {
    if (part.is_none()) return absent;
    const Int index = part.as_int() < 0 ? std::max(part.as_int(), -length - 1) + length : part.as_int();
    return std::clamp(index, lowest, std::max(lowest, highest));
  };
  out.begin = clamp(from, backwards ? highest : lowest);
  out.end = clamp(to, backwards ? lowest : highest);
  return true;
}

template <class Take>
void for_each_place(const Places& places, Take take) {
  if (places.step > 0) {
    for (Int i = places.begin; i < places.end; i += places.step) take(static_cast<std::size_t>(i));
  } else {
    for (Int i = places.begin; i > places.end; i += places.step) take(static_cast<std::size_t>(i));
  }
}

}  // namespace

bool equal(Run& run, const Value& a, const Value& b) {
  if (!run.step()) return false;
  if (a.is_number() && b.is_number()) return equal_numbers(a, b);
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kText:
      return a.bytes().size() == b.bytes().size() && run.work(a.bytes().size() / 64) && a.bytes() == b.bytes();
    case Kind::kSequence:
      return a.sequence()->flavor == b.sequence()->flavor && equal_items(run, a.items(), b.items());
    case Kind::kDict:
      return equal_dicts(run, a.dict(), b.dict());
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kNamespace:
    case Kind::kFunction:
    case Kind::kGenerator:
    case Kind::kLoop:
      break;
  }
  return a.same_as(b);
}

bool less(Run& run, const Value& a, const Value& b) {
  return order(run, "<", a, b) < 0;
}

bool contains(Run& run, const Value& container, const Value& item) {
  if (!run.step()) return false;
  if (container.is_text()) {
    if (item.is_text()) {
      run.work(container.bytes().size() / 64);
      return container.bytes().find(item.bytes()) != std::string_view::npos;
    }
    run.fail("'in <string>' requires string as left operand, not " + std::string(item.type_name()));
    return false;
  }
  if (container.is(Kind::kDict)) {
    if (!is_hashable(run, item)) run.fail("unhashable type: '" + std::string(item.type_name()) + "'");
    return find_key(run, container.dict(), item) != nullptr;
  }
  if (container.is(Kind::kGenerator)) return contains_in_generator(run, container.generator(), item);
  if (container.is_undefined()) return false;
  if (!container.is(Kind::kSequence)) {
    run.fail("argument of type '" + std::string(container.type_name()) + "' is not iterable");
    return false;
  }
  return std::ranges::any_of(container.items(), [&](const Value& other) { return equal(run, other, item); });
}

bool compare(Run& run, Operator operation, const Value& a, const Value& b) {
  switch (operation) {
    case Operator::kEqual:
      return equal(run, a, b);
    case Operator::kNotEqual:
      return !equal(run, a, b);
    case Operator::kLess:
      return order(run, "<", a, b) < 0;
    case Operator::kLessOrEqual:
      return order(run, "<=", a, b) <= 0;
    case Operator::kGreater:
      return order(run, ">", a, b) > 0;
    case Operator::kGreaterOrEqual:
      return order(run, ">=", a, b) >= 0;
    case Operator::kIn:
      return contains(run, b, a);
    case Operator::kNotIn:
      return !contains(run, b, a);
    default:
      break;
  }
  run.fail("an operator compares nothing");
  return false;
}

std::shared_ptr<const Sequence> iterate(Run& run, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return share(run, {});
    case Kind::kText:
      return characters(run, value);
    case Kind::kSequence:
      return value.sequence();
    case Kind::kDict: {
      std::vector<Value> keys;
      for (const auto& [key, unused] : value.dict().entries) keys.push_back(key);
      return share(run, std::move(keys));
    }
    case Kind::kGenerator: {
      Generator& generator = value.generator();
      const std::size_t begin = std::exchange(generator.next, generator.items->items.size());
      if (begin == 0) return generator.items;
      return share(run,
                   {generator.items->items.begin() + static_cast<std::ptrdiff_t>(begin), generator.items->items.end()});
    }
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kNamespace:
    case Kind::kFunction:
    case Kind::kLoop:
      break;
  }
  run.fail("'" + std::string(value.type_name()) + "' object is not iterable");
  return nullptr;
}

bool is_hashable(Run& run, const Value& value) {
  if (!run.step() || value.is(Kind::kDict)) return false;
  if (!value.is(Kind::kSequence)) return true;
  if (value.sequence()->flavor == Sequence::Flavor::kRange) return true;
  return value.sequence()->flavor == Sequence::Flavor::kTuple &&
         std::ranges::all_of(value.items(), [&](const Value& item) { return is_hashable(run, item); });
}

const Value* find_key(Run& run, const Dict& dict, const Value& key) {
  if (!run.work(dict.entries.size() / 16)) return nullptr;
  if (key.is_text()) return dict.find(key.bytes());
  for (const auto& [other, value] : dict.entries) {
    if (!other.is_text() && equal(run, other, key)) return &value;
  }
  return nullptr;
}

void set_key(Run& run, Dict::Entries& entries, Value key, Value value) {
  if (!is_hashable(run, key)) return run.fail("unhashable type: '" + std::string(key.type_name()) + "'");
  run.work(entries.size() / 16);
  for (auto& [other, old] : entries) {
    const bool is_same = other.is_text() && key.is_text() ? other.bytes() == key.bytes()
                                                          : other.is_text() == key.is_text() && equal(run, other, key);
    if (!is_same) continue;
    old = std::move(value);
    return;
  }
  entries.emplace_back(std::move(key), std::move(value));
}

Value item(Run& run, const Value& value, const Value& key) {
  if (value.is_undefined()) {
    run.fail_undefined(value);
    return {};
  }
  Value out;
  if (find_item(run, value, key, out)) return out;
  if (key.is_text() && find_attribute(run, value, key.bytes(), out)) return out;
  return missing(run, value, key);
}

Value attribute(Run& run, const Value& value, std::string_view name) {
  if (value.is_undefined()) {
    run.fail_undefined(value);
    return {};
  }
  Value out;
  if (find_attribute(run, value, name, out)) return out;
  if (value.is(Kind::kDict)) {
    run.work(value.dict().entries.size() / 16);
    if (const Value* found = value.dict().find(name)) return *found;
  }
  return run.undefined("'" + object_name(value) + "' has no attribute '" + std::string(name.substr(0, 100)) + "'");
}

Value slice(Run& run, const Value& value, const Value& from, const Value& to, const Value& step) {
  Places places{};
  if (value.is_undefined()) {
    run.fail_undefined(value);
    return {};
  }
  if (value.is_text()) {
    const Text& text = value.text();
    if (!read_places(run, text.length, from, to, step, places) || !run.work(text.bytes.size() / 64)) return {};
    if (places.step == 1) {
      const auto begin = static_cast<std::size_t>(places.begin);
      const auto end = static_cast<std::size_t>(std::max(places.begin, places.end));
      return settled_safe(run, run.part(value, slice(text, begin, end)), value);
    }
    std::vector<std::size_t> offsets;  // the offset of every code point
    if (!run.fits(text.length * sizeof(std::size_t) / 8)) return {};
    for (std::size_t at = 0; at < text.bytes.size(); at += code_point_bytes(text.bytes, at)) offsets.push_back(at);
    std::string out;
    for_each_place(
        places, [&](std::size_t i) { out.append(text.bytes, offsets[i], code_point_bytes(text.bytes, offsets[i])); });
    return settled_safe(run, settled(run, run.text(std::move(out)), value, {}), value);
  }
  if (!has_index(value)) {
    run.fail(value.is(Kind::kDict) ? "unhashable type: 'slice'"
                                   : "'" + std::string(value.type_name()) + "' object is not subscriptable");
    return {};
  }
  if (!read_places(run, value.items().size(), from, to, step, places)) return {};
  std::vector<Value> items;
  for_each_place(places, [&](std::size_t i) { items.push_back(value.items()[i]); });
  run.work(items.size());
  return run.sequence(std::move(items), value.sequence()->flavor);
}

}  // namespace sluice::jinja
