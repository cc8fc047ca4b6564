// Used by serve/api, serve/api/agents, serve/api/openai and serve/generate.
#include "serve/api/request_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <boost/json/array.hpp>
#include <boost/json/string.hpp>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
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

// JSON has one kind of number: 10.0 is the integer 10. Beyond 2^53 a double stands for several integers.
std::optional<std::int64_t> as_integer(const json::value& value) {
  constexpr double kMostExact = 9007199254740992.0;
  if (value.is_int64()) return value.get_int64();
  if (!value.is_double()) return std::nullopt;
  const double number = value.get_double();
  if (!(std::abs(number) <= kMostExact) || number != std::trunc(number)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

std::string as_string(const json::value& value) {
  return std::string(std::string_view(value.get_string()));
}

}  // namespace

RequestFields::RequestFields(const json::object& object, FieldPlaces place, bool strict)
    : object_(object), place_(place), strict_(strict) {}

RequestFields::RequestFields(RequestFields& above, std::string_view key, const json::object& object)
    : object_(object),
      above_(&above),
      place_(above.place_),
      strict_(above.strict_),
      path_(above.path_ + std::string(key) + ".") {}

const Field& RequestFields::field(std::string_view key) const {
  const Field* found = find_field(place_, path_ + std::string(key));
  SLUICE_CHECK(found != nullptr, "what is read is in the table of fields");
  return *found;
}

const json::value* RequestFields::find(std::string_view key) {
  const Field& row = field(key);
  const json::value* value = object_.if_contains(key);
  if (value == nullptr || value->is_null()) return nullptr;
  return is_empty_json(*value) && !row.empty_counts() ? nullptr : value;
}

void RequestFields::read(std::string_view key, std::optional<double>& out) {
  const json::value* value = find(key);
  if (value == nullptr) return;
  const Field& row = field(key);
  const std::optional<double> number = as_number(*value);
  if (!number || !(*number >= row.low && *number <= row.high)) return fail(key);
  out = number;
}

void RequestFields::read(std::string_view key, std::optional<std::int64_t>& out) {
  const json::value* value = find(key);
  if (value == nullptr) return;
  const Field& row = field(key);
  const std::optional<std::int64_t> number = as_integer(*value);
  if (!number || static_cast<double>(*number) < row.low || static_cast<double>(*number) > row.high) return fail(key);
  out = number;
}

void RequestFields::read(std::string_view key, std::optional<bool>& out) {
  const json::value* value = find(key);
  if (value == nullptr) return;
  if (!value->is_bool()) return fail(key);
  out = value->get_bool();
}

void RequestFields::read(std::string_view key, std::optional<std::string>& out) {
  const json::value* value = find(key);
  if (value == nullptr) return;
  if (!value->is_string()) return fail(key);
  out = as_string(*value);
}

void RequestFields::read_seed(std::string_view key, std::optional<std::uint64_t>& out) {
  const json::value* value = find(key);
  if (value == nullptr) return;
  if (value->is_uint64()) {
    out = value->get_uint64();
  } else if (const std::optional<std::int64_t> number = as_integer(*value); number) {
    out = std::bit_cast<std::uint64_t>(*number);
  } else {
    fail(key);
  }
}

void RequestFields::read_strings(std::string_view key, std::vector<std::string>& out) {
  const json::value* value = find(key);
  if (value == nullptr) return;
  std::vector<std::string> strings;
  if (value->is_string()) {
    strings.push_back(as_string(*value));
  } else if (value->is_array()) {
    for (const json::value& item : value->get_array()) {
      if (!item.is_string()) return fail(key);
      strings.push_back(as_string(item));
    }
  } else {
    return fail(key);
  }
  const bool has_empty = std::any_of(strings.begin(), strings.end(), [](const auto& text) { return text.empty(); });
  if (strings.size() > static_cast<std::size_t>(field(key).high) || has_empty) return fail(key);
  out = std::move(strings);
}

const json::object* RequestFields::read_object(std::string_view key) {
  const json::value* value = find(key);
  if (value == nullptr) return nullptr;
  if (!value->is_object()) {
    fail(key);
    return nullptr;
  }
  return &value->get_object();
}

void RequestFields::read_token_ids(std::string_view key, std::vector<std::int32_t>& out) {
  const json::value* value = find(key);
  if (value == nullptr) return;
  if (!value->is_array() || value->get_array().size() > static_cast<std::size_t>(field(key).high)) return fail(key);
  std::vector<std::int32_t> ids;
  for (const json::value& id : value->get_array()) {
    if (!id.is_int64() || id.get_int64() < 0 || id.get_int64() > std::numeric_limits<std::int32_t>::max()) {
      return fail(key);
    }
    ids.push_back(static_cast<std::int32_t>(id.get_int64()));
  }
  out = std::move(ids);
}

void RequestFields::refuse_effect(std::string_view key, const Field& field, const json::value& value) {
  const json::value expected = *parse_json(field.text, "the table of fields");
  const auto number = as_number(value);
  if (value == expected || (number && number == as_number(expected))) return;
  const std::string what = is_empty_json(expected)
                               ? "not supported"
                               : fmt::format("only {} is supported, found {}", field.text, describe_json(&value));
  refuse(key, fmt::format("{}{}: {}{}{}", path_, key, what, field.preset.empty() ? "" : "; ", field.preset),
         "unsupported_value");
}

void RequestFields::finish() {
  for (const auto& pair : object_) {
    if (forgotten_ || is_empty_json(pair.value())) continue;
    const std::string_view key(pair.key().data(), pair.key().size());
    const Field* row = find_field(place_, path_ + std::string(key));
    if (row != nullptr && row->use == FieldUse::kOnly) refuse_effect(key, *row, pair.value());
    if (row != nullptr) continue;
    // The name comes from outside and may be long.
    const std::string shown(key.substr(0, valid_utf8_prefix(key.substr(0, 100))));
    if (strict_) {
      refuse(shown, fmt::format("unknown field '{}{}'", path_, shown), "unknown_parameter");
    } else {
      ignored().push_back(path_ + shown);
    }
  }
  if (above_ != nullptr && error_) above_->refuse_with(*error_);
}

void RequestFields::fail(std::string_view key) {
  fail(key, field(key).expected());
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
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // RFC 8259 8.1: some clients write it
  if (body.starts_with(kByteOrderMark)) body.remove_prefix(kByteOrderMark.size());
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
