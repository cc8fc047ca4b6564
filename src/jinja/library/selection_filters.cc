// map, select, reject and their like: filters that apply another filter, or a test, to every item.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "jinja/bound_arguments.h"
#include "jinja/library/builtins.h"
#include "jinja/library/operations.h"
#include "jinja/marks.h"
#include "jinja/unicode.h"

namespace sluice::jinja {

namespace {

// value.a.0.b by the path "a.0.b", or by one index.
Value follow(Run& run, const Value& value, const Value& path, const Value* absent = nullptr) {
  Value found = value;
  const auto enter = [&](const Value& key) {
    found = item(run, found, key);
    if (absent != nullptr && found.is_undefined()) found = *absent;
  };
  if (path.is_undefined() || path.is_none()) return found;
  if (!path.is_text()) {
    enter(path);
    return found;
  }
  std::string_view rest = path.bytes();
  while (run.step()) {
    const std::size_t dot = std::min(rest.find('.'), rest.size());
    const std::string_view part = rest.substr(0, dot);
    const bool is_index =
        !part.empty() && part.size() < 10 && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
    enter(is_index ? Value::integer(std::stoi(std::string(part))) : run.text(std::string(part)));
    if (dot == rest.size()) break;
    rest.remove_prefix(dot + 1);
  }
  return found;
}

Arguments from(const Arguments& arguments, std::size_t begin) {
  Arguments rest{.positional = {}, .named = arguments.named};
  for (std::size_t i = begin; i < arguments.positional.size(); ++i) rest.positional.push_back(arguments.positional[i]);
  return rest;
}

const Value* named(const Arguments& arguments, std::string_view name) {
  const auto found = std::ranges::find_if(arguments.named, [&](const auto& entry) { return entry.first == name; });
  return found == arguments.named.end() ? nullptr : &found->second;
}

std::string_view name_in(Run& run, const Arguments& arguments, std::size_t index, std::string_view what) {
  if (index < arguments.positional.size() && arguments.positional[index].is_text()) {
    return arguments.positional[index].bytes();
  }
  run.fail("expected the name of a " + std::string(what));
  return {};
}

Value map_attribute(Run& run, const std::vector<Value>& items, const Arguments& arguments) {
  const Value* path = named(arguments, "attribute");
  const Value* absent = named(arguments, "default");
  std::vector<Value> mapped;
  for (const Value& value : items) {
    mapped.push_back(follow(run, value, *path, absent));
    if (run.failed()) return {};
  }
  return run.generator(std::move(mapped));
}

Value map(Run& run, const Value& input, const Arguments& arguments) {
  if (!truth(input)) return run.generator({});
  const auto items = iterate(run, input);
  if (run.failed()) return {};
  if (arguments.positional.empty() && named(arguments, "attribute") != nullptr) {
    return map_attribute(run, items->items, arguments);
  }
  const std::string_view name = name_in(run, arguments, 0, "filter");
  const FilterEntry* filter = find_filter(name);
  if (filter == nullptr) run.fail("no filter named '" + std::string(name) + "'");
  const Nesting nesting(run);
  const Arguments rest = from(arguments, 1);
  std::vector<Value> mapped;
  for (const Value& value : items->items) {
    if (!run.step()) return {};
    mapped.push_back(settled(run, filter->apply(run, value, rest), value, rest));
  }
  return run.generator(std::move(mapped));
}

Value select_items(Run& run, const Value& input, const Arguments& arguments, bool by_attribute, bool keeps) {
  if (!truth(input)) return run.generator({});
  const auto items = iterate(run, input);
  if (run.failed()) return {};
  const std::size_t offset = by_attribute ? 1 : 0;
  if (arguments.positional.size() < offset) {
    run.fail("expected the name of an attribute");
    return {};
  }
  const bool has_test = arguments.positional.size() > offset;
  const std::string_view name = has_test ? name_in(run, arguments, offset, "test") : "";
  const TestEntry* test = has_test ? find_test(name) : nullptr;
  if (has_test && test == nullptr) run.fail("no test named '" + std::string(name) + "'");
  const Arguments rest = from(arguments, offset + 1);
  std::vector<Value> selected;
  for (const Value& value : items->items) {
    if (!run.step()) return {};
    const Value judged = by_attribute ? follow(run, value, arguments.positional[0]) : value;
    if (run.failed()) return {};
    if ((has_test ? test->holds(run, judged, rest) : truth(judged)) == keeps) selected.push_back(value);
  }
  return run.generator(std::move(selected));
}

template <bool kByAttribute, bool kKeeps>
Value selection(Run& run, const Value& input, const Arguments& arguments) {
  return select_items(run, input, arguments, kByAttribute, kKeeps);
}

Value attr(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "attr", arguments, {"name"}, 1);
  if (run.failed()) return {};
  Value out;
  const std::string_view name = args.text(0);
  const Value key = args.value(0);
  if (input.is(Value::Kind::kDict) || input.is_undefined()) {
    return run.undefined("'" + std::string(input.type_name()) + " object' has no attribute '" + std::string(name) +
                         "'");
  }
  return attribute(run, input, key.is_text() ? key.bytes() : name);
}

constexpr std::array kSelectionFilters = {
    FilterEntry{"map", map},
    FilterEntry{"select", selection<false, true>},
    FilterEntry{"reject", selection<false, false>},
    FilterEntry{"selectattr", selection<true, true>},
    FilterEntry{"rejectattr", selection<true, false>},
    FilterEntry{"attr", attr},
};

}  // namespace

Value sort_key(Run& run, const Value& item, const Value& attribute, bool case_sensitive) {
  Value key = follow(run, item, attribute);
  if (case_sensitive || !key.is_text() || !run.fits(key.bytes().size())) return key;
  return run.text(lower(key.bytes()));
}

const FilterEntry* find_selection_filter(std::string_view name) {
  const auto found = std::ranges::find(kSelectionFilters, name, &FilterEntry::name);
  return found == kSelectionFilters.end() ? nullptr : &*found;
}

}  // namespace sluice::jinja
