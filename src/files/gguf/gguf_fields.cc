// Used by config/gguf/gguf_config.h, text/vocabulary_files/gguf_sentencepiece.cc and
// text/vocabulary_files/gguf_tokenizer.cc.
#include "files/gguf/gguf_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace sluice {
namespace {

std::optional<std::int64_t> as_integer(const GgufValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return *number;
  const auto* number = std::get_if<std::uint64_t>(&value);
  if (number != nullptr && *number <= static_cast<std::uint64_t>(INT64_MAX)) return static_cast<std::int64_t>(*number);
  return std::nullopt;
}

// Returns a finite number. An f32 becomes the f64 of its shortest decimal, which config.json has: 1e-6 instead of
// 9.99999997e-7.
std::optional<double> as_number(const GgufValue& value) {
  std::optional<double> number;
  if (const auto* f64 = std::get_if<double>(&value)) number = *f64;
  if (const auto* f32 = std::get_if<float>(&value)) {
    const std::string digits = fmt::format("{}", *f32);  // the fewest that read back to the same f32
    double read = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), read);
    number = std::isfinite(*f32) ? read : static_cast<double>(*f32);
  }
  if (const auto integer = as_integer(value)) number = static_cast<double>(*integer);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

}  // namespace

const GgufValue* GgufFields::find(std::string_view key) const {
  const auto found = model_.metadata().find(prefix_ + std::string(key));
  return found == model_.metadata().end() ? nullptr : &found->second;
}

void GgufFields::read(std::string_view key, std::int64_t& out, std::int64_t min, std::int64_t max) {
  const GgufValue* value = find(key);
  if (value == nullptr || !status_.ok()) return;
  if (std::holds_alternative<GgufArray>(*value)) {
    std::vector<std::int64_t> values;
    read(key, values, min, max);
    if (!status_.ok()) return;
    if (values.empty() || std::ranges::count(values, values.front()) != std::ssize(values)) {
      return fail(key, "an integer, or an array of one value for every layer");
    }
    out = values.front();
    return;
  }
  const auto number = as_integer(*value);
  if (!number || *number < min || *number > max) return fail(key, fmt::format("an integer from {} to {}", min, max));
  out = *number;
}

void GgufFields::read(std::string_view key, double& out) {
  const GgufValue* value = find(key);
  if (value == nullptr || !status_.ok()) return;
  const auto number = as_number(*value);
  if (!number) return fail(key, "a finite number");
  out = *number;
}

void GgufFields::read(std::string_view key, bool& out) {
  const GgufValue* value = find(key);
  if (value == nullptr || !status_.ok()) return;
  const auto* flag = std::get_if<bool>(value);
  if (flag == nullptr) return fail(key, "true or false");
  out = *flag;
}

void GgufFields::read(std::string_view key, std::string& out) {
  const GgufValue* value = find(key);
  if (value == nullptr || !status_.ok()) return;
  const auto* text = std::get_if<std::string_view>(value);
  if (text == nullptr) return fail(key, "a string");
  out = *text;
}

const GgufArray* GgufFields::read_array(std::string_view key, std::string_view expected) {
  const GgufValue* value = find(key);
  if (value == nullptr || !status_.ok()) return nullptr;
  const auto* array = std::get_if<GgufArray>(value);
  if (array == nullptr || gguf_type_bytes(array->type) == 0) {
    fail(key, fmt::format("an array of {}", expected));
    return nullptr;
  }
  return array;
}

void GgufFields::read(std::string_view key, std::vector<std::int64_t>& out, std::int64_t min, std::int64_t max) {
  const GgufArray* array = read_array(key, "integers");
  if (array == nullptr) return;
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i < array->size; ++i) {
    const GgufValue element = gguf_element(*array, i);
    const auto number = as_integer(element);
    if (!number || *number < min || *number > max) {
      return fail(key, fmt::format("an array of integers from {} to {} (element {} is {})", min, max, i,
                                   describe_gguf(&element)));
    }
    numbers.push_back(*number);
  }
  out = std::move(numbers);
}

void GgufFields::read(std::string_view key, std::vector<double>& out) {
  const GgufArray* array = read_array(key, "numbers");
  if (array == nullptr) return;
  std::vector<double> numbers;
  for (std::size_t i = 0; i < array->size; ++i) {
    const GgufValue element = gguf_element(*array, i);
    const auto number = as_number(element);
    if (!number) {
      return fail(key, fmt::format("an array of finite numbers (element {} is {})", i, describe_gguf(&element)));
    }
    numbers.push_back(*number);
  }
  out = std::move(numbers);
}

bool GgufFields::demand(std::string_view key) {
  if (!has(key)) fail(key, "a value");
  return status_.ok();
}

void GgufFields::fail(std::string_view key, std::string_view expected) {
  if (!status_.ok()) return;
  status_ = invalid_argument(fmt::format("{}: key '{}{}': expected {}, found {}", model_.path(), prefix_, key, expected,
                                         describe_gguf(find(key))));
}

}  // namespace sluice
