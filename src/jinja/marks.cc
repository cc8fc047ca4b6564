// Used by jinja and jinja/library.
#include "jinja/marks.h"

#include <algorithm>
#include <string>
#include <utility>

#include "jinja/print.h"

namespace sluice::jinja {

namespace {

using Kind = Value::Kind;

bool is_loose_text(const Value& value) {
  return value.is_text() && !value.text().has_marks && !value.bytes().empty();
}

// Lists in a list are older than the operation.
bool is_loose(const Value& value) {
  if (value.is(Kind::kSequence)) return std::ranges::any_of(value.items(), is_loose_text);
  return is_loose_text(value);
}

Value as_client(Run& run, const Value& value) {
  if (is_loose_text(value)) return run.as_safe(run.marked(MarkedText().client(value.bytes())), value.is_safe_text());
  if (!is_loose(value)) return value;
  std::vector<Value> items;
  for (const Value& item : value.items()) {
    items.push_back(
        is_loose_text(item) ? run.as_safe(run.marked(MarkedText().client(item.bytes())), item.is_safe_text()) : item);
  }
  return run.sequence(std::move(items), value.sequence()->flavor);
}

}  // namespace

void append_marked(Run& run, const Value& value, MarkedText& out) {
  if (value.is_text()) {
    out.part(value.bytes(), value.text().clients, 0, value.bytes().size());
  } else if (value.has_client()) {
    out.client(to_str(run, value));
  } else {
    out.own(to_str(run, value));
  }
}

Value marked_text(Run& run, const Value& value) {
  if (value.is_text()) return value;
  MarkedText text;
  append_marked(run, value, text);
  return run.marked(std::move(text));
}

Value settled(Run& run, Value result, const Value& input, const Arguments& arguments) {
  if (run.failed() || !is_loose(result)) return result;
  const bool is_client =
      input.has_client() || std::ranges::any_of(arguments.positional, &Value::has_client) ||
      std::ranges::any_of(arguments.named, [](const auto& entry) { return entry.second.has_client(); });
  return is_client ? as_client(run, result) : result;
}

}  // namespace sluice::jinja
