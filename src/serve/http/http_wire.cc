// Used by http_answer.cc and http_session.h.
#include <fmt/format.h>

#include <iterator>

#include "serve/http/http_answer.h"

namespace sluice {

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 413:
      return "Content Too Large";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    default:
      return "Unknown";
  }
}

std::string response_head(const HttpResponse& response, const HttpFraming& framing) {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\nServer: sluice\r\nContent-Type: {}\r\n", response.status,
                                reason_phrase(response.status), response.content_type);
  auto end = std::back_inserter(out);
  if (framing.content_length) fmt::format_to(end, "Content-Length: {}\r\n", *framing.content_length);
  if (framing.chunked) out += "Transfer-Encoding: chunked\r\n";
  // A proxy between server and client would otherwise collect a stream before it passes it on.
  if (!framing.content_length) out += "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n";
  if (!response.allow.empty()) fmt::format_to(end, "Allow: {}\r\n", response.allow);
  if (!framing.ignored_fields.empty()) fmt::format_to(end, "X-Sluice-Ignored: {}\r\n", framing.ignored_fields);
  if (!framing.allow_origin.empty()) {
    fmt::format_to(end,
                   "Access-Control-Allow-Origin: {}\r\nVary: Origin\r\n"
                   "Access-Control-Expose-Headers: X-Request-Id, X-Sluice-Ignored, Retry-After, Traceresponse\r\n",
                   framing.allow_origin);
  }
  if (!response.allow_methods.empty()) {
    fmt::format_to(end, "Access-Control-Allow-Methods: {}\r\nAccess-Control-Max-Age: 600\r\n", response.allow_methods);
  }
  if (!response.allow_headers.empty()) {
    fmt::format_to(end, "Access-Control-Allow-Headers: {}\r\n", response.allow_headers);
  }
  if (!framing.request_id.empty()) fmt::format_to(end, "X-Request-Id: {}\r\n", framing.request_id);
  if (!framing.trace.empty()) fmt::format_to(end, "Traceparent: {0}\r\nTraceresponse: {0}\r\n", framing.trace);
  if (response.wants_key) out += "WWW-Authenticate: Bearer\r\n";
  if (response.retry_after > 0) fmt::format_to(end, "Retry-After: {}\r\n", response.retry_after);
  out += response.headers;
  out += framing.keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return out;
}

void append_chunk(std::string& out, std::string_view piece) {
  if (piece.empty()) return;
  fmt::format_to(std::back_inserter(out), "{:x}\r\n", piece.size());
  out += piece;
  out += "\r\n";
}

}  // namespace sluice
