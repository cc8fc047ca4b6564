// Used by jinja and jinja/library.
#include "jinja/value.h"

#include <algorithm>

#include "jinja/ast.h"

namespace sluice::jinja {

namespace {

constexpr std::size_t kAllocation =
    48;  // what an allocation and its count of owners take in addition to the object, about

std::size_t count_code_points(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

int depth_of(const std::vector<Value>& values) {
  int deepest = 0;
  for (const Value& value : values) deepest = std::max(deepest, value.depth());
  return deepest + 1;
}

int depth_of(const Dict::Entries& entries) {
  int deepest = 0;
  for (const auto& [key, value] : entries) deepest = std::max({deepest, key.depth(), value.depth()});
  return deepest + 1;
}

}  // namespace

Text::Text(Meter* meter, std::string text) : Text(meter, MarkedText{.bytes = std::move(text)}, true) {}

Text::Text(Meter* meter, MarkedText text, bool marked)
    : bytes(std::move(text.bytes)),
      clients(std::move(text.clients)),
      has_marks(marked),
      length(count_code_points(bytes)),
      charge(meter, sizeof(Text) + kAllocation + bytes.size() + clients.size() * sizeof(ByteRange)) {}

Sequence::Sequence(Meter* meter, Flavor sequence_flavor, std::vector<Value> values)
    : flavor(sequence_flavor),
      items(std::move(values)),
      depth(depth_of(items)),
      has_client(std::ranges::any_of(items, &Value::has_client)),
      charge(meter, sizeof(Sequence) + kAllocation + items.size() * sizeof(Value)) {}

Dict::Dict(Meter* meter, Entries pairs)
    : entries(std::move(pairs)),
      depth(depth_of(entries)),
      has_client(std::ranges::any_of(
          entries, [](const auto& entry) { return entry.first.has_client() || entry.second.has_client(); })),
      charge(meter, sizeof(Dict) + kAllocation + entries.size() * sizeof(Entries::value_type)) {}

const Value* Dict::find(std::string_view key) const {
  const auto found = std::ranges::find_if(
      entries, [&](const auto& entry) { return entry.first.is_text() && entry.first.bytes() == key; });
  return found == entries.end() ? nullptr : &found->second;
}

Function::Function(Meter* meter, const MacroNode* node, Scope* definition)
    : name(node->name), macro(node), scope(definition), charge(meter, sizeof(Function)) {}

const Value* Loop::at(std::size_t index) {
  if (!accepts) return index < source->items.size() ? &source->items[index] : nullptr;
  while (accepted.size() <= index && next_source < source->items.size()) {
    const Value& candidate = source->items[next_source++];
    if (accepts(candidate)) accepted.push_back(candidate);
  }
  return index < accepted.size() ? &accepted[index] : nullptr;
}

std::size_t Loop::size() {
  if (!accepts) return source->items.size();
  at(source->items.size());
  return accepted.size();
}

bool Value::as_bool() const {
  const bool* value = std::get_if<bool>(&data_);
  return value != nullptr && *value;
}

Int Value::as_int() const {
  const Int* value = std::get_if<Int>(&data_);
  return value != nullptr ? *value : Int(as_bool());
}

double Value::as_real() const {
  const double* value = std::get_if<double>(&data_);
  return value != nullptr ? *value : static_cast<double>(as_int());
}

const Text& Value::text() const {
  static const Text kNone(nullptr, {});
  const auto* value = std::get_if<std::shared_ptr<const Text>>(&data_);
  return value != nullptr ? **value : kNone;
}

const std::shared_ptr<const Sequence>& Value::sequence() const {
  static const auto kNone = std::make_shared<const Sequence>(nullptr, Sequence::Flavor::kList, std::vector<Value>());
  const auto* value = std::get_if<std::shared_ptr<const Sequence>>(&data_);
  return value != nullptr ? *value : kNone;
}

const std::vector<Value>& Value::items() const {
  return sequence()->items;
}

const Dict& Value::dict() const {
  static const Dict kNone(nullptr, {});
  const auto* value = std::get_if<std::shared_ptr<const Dict>>(&data_);
  return value != nullptr ? **value : kNone;
}

bool Value::is_safe_text() const {
  return is_text() && text().is_safe;
}

std::string_view Value::hint() const {
  const auto& hint = std::get<Undefined>(data_).hint;
  return hint ? std::string_view(hint->message) : "a value is undefined";
}

int Value::depth() const {
  switch (kind()) {
    case Kind::kSequence:
      return sequence()->depth;
    case Kind::kDict:
      return dict().depth;
    case Kind::kFunction:
      return function().self.depth() + 1;
    case Kind::kGenerator:
      return generator().items->depth + 1;
    case Kind::kLoop:
      return loop().source->depth + 1;
    case Kind::kUndefined:
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kText:
    case Kind::kNamespace:
      break;
  }
  return 0;
}

bool Value::has_client() const {
  switch (kind()) {
    case Kind::kText:
      return !text().clients.empty();
    case Kind::kSequence:
      return sequence()->has_client;
    case Kind::kDict:
      return dict().has_client;
    case Kind::kGenerator:
      return generator().items->has_client;
    case Kind::kLoop:
      return loop().source->has_client;
    case Kind::kNamespace:
    case Kind::kFunction:
      return true;
    case Kind::kUndefined:
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      break;
  }
  return false;
}

bool Value::same_as(const Value& other) const {
  if (kind() != other.kind()) return false;
  return std::visit(
      [&]<class T>(const T& mine) {
        if constexpr (std::is_same_v<T, Undefined> || std::is_same_v<T, None>) {
          return true;
        } else {
          return mine == std::get<T>(other.data_);
        }
      },
      data_);
}

std::string_view Value::type_name() const {
  constexpr std::string_view kSequences[] = {"list", "tuple", "range", "dict_keys", "dict_values", "dict_items"};
  constexpr std::string_view kNames[] = {"Undefined", "NoneType", "bool",      "int",      "float",     "str",
                                         "list",      "dict",     "Namespace", "function", "generator", "LoopContext"};
  if (is(Kind::kSequence)) return kSequences[static_cast<std::size_t>(sequence()->flavor)];
  return kNames[data_.index()];
}

bool truth(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kUndefined:
    case Value::Kind::kNone:
      return false;
    case Value::Kind::kBool:
      return value.as_bool();
    case Value::Kind::kInt:
      return value.as_int() != 0;
    case Value::Kind::kFloat:
      return value.as_real() != 0.0;
    case Value::Kind::kText:
      return !value.bytes().empty();
    case Value::Kind::kSequence:
      return !value.items().empty();
    case Value::Kind::kDict:
      return !value.dict().entries.empty();
    case Value::Kind::kNamespace:
    case Value::Kind::kFunction:
    case Value::Kind::kGenerator:
    case Value::Kind::kLoop:
      return true;
  }
  return true;
}

}  // namespace sluice::jinja
