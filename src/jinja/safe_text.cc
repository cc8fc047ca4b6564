// Used by jinja and jinja/library.
#include "jinja/safe_text.h"

#include <string_view>
#include <utility>
#include <vector>

#include "jinja/marks.h"

namespace sluice::jinja {

namespace {

using Kind = Value::Kind;

std::string_view entity_of(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '\'':
      return "&#39;";
    case '"':
      return "&#34;";
    default:
      return {};
  }
}

// Numbers are put in by their own formats, and hold nothing to escape.
Value escaped_item(Run& run, const Value& value) {
  return value.is_number() ? value : escaped(run, value);
}

}  // namespace

Value escaped(Run& run, const Value& value) {
  if (run.failed() || value.is_safe_text()) return value;
  const Value text = marked_text(run, value);
  if (run.failed() || !run.work(text.bytes().size() / 64)) return {};
  const std::string_view bytes = text.bytes();
  const MarkedText from{.bytes = text.text().bytes, .clients = text.text().clients};
  MarkedText out;
  std::size_t done = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    const std::string_view entity = entity_of(bytes[at]);
    if (entity.empty()) continue;
    if (!run.allows(out.size())) return {};
    out.part(bytes, from.clients, done, at);
    if (from.is_own(at, at + 1)) {
      out.own(entity);
    } else {
      out.client(entity);
    }
    done = at + 1;
  }
  out.part(bytes, from.clients, done, bytes.size());
  return run.as_safe(run.marked(std::move(out)));
}

Value escaped_operand(Run& run, const Value& operand) {
  if (operand.is(Kind::kSequence) && operand.sequence()->flavor == Sequence::Flavor::kTuple) {
    std::vector<Value> items;
    for (const Value& item : operand.items()) items.push_back(escaped_item(run, item));
    return run.tuple(std::move(items));
  }
  if (!operand.is(Kind::kDict)) return escaped_item(run, operand);
  Dict::Entries entries;
  for (const auto& [key, value] : operand.dict().entries) entries.emplace_back(key, escaped_item(run, value));
  return run.dict(std::move(entries));
}

Arguments escaped_arguments(Run& run, const Arguments& arguments) {
  Arguments out;
  for (const Value& value : arguments.positional) out.positional.push_back(escaped_item(run, value));
  for (const auto& [name, value] : arguments.named) out.named.emplace_back(name, escaped_item(run, value));
  return out;
}

Value settled_safe(Run& run, Value result, const Value& self) {
  if (run.failed() || !self.is_safe_text()) return result;
  if (result.is_text()) return run.as_safe(result);
  if (!result.is(Kind::kSequence)) return result;
  std::vector<Value> items;
  for (const Value& item : result.items()) items.push_back(run.as_safe(item));
  return run.sequence(std::move(items), result.sequence()->flavor);
}

}  // namespace sluice::jinja
