// HttpAnswer: one exchange on the server's side, its request and the bytes of its answer as they are made.
//
// Calls out of order (a second answer, a piece after the end) do nothing. Thread safety: the network thread's.
// Used by http_session.h and http_wire.cc.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "serve/http/http.h"

namespace sluice {

struct HttpFraming {
  bool keep_alive = true;
  bool chunked = false;                       // a stream for an HTTP/1.1 client; HTTP/1.0 reads until the end
  std::optional<std::size_t> content_length;  // the length of a whole answer
  std::string_view allow_origin = {};         // the origin whose pages may read the answer
  std::string_view ignored_fields = {};
  std::string_view request_id = {};
  std::string_view trace = {};  // ServedRequest::trace_context()
};

struct HttpAnswer {
  HttpRequest request;
  bool keep_alive = false;  // may the connection go on afterwards
  bool chunked = false;     // does the client understand chunks (HTTP/1.1)
  bool head_only = false;   // HEAD: everything but the body

  int status = 0;         // 0: nothing was answered yet
  bool finished = false;  // `out` ends with the last byte
  bool broken = false;    // the answer has no last byte: the connection must be cut
  std::string out;        // made, but not yet taken for writing
  std::string filler;     // HttpResponse::filler

  void respond(const HttpResponse& response);
  void begin_stream(const HttpResponse& head);
  void write(std::string_view piece);
  void finish();
  // The client has ended its half of the connection: it may still read, or be gone. Sending more bytes shows which,
  // because the system of a client that is gone answers with a reset: an interim response before the head, the filler
  // in a stream.
  void knock();
  HttpFraming framing(std::optional<std::size_t> content_length, std::string_view trace) const;
  // The application dropped the exchange: 500 if nothing was answered, else a broken answer unless it is complete.
  void abandon();
};

// The bytes of HTTP/1.1 answers.

// "OK", "Not Found", ...; "Unknown" for what this server never sends.
std::string_view reason_phrase(int status);

// The status line and the header fields, up to and with the empty line.
std::string response_head(const HttpResponse& response, const HttpFraming& framing);

// One piece of a chunked answer; an empty piece gives nothing (an empty chunk would end the answer).
void append_chunk(std::string& out, std::string_view piece);
inline constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace sluice
