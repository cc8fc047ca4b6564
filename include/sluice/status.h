// Status and Result<T>: how failures that input, a file or a user can cause are reported.
//
// A message names the thing, what was expected, what was found and what to do, in one sentence that can be shown to a
// user:
//   "tensor layers.0.attn.wq_a.weight in model-00001.safetensors: expected shape [128, 256], found [256, 128]".
// Thread safety: values; a const object may be read from any thread.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

namespace sluice {

enum class StatusCode {
  kOk = 0,
  kInvalidArgument,    // a flag, request field or file content is wrong: HTTP 400, exit code 2
  kNotFound,           // a file, model or tensor is missing: HTTP 404, exit code 2
  kResourceExhausted,  // not enough memory or disk, or a stated limit exceeded: HTTP 503, exit code 3
  kUnavailable,        // busy or shutting down, a retry may help: HTTP 503, exit code 3
  kCancelled,          // the caller gave up
  kInternal,           // our fault: HTTP 500, exit code 1
};

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // The same status with "context: " before its message; ok stays ok.
  Status with_context(const std::string& context) const {
    return ok() ? *this : Status(code_, context + ": " + message_);
  }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status invalid_argument(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
}
inline Status not_found(std::string message) {
  return {StatusCode::kNotFound, std::move(message)};
}
inline Status resource_exhausted(std::string message) {
  return {StatusCode::kResourceExhausted, std::move(message)};
}
inline Status unavailable(std::string message) {
  return {StatusCode::kUnavailable, std::move(message)};
}
inline Status internal_error(std::string message) {
  return {StatusCode::kInternal, std::move(message)};
}

// A value, or the Status that says why there is none. Reading the value of a failed Result aborts the program.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    if (status_.ok()) std::abort();
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  T& value() & { return checked(); }
  const T& value() const& { return const_cast<Result*>(this)->checked(); }
  T&& value() && { return std::move(checked()); }
  T& operator*() { return checked(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &checked(); }
  const T* operator->() const { return &value(); }

 private:
  T& checked() {
    if (!value_) std::abort();
    return *value_;
  }
  Status status_;
  std::optional<T> value_;
};

}  // namespace sluice

// Returns from the enclosing function if `expression` (a Status) is an error.
#define SLUICE_RETURN_IF_ERROR(expression)                                      \
  do {                                                                          \
    if (::sluice::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)

#define SLUICE_CONCAT_INNER(a, b) a##b
#define SLUICE_CONCAT(a, b) SLUICE_CONCAT_INNER(a, b)

// SLUICE_ASSIGN_OR_RETURN(auto config, parse_config(text)): declares the value, or returns the error.
#define SLUICE_ASSIGN_OR_RETURN(declaration, expression)                                        \
  auto SLUICE_CONCAT(result_, __LINE__) = (expression);                                         \
  if (!SLUICE_CONCAT(result_, __LINE__).ok()) return SLUICE_CONCAT(result_, __LINE__).status(); \
  declaration = std::move(SLUICE_CONCAT(result_, __LINE__)).value()
