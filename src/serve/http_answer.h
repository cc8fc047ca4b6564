// HttpAnswer: one exchange on the server's side, its request and the bytes of its answer as they are made.
//
// Calls out of order (a second answer, a piece after the end) do nothing. Thread safety: the network thread's.
#pragma once

#include <string>
#include <string_view>

#include "serve/http.h"

namespace sluice {

struct HttpAnswer {
  HttpRequest request;
  bool keep_alive = false;  // may the connection go on afterwards
  bool chunked = false;     // does the client understand chunks (HTTP/1.1)
  bool head_only = false;   // HEAD: everything but the body

  int status = 0;         // 0: nothing was answered yet
  bool finished = false;  // `out` ends with the last byte
  bool broken = false;    // there will be no last byte: the connection must be cut
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
  // The application dropped the exchange: 500 if nothing was answered, else a broken answer unless it is complete.
  void abandon();
};

}  // namespace sluice
