// JsonFields: reads the keys of a JSON object into variables, with errors that say what was expected and found:
//   "config.json: key 'hidden_size': expected an integer from 1 to 1048576, found \"abc\""
//
//   JsonFields fields(value, "config.json");
//   fields.require("hidden_size", config.hidden_size, 1, 1 << 20);
//   fields.read("rope_theta", config.rope_theta, 1.0, 1e12);     // keeps its value when absent or null
//   SLUICE_RETURN_IF_ERROR(fields.status());
//
// The first failure sticks: later reads change nothing, and status() returns it. A variable is written only on success.
// An integer must be written as one (128, not 128.0); a number may be either. Ranges are inclusive.
// Ownership: keeps a pointer to the value, which must outlive it. Thread safety: none needed, a local object.
// Used by cli, config, loadgen, sim and text.
#pragma once

#include <boost/json/fwd.hpp>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/status.h"

namespace sluice {

class JsonFields {
 public:
  // `what` names the object in messages. A value that is not an object is a failure.
  JsonFields(const boost::json::value& value, std::string what);

  const Status& status() const { return status_; }
  const std::string& what() const { return what_; }
  // The key is there and not null.
  bool has(std::string_view key) const { return find(key) != nullptr; }
  // The key is there, and it is null.
  bool is_null(std::string_view key) const;
  // The names of all keys, in order.
  std::vector<std::string> keys() const;
  // The value of a key that is there and not null, else nullptr.
  const boost::json::value* find(std::string_view key) const;

  // Optional keys: absent or null leaves `out` as it is.
  template <std::integral Int>
  void read(std::string_view key, Int& out, Int min = std::numeric_limits<Int>::min(),
            Int max = std::numeric_limits<Int>::max()) {
    std::int64_t number = 0;
    if (read_integer(key, number, static_cast<std::int64_t>(min), static_cast<std::int64_t>(max))) {
      out = static_cast<Int>(number);
    }
  }
  void read(std::string_view key, double& out, double min, double max);
  void read(std::string_view key, float& out, float min, float max);
  void read(std::string_view key, bool& out);
  void read(std::string_view key, std::string& out);
  void read(std::string_view key, std::vector<std::string>& out);
  void read(std::string_view key, std::vector<std::int32_t>& out, std::int32_t min, std::int32_t max);

  // The same for required keys.
  template <class T, class... Range>
  void require(std::string_view key, T& out, Range... range) {
    if (demand(key)) read(key, out, range...);
  }

  // The object below `key`, named "what: key 'k'" in messages; a missing or null key gives an object without keys.
  JsonFields child(std::string_view key) const;

  // Records a failure that the caller found: "<what>: key '<key>': expected <expected>, found <the value>".
  void fail(std::string_view key, std::string_view expected);
  // Takes over the failure of another reader, a child's for example.
  void merge(const JsonFields& other) {
    if (status_.ok()) status_ = other.status_;
  }

 private:
  JsonFields(const boost::json::value* value, std::string what, Status status);
  bool demand(std::string_view key);
  bool read_integer(std::string_view key, std::int64_t& out, std::int64_t min, std::int64_t max);

  const boost::json::value* value_ = nullptr;  // an object, or null for one without keys
  std::string what_;
  Status status_;
};

}  // namespace sluice
