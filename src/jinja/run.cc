// Used by jinja and jinja/library.
#include "jinja/run.h"

namespace sluice::jinja {

Run::~Run() {
  for (const auto& space : spaces_) space->attributes.clear();
}

void Run::fail(std::string message) {
  if (status_.ok()) status_ = invalid_argument("line " + std::to_string(line_) + ": " + std::move(message));
}

bool Run::step() {
  return work(1);
}

bool Run::work(std::size_t nodes) {
  if (failed()) return false;
  const auto left = static_cast<std::size_t>(limits_.max_nodes - nodes_);
  if (nodes > left) {
    fail("the template takes more than " + std::to_string(limits_.max_nodes) + " steps");
    return false;
  }
  nodes_ += static_cast<std::int64_t>(nodes);
  return true;
}

bool Run::allows(std::size_t bytes) {
  if (failed()) return false;
  if (bytes > limits_.max_text_bytes) {
    fail("the template makes a text or list of more than " + std::to_string(limits_.max_text_bytes) + " bytes");
  } else if (meter_.live() + bytes > limits_.max_live_bytes) {
    fail("the template's values take more than " + std::to_string(limits_.max_live_bytes) + " bytes");
  }
  return !failed();
}

bool Run::fits(std::size_t bytes) {
  return allows(bytes) && work(bytes / 64);
}

Value Run::checked(Value value) {
  if (meter_.live() > limits_.max_live_bytes) allows(0);
  if (value.depth() > limits_.max_value_depth) {
    fail("lists and dicts are nested deeper than " + std::to_string(limits_.max_value_depth) + " levels");
  }
  return failed() ? Value() : value;
}

Value Run::text(std::string bytes) {
  if (!fits(bytes.size())) return {};
  return checked(Value(std::make_shared<const Text>(&meter_, MarkedText{.bytes = std::move(bytes)}, false)));
}

Value Run::marked(MarkedText text) {
  if (!fits(text.size())) return {};
  return checked(Value(std::make_shared<const Text>(&meter_, std::move(text), true)));
}

Value Run::part(const Value& text, std::string_view part) {
  if (part.empty()) return marked({});
  const auto begin = static_cast<std::size_t>(part.data() - text.bytes().data());
  return marked(MarkedText().part(text.bytes(), text.text().clients, begin, begin + part.size()));
}

Value Run::as_safe(const Value& text, bool is_safe) {
  if (failed() || !text.is_text() || text.text().is_safe == is_safe) return text;
  if (!fits(text.bytes().size())) return {};
  const Text& from = text.text();
  auto copy = std::make_shared<Text>(&meter_, MarkedText{.bytes = from.bytes, .clients = from.clients}, from.has_marks);
  copy->is_safe = is_safe;
  return checked(Value(std::shared_ptr<const Text>(std::move(copy))));
}

Value Run::sequence(std::vector<Value> items, Sequence::Flavor flavor) {
  if (!work(items.size() / 4)) return {};
  return checked(Value(std::make_shared<const Sequence>(&meter_, flavor, std::move(items))));
}

Value Run::dict(Dict::Entries entries) {
  if (!work(entries.size() / 4)) return {};
  return checked(Value(std::make_shared<const Dict>(&meter_, std::move(entries))));
}

Value Run::undefined(std::string hint) {
  return checked(Value(std::make_shared<const Hint>(&meter_, std::move(hint))));
}

Value Run::space() {
  spaces_.push_back(std::make_shared<Namespace>(&meter_));
  return checked(Value(spaces_.back()));
}

Value Run::generator(std::vector<Value> items) {
  const Value values = list(std::move(items));
  if (failed()) return {};
  return checked(Value(std::make_shared<Generator>(&meter_, values.sequence())));
}

Value Run::function(std::string_view name, Function::Native native, Value self) {
  return checked(Value(std::make_shared<const Function>(&meter_, name, native, std::move(self))));
}

}  // namespace sluice::jinja
