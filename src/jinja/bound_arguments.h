// BoundArguments: the arguments of a call, put in the order of a function's parameters.
//
//   const BoundArguments args(run, "replace", arguments, {"old", "new", "count"}, /*required=*/2);
//   if (run.failed()) return {};
//   args.text(0)
//
// Surplus, unknown, repeated or missing arguments fail the run. None counts as not given. Thread safety: a local
// object.
// Used by jinja/library.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/run.h"
#include "jinja/value.h"

namespace sluice::jinja {

class BoundArguments {
 public:
  BoundArguments(Run& run, std::string_view function, const Arguments& arguments,
                 std::initializer_list<std::string_view> parameters, std::size_t required = 0)
      : run_(run), function_(function), values_(parameters.size()) {
    if (arguments.positional.size() > parameters.size()) {
      fail("takes at most " + std::to_string(parameters.size()) + " arguments");
      return;
    }
    for (std::size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
    for (const auto& [name, value] : arguments.named) bind(name, value, parameters);
    for (std::size_t i = 0; i < required; ++i) {
      if (values_[i] == nullptr) fail("needs the argument '" + std::string(parameters.begin()[i]) + "'");
    }
  }

  bool has(std::size_t i) const { return values_[i] != nullptr && !values_[i]->is_none(); }
  // The argument as given, None included; undefined if there is none.
  Value value(std::size_t i) const { return values_[i] == nullptr ? Value() : *values_[i]; }
  Value value_or(std::size_t i, Value absent) const {
    if (values_[i] != nullptr) return *values_[i];
    return absent;
  }

  // Each fails if the argument has another type.
  std::string_view text(std::size_t i, std::string_view absent = {}) const {
    if (!has(i)) return absent;
    if (values_[i]->is_text()) return values_[i]->bytes();
    fail_type("a text", *values_[i]);
    return {};
  }
  Int integer(std::size_t i, Int absent) const {
    if (!has(i)) return absent;
    if (values_[i]->is_integral()) return values_[i]->as_int();
    fail_type("an integer", *values_[i]);
    return absent;
  }
  bool truth(std::size_t i, bool absent = false) const {
    return values_[i] == nullptr ? absent : jinja::truth(*values_[i]);
  }

 private:
  void bind(const std::string& name, const Value& value, std::initializer_list<std::string_view> parameters) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (parameters.begin()[i] != name) continue;
      if (values_[i] != nullptr) return fail("got two values for the argument '" + name + "'");
      values_[i] = &value;
      return;
    }
    fail("takes no argument '" + name + "'");
  }

  void fail(const std::string& message) const { run_.fail(std::string(function_) + "() " + message); }
  void fail_type(const std::string& expected, const Value& found) const {
    if (found.is_undefined()) return run_.fail_undefined(found);
    fail("expected " + expected + ", found '" + std::string(found.type_name()) + "'");
  }

  Run& run_;
  std::string_view function_;
  std::vector<const Value*> values_;
};

}  // namespace sluice::jinja
