#include "serve/http_answer.h"

#include <optional>

#include "serve/api_error.h"

namespace sluice {

void HttpAnswer::respond(const HttpResponse& response) {
  if (status != 0) return;
  status = response.status;
  out +=
      response_head(response, {keep_alive, false, response.body.size(), request.allow_origin, request.ignored_fields});
  if (!head_only) out += response.body;
  finished = true;
}

void HttpAnswer::begin_stream(const HttpResponse& head) {
  if (status != 0) return;
  status = head.status;
  filler = head.filler;
  if (!chunked) keep_alive = false;  // the end of the connection is the end of the answer
  out += response_head(head, {keep_alive, chunked, std::nullopt, request.allow_origin, request.ignored_fields});
  write(head.body);
}

void HttpAnswer::write(std::string_view piece) {
  if (status == 0 || finished || head_only) return;
  if (chunked) {
    append_chunk(out, piece);
  } else {
    out += piece;
  }
}

void HttpAnswer::finish() {
  if (status == 0 || finished) return;
  if (chunked && !head_only) out += kLastChunk;
  finished = true;
}

void HttpAnswer::knock() {
  if (status != 0) {
    if (!filler.empty()) write(filler);
  } else if (chunked) {
    out += kContinue;
  }
}

void HttpAnswer::abandon() {
  if (status == 0) {
    respond(error_response({500, "the request was dropped inside the server", "", "internal_error"}));
  } else if (!finished) {
    broken = true;
  }
}

}  // namespace sluice
