// The bytes of HTTP/1.1 answers.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "serve/http.h"

namespace sluice {

struct HttpFraming {
  bool keep_alive = true;
  bool chunked = false;                       // a stream for an HTTP/1.1 client; HTTP/1.0 reads until the end
  std::optional<std::size_t> content_length;  // of a whole answer
  std::string_view allow_origin = {};         // whose pages may read it
};

// "OK", "Not Found", ...; "Unknown" for what this server never sends.
std::string_view reason_phrase(int status);

// The status line and the header fields, up to and with the empty line.
std::string response_head(const HttpResponse& response, const HttpFraming& framing);

// One piece of a chunked answer; an empty piece gives nothing (an empty chunk would end the answer).
void append_chunk(std::string& out, std::string_view piece);
inline constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace sluice
