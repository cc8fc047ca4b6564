// From bytes to an HttpRequest, for http_session.cc alone, which sees the network library, and for what fuzzes it.
// Used by http_session.cc.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cctype>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "serve/api/api_error.h"
#include "serve/api/openai/openai_response.h"
#include "serve/http/http_server.h"

namespace sluice {

using HttpParser = boost::beast::http::request_parser<boost::beast::http::string_body>;

inline void set_limits(HttpParser& parser, const HttpServerOptions& options) {
  parser.header_limit(static_cast<std::uint32_t>(options.max_header_bytes));
  parser.body_limit(options.max_body_bytes);
  parser.eager(true);
}

// Parses what the buffer has for it; ok also when more is needed.
inline boost::system::error_code parse_some(HttpParser& parser, boost::beast::flat_buffer& buffer) {
  boost::system::error_code failure;
  if (buffer.size() > 0) buffer.consume(parser.put(buffer.data(), failure));
  return failure == boost::beast::http::error::need_more ? boost::system::error_code() : failure;
}

// RFC 9112 6.1: the parser takes a body whose coding it does not know for none, and would read on in the middle of it.
// The only one that is known is "chunked", alone, and not from clients of HTTP/1.0, which have none.
inline bool has_known_coding(const HttpParser& parser) {
  const auto& message = parser.get();
  const auto found = message.find(boost::beast::http::field::transfer_encoding);
  if (found == message.end()) return true;
  return message.version() >= 11 && message.count(boost::beast::http::field::transfer_encoding) == 1 &&
         boost::beast::iequals(found->value(), "chunked");
}

// RFC 9112 3.2: a message of HTTP/1.1 without it, or with several, is to be refused.
inline bool has_its_host(const HttpParser& parser) {
  return parser.get().version() < 11 || parser.get().count(boost::beast::http::field::host) == 1;
}

// Returns the error for a client whose request could not be read; status 0: none, it left or was too slow (then the
// stream has closed the connection already).
inline ApiError protocol_error(boost::system::error_code failure, const HttpServerOptions& options) {
  if (failure == boost::beast::http::error::header_limit) {
    return {431, fmt::format("the header exceeds {} bytes", options.max_header_bytes), "", ""};
  }
  if (failure == boost::beast::http::error::body_limit) {
    return {413, fmt::format("the body exceeds the limit of {} bytes", options.max_body_bytes), "", ""};
  }
  const bool left =
      failure == boost::beast::http::error::end_of_stream || failure == boost::beast::http::error::partial_message;
  if (left || failure.category() != make_error_code(boost::beast::http::error::bad_method).category())
    return {0, "", "", ""};
  return {400, "malformed HTTP request: " + failure.message(), "", ""};
}

// The client's, if that is one: 1 to 128 printable characters.
inline std::string request_id(std::string_view given) {
  constexpr std::size_t kMaxBytes = 128;
  const bool fits = !given.empty() && given.size() <= kMaxBytes &&
                    std::ranges::all_of(given, [](char c) { return c >= ' ' && c <= '~'; });
  return fits ? std::string(given) : random_id("req-");
}

inline std::string header_of(const boost::beast::http::request<boost::beast::http::string_body>& message,
                             boost::beast::http::field field) {
  const auto found = message.find(field);
  return found == message.end() ? std::string() : std::string(found->value());
}

// Returns the path without empty segments and without a slash at its end: people type base URLs with "//" and "/" at
// their ends.
inline std::string plain_path(std::string_view path) {
  std::string out;
  for (const char c : path) {
    if (c != '/' || out.empty() || out.back() != '/') out += c;
  }
  if (out.size() > 1 && out.back() == '/') out.pop_back();
  return out.empty() ? "/" : out;
}

// A target in absolute form names the host itself.
inline void read_target_and_header(const boost::beast::http::request<boost::beast::http::string_body>& message,
                                   HttpRequest& out) {
  std::string_view target(message.target().data(), message.target().size());
  out.host = header_of(message, boost::beast::http::field::host);
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!boost::beast::iequals(target.substr(0, scheme.size()), scheme)) continue;
    target.remove_prefix(scheme.size());
    const std::size_t end = std::min(target.find_first_of("/?"), target.size());
    out.host = std::string(target.substr(0, end));
    target.remove_prefix(end);
    break;
  }
  out.path = plain_path(std::string_view(target).substr(0, target.find('?')));
  for (const auto& field : message) {
    std::string name(field.name_string());
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    out.headers.emplace_back(std::move(name), std::string(field.value()));
  }
  out.record.id = request_id(out.header("x-request-id"));
  out.origin = header_of(message, boost::beast::http::field::origin);
  out.requested_headers = header_of(message, boost::beast::http::field::access_control_request_headers);
  out.is_preflight = message.find(boost::beast::http::field::access_control_request_method) != message.end();
  out.is_forwarded = message.find(boost::beast::http::field::forwarded) != message.end() ||
                     message.find(boost::beast::http::field::via) != message.end() ||
                     message.find("X-Real-IP") != message.end() || message.find("X-Forwarded-For") != message.end() ||
                     message.find("X-Forwarded-Host") != message.end();
}

}  // namespace sluice
