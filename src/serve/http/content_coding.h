// The header Content-Encoding of a request: its body is gzip, zstd or deflate (RFC 9110 8.4, RFC 8878), and is decoded
// before anything reads it. Coding agents compress their requests, which are long.
// Thread safety: pure functions.
// Used by serve/server.cc.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "serve/api/api_error.h"

namespace sluice {

// The codings that are understood, as a 415 lists them in its header Accept-Encoding.
inline constexpr std::string_view kKnownCodings = "gzip, zstd, deflate";

// Returns whether a body with this header has to be decoded; "" and "identity" stand for none.
bool is_coded(std::string_view content_encoding);

// The decoded body. An unknown coding or several of them are a 415, a body of more than `max_bytes` decoded bytes is a
// 413, and bytes that the coding cannot mean are a 400. Decoding ends at the limit: it takes `max_bytes` and at most
// 16 MiB more, whatever the body claims.
std::variant<std::string, ApiError> decode_body(std::string_view body, std::string_view content_encoding,
                                                std::size_t max_bytes);

// BodyDecoder: decodes the bodies of requests in place, and holds what they take together under a limit of its own.
// Thread safety: decode() may be called from any thread.
class BodyDecoder {
 public:
  BodyDecoder(std::size_t max_body_bytes, std::size_t max_bodies_bytes)
      : max_body_bytes_(max_body_bytes), max_bodies_bytes_(max_bodies_bytes) {}

  // An error to answer with, or request.body is the decoded one; its room is given back with the request.
  std::optional<ApiError> decode(HttpRequest& request);

 private:
  const std::size_t max_body_bytes_, max_bodies_bytes_;
  const std::shared_ptr<std::atomic<std::size_t>> held_ = std::make_shared<std::atomic<std::size_t>>(0);
};

}  // namespace sluice
