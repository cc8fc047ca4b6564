#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "jinja/bound_arguments.h"
#include "jinja/library/builtins.h"
#include "jinja/library/operations.h"

namespace sluice::jinja {

namespace {

using Kind = Value::Kind;
using Flavor = Sequence::Flavor;

Value dict_get(Run& run, const Value& self, const Arguments& arguments) {
  const BoundArguments args(run, "get", arguments, {"key", "default"}, 1);
  if (run.failed()) return {};
  const Value* found = find_key(run, self.dict(), args.value(0));
  return found != nullptr ? *found : args.value_or(1, Value::none());
}

Value dict_keys(Run& run, const Value& self, const Arguments& arguments) {
  const BoundArguments args(run, "keys", arguments, {});
  std::vector<Value> keys;
  for (const auto& [key, value] : self.dict().entries) keys.push_back(key);
  return run.sequence(std::move(keys), Flavor::kDictKeys);
}

Value dict_values(Run& run, const Value& self, const Arguments& arguments) {
  const BoundArguments args(run, "values", arguments, {});
  std::vector<Value> values;
  for (const auto& [key, value] : self.dict().entries) values.push_back(value);
  return run.sequence(std::move(values), Flavor::kDictValues);
}

Value dict_items(Run& run, const Value& self, const Arguments& arguments) {
  const BoundArguments args(run, "items", arguments, {});
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict().entries) {
    items.push_back(run.tuple({key, value}));
    if (run.failed()) return {};
  }
  return run.sequence(std::move(items), Flavor::kDictItems);
}

Value copy(Run& run, const Value& self, const Arguments& arguments) {
  const BoundArguments args(run, "copy", arguments, {});
  return self;
}

Value sequence_count(Run& run, const Value& self, const Arguments& arguments) {
  const BoundArguments args(run, "count", arguments, {"value"}, 1);
  if (run.failed()) return {};
  const Value wanted = args.value(0);
  return Value::integer(std::ranges::count_if(self.items(), [&](const Value& v) { return equal(run, v, wanted); }));
}

Value sequence_index(Run& run, const Value& self, const Arguments& arguments) {
  const BoundArguments args(run, "index", arguments, {"value"}, 1);
  if (run.failed()) return {};
  const Value wanted = args.value(0);
  const auto found = std::ranges::find_if(self.items(), [&](const Value& v) { return equal(run, v, wanted); });
  if (found == self.items().end()) run.fail("index(): the value is not in the list");
  return Value::integer(found - self.items().begin());
}

Value loop_cycle(Run& run, const Value& self, const Arguments& arguments) {
  if (arguments.positional.empty()) {
    run.fail("no items for cycling given");
    return {};
  }
  return arguments.positional[self.loop().index0 % arguments.positional.size()];
}

Value loop_changed(Run& run, const Value& self, const Arguments& arguments) {
  Loop& loop = self.loop();
  const std::vector<Value>& now = arguments.positional;
  const bool same =
      std::exchange(loop.has_changed, true) &&
      std::ranges::equal(loop.last_changed, now, [&](const Value& a, const Value& b) { return equal(run, a, b); });
  // The values that are kept must not hold the loop itself.
  const bool holds_loop = std::ranges::any_of(now, [](const Value& v) { return v.depth() > 0; });
  if (holds_loop) {
    run.fail("loop.changed() of a list or dict is not supported");
    return {};
  }
  loop.last_changed = now;
  return Value::boolean(!same);
}

Value refuse_change(Run& run, const Value& self, const Arguments& /*arguments*/) {
  run.fail("a template cannot change a " + std::string(self.type_name()) + "; make a new one");
  return {};
}

constexpr std::array kDictMethods = {
    Method{"get", dict_get},
    Method{"items", dict_items},
    Method{"keys", dict_keys},
    Method{"values", dict_values},
    Method{"copy", copy},
    Method{"clear", refuse_change},
    Method{"pop", refuse_change},
    Method{"popitem", refuse_change},
    Method{"setdefault", refuse_change},
    Method{"update", refuse_change},
};
constexpr std::array kListMethods = {
    Method{"index", sequence_index},  Method{"count", sequence_count}, Method{"copy", copy},
    Method{"append", refuse_change},  Method{"clear", refuse_change},  Method{"extend", refuse_change},
    Method{"insert", refuse_change},  Method{"pop", refuse_change},    Method{"remove", refuse_change},
    Method{"reverse", refuse_change}, Method{"sort", refuse_change},
};
constexpr std::array kTupleMethods = {Method{"index", sequence_index}, Method{"count", sequence_count}};
constexpr std::array kLoopMethods = {Method{"cycle", loop_cycle}, Method{"changed", loop_changed}};

template <class Table>
const Method* find_in(const Table& table, std::string_view name) {
  const auto found = std::ranges::find(table, name, &Method::name);
  return found == table.end() ? nullptr : &*found;
}

const Method* find_method(const Value& value, std::string_view name) {
  switch (value.kind()) {
    case Kind::kText:
      return find_text_method(name);
    case Kind::kDict:
      return find_in(kDictMethods, name);
    case Kind::kLoop:
      return find_in(kLoopMethods, name);
    case Kind::kSequence:
      if (value.sequence()->flavor == Flavor::kList) return find_in(kListMethods, name);
      return value.sequence()->flavor <= Flavor::kRange ? find_in(kTupleMethods, name) : nullptr;
    default:
      return nullptr;
  }
}

bool find_loop_attribute(Run& run, Loop& loop, std::string_view name, Value& out) {
  const auto integer = [&](std::size_t number) {
    out = Value::integer(static_cast<Int>(number));
    return true;
  };
  if (name == "index") return integer(loop.index0 + 1);
  if (name == "index0") return integer(loop.index0);
  if (name == "length") return integer(loop.size());
  if (name == "revindex") return integer(loop.size() - std::min(loop.index0, loop.size()));
  if (name == "revindex0") return integer(loop.size() - std::min(loop.index0 + 1, loop.size()));
  if (name == "depth") return integer(1);  // recursive loops, which count, are not supported
  if (name == "depth0") return integer(0);
  if (name == "first") {
    out = Value::boolean(loop.index0 == 0);
  } else if (name == "last") {
    out = Value::boolean(loop.at(loop.index0 + 1) == nullptr);
  } else if (name == "previtem") {
    const Value* previous = loop.index0 == 0 ? nullptr : loop.at(loop.index0 - 1);
    out = previous == nullptr ? run.undefined("there is no previous item") : *previous;
  } else if (name == "nextitem") {
    const Value* next = loop.at(loop.index0 + 1);
    out = next == nullptr ? run.undefined("there is no next item") : *next;
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool find_attribute(Run& run, const Value& value, std::string_view name, Value& out) {
  if (const Method* method = find_method(value, name)) {
    out = run.function(method->name, method->native, value);
    return true;
  }
  if (value.is(Kind::kLoop)) return find_loop_attribute(run, value.loop(), name, out);
  if (!value.is(Kind::kNamespace)) return false;
  const auto& attributes = value.space().attributes;
  run.work(attributes.size() / 16);
  const auto found = std::ranges::find_if(attributes, [&](const auto& entry) { return entry.first == name; });
  if (found == attributes.end()) return false;
  out = found->second;
  return true;
}

}  // namespace sluice::jinja
