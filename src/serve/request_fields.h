// RequestFields: reads the keys of a request's JSON object into variables, strictly: a wrong type, a value out of range
// and an unknown key are each an ApiError that names the key, what was expected and what was found.
//
// The first error sticks; later reads change nothing. null counts as absent. A variable is written only on success.
// Ownership: keeps a pointer to the object, which must outlive it. Thread safety: a local object.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "serve/api_error.h"
#include "serve/openai_request.h"

namespace sluice {

class RequestFields {
 public:
  // `path` goes before the keys in messages: "" at the top, "stream_options." below that key.
  explicit RequestFields(const boost::json::object& object, std::string path = "");

  // The value of a key that is there and not null; the key counts as known from now on.
  const boost::json::value* find(std::string_view key);

  void read(std::string_view key, std::optional<double>& out, double min, double max);
  void read(std::string_view key, std::optional<std::int64_t>& out, std::int64_t min, std::int64_t max);
  void read(std::string_view key, std::optional<bool>& out);
  void read(std::string_view key, std::optional<std::string>& out);
  // Any 64-bit integer, negative ones by their bits.
  void read_seed(std::string_view key, std::optional<std::uint64_t>& out);
  // A string or an array of strings.
  void read_strings(std::string_view key, std::vector<std::string>& out, std::size_t max_count);
  // An object; nullptr when absent or after an error.
  const boost::json::object* read_object(std::string_view key);

  // Keys that clients send and that change nothing here.
  void ignore(std::initializer_list<std::string_view> keys);
  // A number that is accepted only at its neutral value, because its effect is not supported.
  void only(std::string_view key, double neutral);
  // The only values, as JSON, that are supported for a key.
  void neutral(std::initializer_list<std::pair<std::string_view, std::string_view>> values);
  // Fails if there is a key that was not asked for, unless its value is empty.
  void reject_unknown();

  void fail(std::string_view key, std::string_view expected);  // "..., found <the value>"
  void refuse(std::string_view key, std::string message, std::string code = "");
  void refuse_with(const ApiError& error);
  const std::optional<ApiError>& error() const { return error_; }

 private:
  const boost::json::object& object_;
  std::string path_;
  std::vector<std::string_view> known_;
  std::optional<ApiError> error_;
};

// null, "", [] and {}: what clients send for fields that are not set.
bool is_empty_json(const boost::json::value& value);

// The body of a request: JSON whose top is an object; anything else is an error that says where and what.
std::variant<boost::json::object, ApiError> parse_request_object(std::string_view body);

// The fields that the bodies of both generating calls share.

// Sampling, limits, stop conditions, streaming; everything but log-probabilities, whose form differs. Also ignores or
// refuses the fields that both calls ignore or refuse. Errors are left in `fields`.
void read_generation_options(RequestFields& fields, const SamplingDefaults& defaults, GenerationOptions& out);

}  // namespace sluice
