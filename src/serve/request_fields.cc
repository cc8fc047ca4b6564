#include "serve/request_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <boost/json/array.hpp>
#include <boost/json/string.hpp>
#include <utility>

#include "base/utf8.h"
#include "files/json.h"

namespace sluice {
namespace {

namespace json = boost::json;

std::optional<double> as_number(const json::value& value) {
  if (value.is_int64()) return static_cast<double>(value.get_int64());
  if (value.is_uint64()) return static_cast<double>(value.get_uint64());
  if (value.is_double()) return value.get_double();
  return std::nullopt;
}

std::string as_string(const json::value& value) {
  return std::string(std::string_view(value.get_string()));
}

}  // namespace

RequestFields::RequestFields(const json::object& object, std::string path) : object_(object), path_(std::move(path)) {}

const json::value* RequestFields::find(std::string_view key) {
  known_.push_back(key);
  const json::value* value = object_.if_contains(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

void RequestFields::read(std::string_view key, std::optional<double>& out, double min, double max) {
  const json::value* value = find(key);
  if (value == nullptr) return;
  const std::optional<double> number = as_number(*value);
  if (!number || !(*number >= min && *number <= max)) return fail(key, fmt::format("a number from {} to {}", min, max));
  out = number;
}

void RequestFields::read(std::string_view key, std::optional<std::int64_t>& out, std::int64_t min, std::int64_t max) {
  const json::value* value = find(key);
  if (value == nullptr) return;
  if (!value->is_int64() || value->get_int64() < min || value->get_int64() > max) {
    return fail(key, fmt::format("an integer from {} to {}", min, max));
  }
  out = value->get_int64();
}

void RequestFields::read(std::string_view key, std::optional<bool>& out) {
  const json::value* value = find(key);
  if (value == nullptr) return;
  if (!value->is_bool()) return fail(key, "true or false");
  out = value->get_bool();
}

void RequestFields::read(std::string_view key, std::optional<std::string>& out) {
  const json::value* value = find(key);
  if (value == nullptr) return;
  if (!value->is_string()) return fail(key, "a string");
  out = as_string(*value);
}

void RequestFields::read_seed(std::string_view key, std::optional<std::uint64_t>& out) {
  const json::value* value = find(key);
  if (value == nullptr) return;
  if (value->is_int64()) {
    out = std::bit_cast<std::uint64_t>(value->get_int64());
  } else if (value->is_uint64()) {
    out = value->get_uint64();
  } else {
    fail(key, "an integer of 64 bits");
  }
}

void RequestFields::read_strings(std::string_view key, std::vector<std::string>& out, std::size_t max_count) {
  const json::value* value = find(key);
  if (value == nullptr) return;
  const std::string expected = fmt::format("a string or an array of at most {} non-empty strings", max_count);
  std::vector<std::string> strings;
  if (value->is_string()) {
    strings.push_back(as_string(*value));
  } else if (value->is_array()) {
    for (const json::value& item : value->get_array()) {
      if (!item.is_string()) return fail(key, expected);
      strings.push_back(as_string(item));
    }
  } else {
    return fail(key, expected);
  }
  const bool has_empty = std::any_of(strings.begin(), strings.end(), [](const auto& text) { return text.empty(); });
  if (strings.size() > max_count || has_empty) return fail(key, expected);
  out = std::move(strings);
}

const json::object* RequestFields::read_object(std::string_view key) {
  const json::value* value = find(key);
  if (value == nullptr) return nullptr;
  if (!value->is_object()) {
    fail(key, "an object");
    return nullptr;
  }
  return &value->get_object();
}

void RequestFields::ignore(std::initializer_list<std::string_view> keys) {
  known_.insert(known_.end(), keys.begin(), keys.end());
}

void RequestFields::only(std::string_view key, double neutral) {
  const json::value* value = find(key);
  if (value == nullptr) return;
  const std::optional<double> number = as_number(*value);
  if (!number) return fail(key, "a number");
  if (*number != neutral) {
    refuse(key, fmt::format("{}{}: only {} is supported, found {}", path_, key, neutral, describe_json(value)),
           "unsupported_value");
  }
}

void RequestFields::neutral(std::initializer_list<std::pair<std::string_view, std::string_view>> values) {
  for (const auto& [key, neutral] : values) {
    const json::value* value = find(key);
    if (value == nullptr || is_empty_json(*value)) continue;
    const json::value expected = *parse_json(neutral, "neutral");
    const auto number = as_number(*value);
    if (*value == expected || (number && number == as_number(expected))) continue;
    refuse(key, fmt::format("{}{}: only {} is supported, found {}", path_, key, neutral, describe_json(value)),
           "unsupported_value");
  }
}

void RequestFields::reject_unknown() {
  for (const auto& pair : object_) {
    const std::string_view key(pair.key().data(), pair.key().size());
    if (is_empty_json(pair.value()) || std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    // The name comes from outside and may be long.
    const std::string shown(key.substr(0, valid_utf8_prefix(key.substr(0, 100))));
    return refuse(shown, fmt::format("unknown field '{}{}'", path_, shown), "unknown_parameter");
  }
}

void RequestFields::fail(std::string_view key, std::string_view expected) {
  refuse(key, fmt::format("{}{}: expected {}, found {}", path_, key, expected, describe_json(object_.if_contains(key))),
         "invalid_value");
}

void RequestFields::refuse(std::string_view key, std::string message, std::string code) {
  if (!error_) error_ = ApiError{400, std::move(message), path_ + std::string(key), std::move(code)};
}

void RequestFields::refuse_with(const ApiError& error) {
  if (!error_) error_ = error;
}

bool is_empty_json(const json::value& value) {
  if (value.is_string()) return value.get_string().empty();
  if (value.is_array()) return value.get_array().empty();
  if (value.is_object()) return value.get_object().empty();
  return value.is_null();
}

std::variant<json::object, ApiError> parse_request_object(std::string_view body) {
  if (const std::size_t valid = valid_utf8_prefix(body); valid < body.size()) {
    return ApiError{400, fmt::format("request body: expected UTF-8, found an invalid byte at offset {}", valid), "",
                    "invalid_json"};
  }
  auto parsed = parse_json(body, "request body");
  if (!parsed.ok()) return ApiError{400, parsed.status().message(), "", "invalid_json"};
  if (!parsed->is_object()) {
    return ApiError{400, "request body: expected a JSON object, found " + describe_json(&*parsed), "", "invalid_json"};
  }
  return std::move(parsed->get_object());
}

}  // namespace sluice
