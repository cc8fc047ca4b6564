#include <algorithm>
#include <array>
#include <ctime>
#include <string>
#include <utility>

#include "jinja/bound_arguments.h"
#include "jinja/library/builtins.h"
#include "jinja/library/operations.h"
#include "jinja/print.h"

namespace sluice::jinja {

namespace {

using Kind = Value::Kind;

constexpr Int kMaxRange = 100'000;  // as in the sandbox that chat templates are written for

Value range(Run& run, const Value& /*self*/, const Arguments& arguments) {
  const BoundArguments args(run, "range", arguments, {"start", "stop", "step"}, 1);
  if (run.failed()) return {};
  const bool has_stop = arguments.positional.size() > 1;
  for (const Value& value : arguments.positional) {
    if (value.is_integral()) continue;
    if (value.is_undefined()) {
      run.fail_undefined(value);
    } else {
      run.fail("'" + std::string(value.type_name()) + "' object cannot be interpreted as an integer");
    }
    return {};
  }
  const Int start = has_stop ? args.integer(0, 0) : 0;
  const Int stop = has_stop ? args.integer(1, 0) : args.integer(0, 0);
  const Int step = args.integer(2, 1);
  if (step == 0) run.fail("range() arg 3 must not be zero");
  constexpr Int kMost = Int(1) << 64U;
  if (start > kMost || start < -kMost || stop > kMost || stop < -kMost || step > kMost || step < -kMost) {
    run.fail("range() expected 64-bit integers");
  }
  if (run.failed()) return {};
  const Int span = step > 0 ? stop - start : start - stop;
  const Int stride = step > 0 ? step : -step;
  const Int count = span <= 0 ? 0 : (span + stride - 1) / stride;
  if (count > kMaxRange) {
    run.fail("range() too big: a template may have at most 100000 items");
    return {};
  }
  std::vector<Value> items;
  if (!run.work(static_cast<std::size_t>(count))) return {};
  for (Int i = 0; i < count; ++i) items.push_back(Value::integer(start + i * step));
  return run.sequence(std::move(items), Sequence::Flavor::kRange);
}

// The pairs that dict() and namespace() are given: a mapping or a list of pairs, and named arguments.
bool read_pairs(Run& run, const Arguments& arguments, Dict::Entries& entries) {
  if (arguments.positional.size() > 1) run.fail("expected at most 1 argument and named ones");
  if (!arguments.positional.empty() && arguments.positional[0].is(Kind::kDict)) {
    entries = arguments.positional[0].dict().entries;
  } else if (!arguments.positional.empty()) {
    const auto pairs = iterate(run, arguments.positional[0]);
    if (pairs == nullptr) return false;
    for (const Value& pair : pairs->items) {
      const auto parts = iterate(run, pair);
      if (parts != nullptr && parts->items.size() != 2) run.fail("expected pairs of a key and a value");
      if (run.failed()) return false;
      set_key(run, entries, parts->items[0], parts->items[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) set_key(run, entries, run.text(name), value);
  return !run.failed();
}

Value make_dict(Run& run, const Value& /*self*/, const Arguments& arguments) {
  Dict::Entries entries;
  return read_pairs(run, arguments, entries) ? run.dict(std::move(entries)) : Value();
}

Value make_namespace(Run& run, const Value& /*self*/, const Arguments& arguments) {
  Dict::Entries entries;
  if (!read_pairs(run, arguments, entries)) return {};
  Value space = run.space();
  for (const auto& [key, value] : entries) {
    if (!key.is_text()) run.fail("namespace() expected texts as names");
    if (!run.failed()) set_attribute(run, space, std::string(key.bytes()), value);
  }
  return space;
}

Value raise_exception(Run& run, const Value& /*self*/, const Arguments& arguments) {
  const BoundArguments args(run, "raise_exception", arguments, {"message"}, 1);
  std::string message = run.failed() ? "" : to_str(run, args.value(0));
  run.fail(std::move(message));
  return {};
}

Value strftime_now(Run& run, const Value& /*self*/, const Arguments& arguments) {
  const BoundArguments args(run, "strftime_now", arguments, {"format"}, 1);
  const std::string format(args.text(0));
  if (run.failed()) return {};
  const std::time_t now = run.now();
  std::tm local{};
  localtime_r(&now, &local);
  char out[1024];
  // With a character before it, an empty result is not taken for one that is too long.
  const std::size_t length = std::strftime(out, sizeof(out), (" " + format).c_str(), &local);
  if (length == 0 || format.find('\0') != std::string::npos) {
    run.fail("strftime_now() expected a format of at most 1000 characters");
    return {};
  }
  return run.text(std::string(out + 1, length - 1));
}

constexpr std::array kGlobals = {
    GlobalFunction{"range", range},
    GlobalFunction{"dict", make_dict},
    GlobalFunction{"namespace", make_namespace},
    GlobalFunction{"raise_exception", raise_exception},
    GlobalFunction{"strftime_now", strftime_now},
};

}  // namespace

const GlobalFunction* find_global(std::string_view name) {
  const auto found = std::ranges::find(kGlobals, name, &GlobalFunction::name);
  return found == kGlobals.end() ? nullptr : &*found;
}

void set_attribute(Run& run, const Value& space, const std::string& name, Value value) {
  if (!space.is(Kind::kNamespace)) return run.fail("cannot assign attribute on non-namespace object");
  if (name.starts_with('_'))
    return run.fail("a namespace holds no names that start with an underscore: '" + name + "'");
  auto& attributes = space.space().attributes;
  run.work(attributes.size() / 16);
  const auto found = std::ranges::find_if(attributes, [&](const auto& entry) { return entry.first == name; });
  if (found == attributes.end()) {
    attributes.emplace_back(name, std::move(value));
  } else {
    found->second = std::move(value);
  }
}

}  // namespace sluice::jinja
