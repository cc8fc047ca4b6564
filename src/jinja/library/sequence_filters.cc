#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "jinja/bound_arguments.h"
#include "jinja/library/builtins.h"
#include "jinja/library/operations.h"
#include "jinja/safe_text.h"
#include "jinja/unicode.h"

namespace sluice::jinja {

namespace {

using Kind = Value::Kind;

Value length(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "length", arguments, {});
  switch (input.kind()) {
    case Kind::kUndefined:
      return Value::integer(0);
    case Kind::kText:
      return Value::integer(static_cast<Int>(input.text().length));
    case Kind::kSequence:
      return Value::integer(static_cast<Int>(input.items().size()));
    case Kind::kDict:
      return Value::integer(static_cast<Int>(input.dict().entries.size()));
    case Kind::kLoop:
      return Value::integer(static_cast<Int>(input.loop().size()));
    default:
      break;
  }
  run.fail("object of type '" + std::string(input.type_name()) + "' has no len()" +
           (input.is(Kind::kGenerator) ? "; make a list of it with |list" : ""));
  return {};
}

Value default_value(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "default", arguments, {"default_value", "boolean"});
  if (run.failed()) return {};
  const bool is_missing = input.is_undefined() || (args.truth(1) && !truth(input));
  return is_missing ? args.value_or(0, run.text({})) : input;
}

Value list(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "list", arguments, {});
  const auto items = iterate(run, input);
  if (run.failed()) return {};
  return items->flavor == Sequence::Flavor::kList ? Value(items) : run.list(items->items);
}

Value items_of_mapping(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "items", arguments, {});
  if (input.is_undefined()) return run.generator({});
  if (!input.is(Kind::kDict)) {
    run.fail("can only get item pairs from a mapping");
    return {};
  }
  std::vector<Value> pairs;
  for (const auto& [key, value] : input.dict().entries) {
    pairs.push_back(run.tuple({key, value}));
    if (run.failed()) return {};
  }
  return run.generator(std::move(pairs));
}

Value first(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "first", arguments, {});
  if (input.is(Kind::kGenerator)) {
    Generator& generator = input.generator();
    if (generator.next < generator.items->items.size()) return generator.items->items[generator.next++];
    return run.undefined("no first item, the sequence is empty");
  }
  if (input.is_text() && !input.bytes().empty()) return run.text(std::string(slice(input.text(), 0, 1)));
  const auto items = iterate(run, input);
  if (run.failed()) return {};
  return items->items.empty() ? run.undefined("no first item, the sequence is empty") : items->items.front();
}

Value last(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "last", arguments, {});
  if (input.is(Kind::kGenerator)) run.fail("'generator' object is not reversible; make a list of it with |list");
  if (input.is_text() && !input.bytes().empty()) {
    run.work(input.bytes().size() / 64);
    return run.text(std::string(slice(input.text(), input.text().length - 1, input.text().length)));
  }
  const auto items = run.failed() ? nullptr : iterate(run, input);
  if (run.failed()) return {};
  return items->items.empty() ? run.undefined("no last item, the sequence is empty") : items->items.back();
}

Value reverse(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "reverse", arguments, {});
  if (input.is_text()) {
    return run.fits(input.bytes().size()) ? settled_safe(run, run.text(reversed(input.bytes())), input) : Value();
  }
  const auto items = iterate(run, input);
  if (run.failed()) return {};
  std::vector<Value> turned(items->items.rbegin(), items->items.rend());
  return input.is(Kind::kGenerator) ? run.list(std::move(turned)) : run.generator(std::move(turned));
}

// Items with what they are compared by.
using Keyed = std::vector<std::pair<Value, Value>>;

Value sorted(Run& run, Keyed keyed, bool descending) {
  // Python sorts backwards stably: equal items keep their order.
  std::ranges::stable_sort(keyed, [&](const auto& a, const auto& b) {
    return descending ? less(run, b.first, a.first) : less(run, a.first, b.first);
  });
  std::vector<Value> items;
  for (auto& [key, item] : keyed) items.push_back(std::move(item));
  return run.list(std::move(items));
}

bool add_keyed(Run& run, Keyed& keyed, const Value& item, const Value& attribute, bool case_sensitive) {
  // Several attributes, "a,b", are compared one after the other.
  if (attribute.is_text() && attribute.bytes().find(',') != std::string_view::npos) {
    std::vector<Value> keys;
    std::string_view rest = attribute.bytes();
    while (run.step()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      const Value path = run.text(std::string(rest.substr(0, comma)));
      if (!run.failed()) keys.push_back(sort_key(run, item, path, case_sensitive));
      if (comma == rest.size()) break;
      rest.remove_prefix(comma + 1);
    }
    keyed.emplace_back(run.list(std::move(keys)), item);
  } else {
    // A list, as in Jinja: equal keys are in order whatever they are, be they undefined.
    keyed.emplace_back(run.list({sort_key(run, item, attribute, case_sensitive)}), item);
  }
  return !run.failed();
}

Value sort(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const auto items = iterate(run, input);
  if (run.failed()) return {};
  Keyed keyed;
  for (const Value& item : items->items) {
    if (!add_keyed(run, keyed, item, args.value(2), args.truth(1))) return {};
  }
  return sorted(run, std::move(keyed), args.truth(0));
}

Value dictsort(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const std::string_view by = args.text(1, "key");
  if (by != "key" && by != "value") run.fail("dictsort() sorts by 'key' or 'value', not by '" + std::string(by) + "'");
  if (!input.is(Kind::kDict)) {
    if (input.is_undefined()) run.fail_undefined(input);
    run.fail("dictsort() expected a mapping, found '" + std::string(input.type_name()) + "'");
  }
  if (run.failed()) return {};
  Keyed keyed;
  for (const auto& [key, value] : input.dict().entries) {
    keyed.emplace_back(sort_key(run, by == "key" ? key : value, {}, args.truth(0)), run.tuple({key, value}));
    if (run.failed()) return {};
  }
  return sorted(run, std::move(keyed), args.truth(2));
}

Value unique(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "unique", arguments, {"case_sensitive", "attribute"});
  const auto items = iterate(run, input);
  if (run.failed()) return {};
  Dict::Entries seen;
  std::vector<Value> kept;
  for (const Value& item : items->items) {
    const std::size_t before = seen.size();
    set_key(run, seen, sort_key(run, item, args.value(1), args.truth(0)), Value::none());
    if (run.failed()) return {};
    if (seen.size() > before) kept.push_back(item);
  }
  return run.generator(std::move(kept));
}

template <bool kLargest>
Value extreme(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "the filter", arguments, {"case_sensitive", "attribute"});
  const auto items = iterate(run, input);
  if (run.failed()) return {};
  if (items->items.empty()) return run.undefined("no aggregated item, the sequence is empty");
  Value best = items->items.front();
  Value best_key = sort_key(run, best, args.value(1), args.truth(0));
  for (std::size_t i = 1; i < items->items.size() && !run.failed(); ++i) {
    Value key = sort_key(run, items->items[i], args.value(1), args.truth(0));
    if (kLargest ? !less(run, best_key, key) : !less(run, key, best_key)) continue;
    best = items->items[i];
    best_key = std::move(key);
  }
  return best;
}

Value sum(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "sum", arguments, {"attribute", "start"});
  const auto items = iterate(run, input);
  if (run.failed()) return {};
  Value total = args.value_or(1, Value::integer(0));
  if (total.is_text()) run.fail("sum() can't sum strings; use join");
  for (const Value& item : items->items) {
    if (!run.step()) return {};
    const Value part = args.has(0) ? sort_key(run, item, args.value(0), /*case_sensitive=*/true) : item;
    if (run.failed()) return {};
    total = arithmetic(run, Operator::kAdd, total, part);
  }
  return total;
}

// The size that batch and slice are given.
std::size_t part_size(Run& run, const BoundArguments& args, std::string_view filter) {
  const Int size = args.integer(0, 0);
  if (size < 1 || size > 1'000'000) {
    run.fail(std::string(filter) + "() expected a number from 1 to 1000000");
    return 1;
  }
  return static_cast<std::size_t>(size);
}

Value batch(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "batch", arguments, {"linecount", "fill_with"}, 1);
  const std::size_t size = run.failed() ? 1 : part_size(run, args, "batch");
  const auto items = run.failed() ? nullptr : iterate(run, input);
  if (run.failed()) return {};
  std::vector<Value> batches;
  std::vector<Value> current;
  for (const Value& item : items->items) {
    if (current.size() == size) batches.push_back(run.list(std::exchange(current, {})));
    current.push_back(item);
  }
  if (!current.empty()) {
    if (args.has(1) && run.fits((size - current.size()) * sizeof(Value))) current.resize(size, args.value(1));
    batches.push_back(run.list(std::move(current)));
  }
  return run.generator(std::move(batches));
}

Value slice_evenly(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "slice", arguments, {"slices", "fill_with"}, 1);
  const std::size_t count = run.failed() ? 1 : part_size(run, args, "slice");
  const auto items = run.failed() || !run.fits(count * sizeof(Value)) ? nullptr : iterate(run, input);
  if (run.failed()) return {};
  const std::size_t size = items->items.size() / count;
  const std::size_t longer = items->items.size() % count;  // slices that have one more item
  std::vector<Value> slices;
  auto next = items->items.begin();
  for (std::size_t i = 0; i < count && run.step(); ++i) {
    const auto end = next + static_cast<std::ptrdiff_t>(size + (i < longer ? 1 : 0));
    std::vector<Value> part(next, end);
    next = end;
    if (args.has(1) && i >= longer) part.push_back(args.value(1));
    slices.push_back(run.list(std::move(part)));
  }
  return run.generator(std::move(slices));
}

Value groupby(Run& run, const Value& input, const Arguments& arguments) {
  const BoundArguments args(run, "groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  const auto items = run.failed() ? nullptr : iterate(run, input);
  if (run.failed()) return {};
  if (args.has(1)) run.fail("groupby() with a default is not supported");
  Keyed keyed;
  for (const Value& item : items->items) {
    keyed.emplace_back(sort_key(run, item, args.value(0), args.truth(2)), item);
    if (run.failed()) return {};
  }
  std::ranges::stable_sort(keyed, [&](const auto& a, const auto& b) { return less(run, a.first, b.first); });
  std::vector<Value> groups;
  for (auto begin = keyed.begin(); begin != keyed.end() && !run.failed();) {
    const auto end =
        std::find_if(begin, keyed.end(), [&](const auto& entry) { return !equal(run, entry.first, begin->first); });
    std::vector<Value> members;
    for (auto entry = begin; entry != end; ++entry) members.push_back(entry->second);
    const Value key = sort_key(run, members.front(), args.value(0), /*case_sensitive=*/true);
    groups.push_back(run.tuple({key, run.list(std::move(members))}));
    begin = end;
  }
  return run.list(std::move(groups));
}

constexpr std::array kSequenceFilters = {
    FilterEntry{"length", length},      FilterEntry{"count", length},       FilterEntry{"default", default_value},
    FilterEntry{"d", default_value},    FilterEntry{"list", list},          FilterEntry{"items", items_of_mapping},
    FilterEntry{"first", first},        FilterEntry{"last", last},          FilterEntry{"reverse", reverse},
    FilterEntry{"sort", sort},          FilterEntry{"dictsort", dictsort},  FilterEntry{"unique", unique},
    FilterEntry{"min", extreme<false>}, FilterEntry{"max", extreme<true>},  FilterEntry{"sum", sum},
    FilterEntry{"batch", batch},        FilterEntry{"slice", slice_evenly}, FilterEntry{"groupby", groupby},
};

}  // namespace

const FilterEntry* find_sequence_filter(std::string_view name) {
  const auto found = std::ranges::find(kSequenceFilters, name, &FilterEntry::name);
  return found == kSequenceFilters.end() ? nullptr : &*found;
}

}  // namespace sluice::jinja
