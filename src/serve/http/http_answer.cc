// Used by http_session.h and http_wire.cc.
#include "serve/http/http_answer.h"

#include <optional>

#include "serve/api/agents/agent_answer.h"
#include "serve/api/api_error.h"

namespace sluice {

HttpFraming HttpAnswer::framing(std::optional<std::size_t> content_length, std::string_view trace) const {
  return {keep_alive,
          chunked && !content_length,
          content_length,
          request.allow_origin,
          request.ignored_fields,
          request.record.id,
          trace};
}

void HttpAnswer::respond(const HttpResponse& response) {
  if (status != 0) return;
  status = response.status;
  request.record.limit = response.limit;
  // Clients of this call read errors in a form of their own, wherever in the server they come from.
  const bool has_own_errors = !response.error.empty() && request.path.starts_with("/v1/messages");
  const std::string body = has_own_errors ? messages_error_json(status, response.error) : response.body;
  out += response_head(response, framing(body.size(), request.record.trace_context()));
  if (!head_only) out += body;
  finished = true;
}

void HttpAnswer::begin_stream(const HttpResponse& head) {
  if (status != 0) return;
  status = head.status;
  filler = head.filler;
  if (!chunked) keep_alive = false;  // the end of the connection is the end of the answer
  out += response_head(head, framing(std::nullopt, request.record.trace_context()));
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
