// RequestFields: reads the keys of a request's JSON object into variables, by the table of fields (field_table.h). A
// wrong type, a value out of range and an effect that is missing are each an ApiError that names the key, what was
// expected and what was found. Only fields of the table can be read.
//
// The first error sticks; later reads change nothing. null counts as absent, and "", [] and {} where the table says so.
// A variable is written only on success. Ownership: keeps a pointer to the object, which must outlive it. Thread
// safety: a local object.
// Used by serve/api, serve/api/agents, serve/api/openai and serve/generate.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "serve/api/api_error.h"
#include "serve/api/field_table.h"
#include "serve/api/openai/openai_request.h"

namespace sluice {

class RequestFields {
 public:
  RequestFields(const boost::json::object& object, FieldPlaces place, bool strict);
  // An object below a key of another one, which must outlive it.
  RequestFields(RequestFields& above, std::string_view key, const boost::json::object& object);

  // The value of a key that is there and does not count as absent.
  const boost::json::value* find(std::string_view key);

  void read(std::string_view key, std::optional<double>& out);
  void read(std::string_view key, std::optional<std::int64_t>& out);
  void read(std::string_view key, std::optional<bool>& out);
  void read(std::string_view key, std::optional<std::string>& out);
  // A number, an integer, a flag or a text: that of the key, else `absent`.
  template <class Value>
  Value value(std::string_view key, Value absent) {
    using Read = std::conditional_t<std::is_same_v<Value, int>, std::int64_t,
                                    std::conditional_t<std::is_same_v<Value, float>, double, Value>>;
    std::optional<Read> given;
    read(key, given);
    return given ? static_cast<Value>(*std::move(given)) : std::move(absent);
  }
  // Any 64-bit integer, negative ones by their bits.
  void read_seed(std::string_view key, std::optional<std::uint64_t>& out);
  // A string or an array of strings.
  void read_strings(std::string_view key, std::vector<std::string>& out);
  void read_token_ids(std::string_view key, std::vector<std::int32_t>& out);
  // An object; nullptr when absent or after an error.
  const boost::json::object* read_object(std::string_view key);

  // Handles the keys that no call has read: refuses a value whose effect is missing; notes unknown keys, or refuses
  // them. Empty values are accepted for any key. An object below another one gives its error to it.
  void finish();
  // Nothing of this object is of use: finish() says nothing of its keys.
  void forget() { forgotten_ = true; }
  // The paths of such keys, in this object and those below it.
  std::vector<std::string>& ignored() { return above_ != nullptr ? above_->ignored() : ignored_; }
  bool strict() const { return strict_; }
  const std::string& path() const { return path_; }  // this object's path, with a dot at its end; "" at the top
  FieldPlaces place() const { return place_; }

  void fail(std::string_view key);                             // reports what the table expects
  void fail(std::string_view key, std::string_view expected);  // "..., found <the value>"
  void refuse(std::string_view key, std::string message, std::string code = "");
  void refuse_with(const ApiError& error);
  const std::optional<ApiError>& error() const { return error_; }

 private:
  const Field& field(std::string_view key) const;
  void refuse_effect(std::string_view key, const Field& field, const boost::json::value& value);

  const boost::json::object& object_;
  RequestFields* const above_ = nullptr;
  const FieldPlaces place_;
  const bool strict_;
  const std::string path_;  // before the keys: "" at the top, "stream_options." below that key
  std::vector<std::string> ignored_;
  bool forgotten_ = false;
  std::optional<ApiError> error_;
};

// null, "", [] and {}: what clients send for fields that are not set.
bool is_empty_json(const boost::json::value& value);

// The body of a request: JSON whose top is an object; anything else is an error that says where and what.
std::variant<boost::json::object, ApiError> parse_request_object(std::string_view body);

// The fields that the bodies of both generating calls share.

// Sampling, limits, stop conditions, streaming; everything but log-probabilities, whose form differs. Errors are left
// in `fields`.
void read_exports(RequestFields& fields, GenerationOptions& out);     // for experts and indices
void read_scheduling(RequestFields& fields, GenerationOptions& out);  // priority and cache_salt
void read_generation_options(RequestFields& fields, const SamplingDefaults& defaults, GenerationOptions& out);

}  // namespace sluice
