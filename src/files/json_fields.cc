// Used by cli, config, loadgen, sim and text.
#include "files/json_fields.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <optional>
#include <utility>

#include "files/json.h"

namespace sluice {
namespace {

namespace json = boost::json;

std::optional<std::int64_t> as_integer(const json::value& value) {
  if (value.is_int64()) return value.get_int64();
  if (value.is_uint64() && value.get_uint64() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
    return static_cast<std::int64_t>(value.get_uint64());
  }
  return std::nullopt;
}

std::optional<double> as_number(const json::value& value) {
  if (value.is_int64()) return static_cast<double>(value.get_int64());
  if (value.is_uint64()) return static_cast<double>(value.get_uint64());
  if (value.is_double()) return value.get_double();
  return std::nullopt;
}

std::string number_text(double number) {
  if (!std::isfinite(number)) return number > 0 ? "infinity" : "-infinity";
  std::string text;
  append_json_number(text, number);
  return text;
}

std::string integer_range(std::int64_t min, std::int64_t max) {
  if (max == std::numeric_limits<std::int64_t>::max() || max == std::numeric_limits<std::int32_t>::max()) {
    return fmt::format("an integer of at least {}", min);
  }
  return fmt::format("an integer from {} to {}", min, max);
}

}  // namespace

JsonFields::JsonFields(const json::value& value, std::string what) : what_(std::move(what)) {
  if (value.is_object()) {
    value_ = &value;
  } else {
    status_ = invalid_argument(fmt::format("{}: expected an object, found {}", what_, describe_json(&value)));
  }
}

JsonFields::JsonFields(const json::value* value, std::string what, Status status)
    : value_(value), what_(std::move(what)), status_(std::move(status)) {}

const json::value* JsonFields::find(std::string_view key) const {
  if (value_ == nullptr) return nullptr;
  const json::value* found = value_->get_object().if_contains(key);
  return found == nullptr || found->is_null() ? nullptr : found;
}

bool JsonFields::is_null(std::string_view key) const {
  if (value_ == nullptr) return false;
  const json::value* found = value_->get_object().if_contains(key);
  return found != nullptr && found->is_null();
}

std::vector<std::string> JsonFields::keys() const {
  std::vector<std::string> names;
  if (value_ == nullptr) return names;
  for (const auto& entry : value_->get_object()) names.emplace_back(entry.key());
  return names;
}

void JsonFields::fail(std::string_view key, std::string_view expected) {
  if (!status_.ok()) return;
  const json::value* found = value_ == nullptr ? nullptr : value_->get_object().if_contains(key);
  status_ =
      invalid_argument(fmt::format("{}: key '{}': expected {}, found {}", what_, key, expected, describe_json(found)));
}

bool JsonFields::demand(std::string_view key) {
  if (!status_.ok()) return false;
  if (has(key)) return true;
  fail(key, "a value");
  return false;
}

bool JsonFields::read_integer(std::string_view key, std::int64_t& out, std::int64_t min, std::int64_t max) {
  if (!status_.ok()) return false;
  const json::value* value = find(key);
  if (value == nullptr) return false;
  const std::optional<std::int64_t> number = as_integer(*value);
  if (!number || *number < min || *number > max) {
    fail(key, integer_range(min, max));
    return false;
  }
  out = *number;
  return true;
}

void JsonFields::read(std::string_view key, double& out, double min, double max) {
  if (!status_.ok()) return;
  const json::value* value = find(key);
  if (value == nullptr) return;
  const std::optional<double> number = as_number(*value);
  if (!number || !(*number >= min && *number <= max)) {
    return fail(key, fmt::format("a number from {} to {}", number_text(min), number_text(max)));
  }
  out = *number;
}

void JsonFields::read(std::string_view key, float& out, float min, float max) {
  double number = 0.0;
  if (!has(key)) return;
  read(key, number, static_cast<double>(min), static_cast<double>(max));
  if (status_.ok()) out = static_cast<float>(number);
}

void JsonFields::read(std::string_view key, bool& out) {
  if (!status_.ok()) return;
  const json::value* value = find(key);
  if (value == nullptr) return;
  if (!value->is_bool()) return fail(key, "true or false");
  out = value->get_bool();
}

void JsonFields::read(std::string_view key, std::string& out) {
  if (!status_.ok()) return;
  const json::value* value = find(key);
  if (value == nullptr) return;
  if (!value->is_string()) return fail(key, "a string");
  out = std::string(value->get_string());
}

void JsonFields::read(std::string_view key, std::vector<std::string>& out) {
  if (!status_.ok()) return;
  const json::value* value = find(key);
  if (value == nullptr) return;
  if (!value->is_array()) return fail(key, "a list of strings");
  std::vector<std::string> strings;
  for (const json::value& item : value->get_array()) {
    if (!item.is_string()) return fail(key, "a list of strings");
    strings.emplace_back(item.get_string());
  }
  out = std::move(strings);
}

void JsonFields::read(std::string_view key, std::vector<std::int32_t>& out, std::int32_t min, std::int32_t max) {
  if (!status_.ok()) return;
  const json::value* value = find(key);
  if (value == nullptr) return;
  const auto expected = [&] { return fmt::format("a list of integers, each from {} to {}", min, max); };
  if (!value->is_array()) return fail(key, expected());
  std::vector<std::int32_t> integers;
  for (const json::value& item : value->get_array()) {
    const std::optional<std::int64_t> number = as_integer(item);
    if (!number || *number < min || *number > max) return fail(key, expected());
    integers.push_back(static_cast<std::int32_t>(*number));
  }
  out = std::move(integers);
}

JsonFields JsonFields::child(std::string_view key) const {
  std::string what = fmt::format("{}: key '{}'", what_, key);
  const json::value* value = find(key);
  if (!status_.ok() || value == nullptr) return {nullptr, std::move(what), status_};
  return {*value, std::move(what)};
}

}  // namespace sluice
