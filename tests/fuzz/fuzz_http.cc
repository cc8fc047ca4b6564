// Requests over HTTP, as a connection reads them. They are the same requests whatever pieces they come in. They have
// nothing that an answer's header, a log or another server in between could read in another way.
#define BOOST_ASIO_SEPARATE_COMPILATION
#define BOOST_BEAST_SEPARATE_COMPILATION

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <random>
#include <utility>
#include <vector>

#include "fuzz_target.h"
#include "serve/guard/access.h"
#include "serve/http/http_answer.h"
#include "serve/http/http_parse.h"
#include "telemetry/traces.h"

namespace sluice {
namespace {

namespace http = boost::beast::http;

struct Read {
  int refused = 0;  // the status; 0: it is whole, or the rest has not come
  std::string error;
  bool whole = false;
  HttpRequest request;

  bool operator==(const Read& other) const {
    return refused == other.refused && error == other.error && whole == other.whole &&
           request.method == other.request.method && request.path == other.request.path &&
           request.host == other.request.host && request.body == other.request.body &&
           request.headers == other.request.headers;
  }
};

const HttpServerOptions& options() {
  static const HttpServerOptions small = [] {
    HttpServerOptions o;
    o.max_header_bytes = 2048;
    o.max_body_bytes = 4096;
    return o;
  }();
  return small;
}

void expect_unambiguous(const HttpParser& parser) {
  const auto& message = parser.get();
  const auto lengths = message.count(http::field::content_length);
  const auto codings = message.count(http::field::transfer_encoding);
  fuzz_expect(lengths == 0 || codings == 0, "a body whose end two fields give");
  const auto [begin, end] = message.equal_range(http::field::content_length);
  const bool equal =
      std::all_of(begin, end, [first = begin](const auto& field) { return field.value() == first->value(); });
  fuzz_expect(equal, "two lengths of a body");
  fuzz_expect(codings == 0 || parser.chunked(), "a coding that is not the last one is accepted");
  fuzz_expect(message.body().size() <= options().max_body_bytes, "a body over the limit");
  for (const auto& field : message) {
    const std::string_view name(field.name_string().data(), field.name_string().size());
    const std::string_view value(field.value().data(), field.value().size());
    fuzz_expect(!name.empty() && name.find_first_of(" \t\r\n:") == name.npos, "a field's name");
    fuzz_expect(value.find_first_of(std::string_view("\r\n\0", 3)) == value.npos, "a field's value");
  }
}

// The requests of a connection up to its end, or to the one that is refused.
template <class NextPiece>
std::vector<Read> read_all(std::string_view bytes, NextPiece&& next_piece) {
  std::vector<Read> all;
  boost::beast::flat_buffer buffer;
  const bool at_limit = bytes.size() >= options().max_header_bytes;
  for (bool more = true; more;) {
    HttpParser parser;
    set_limits(parser, options());
    Read read;
    for (;;) {
      const auto failure = parse_some(parser, buffer);
      if (parser.is_header_done() && !has_known_coding(parser)) {
        read.refused = 400;
        break;
      }
      if (failure) {
        const ApiError error = protocol_error(failure, options());
        fuzz_expect(error.status != 431 || at_limit, "a small header is too large");
        fuzz_expect(error.status == 400 || error.status == 413 || error.status == 431, error.message);
        read.refused = error.status, read.error = error.message;
        break;
      }
      read.whole = parser.is_done();
      if (read.whole || bytes.empty()) break;
      const std::string_view piece = bytes.substr(0, std::min(bytes.size(), next_piece()));
      boost::asio::buffer_copy(buffer.prepare(piece.size()), boost::asio::buffer(piece.data(), piece.size()));
      buffer.commit(piece.size());
      bytes.remove_prefix(piece.size());
    }
    if (read.whole) {
      expect_unambiguous(parser);
      read_target_and_header(parser.get(), read.request);
      read.request.method = std::string(parser.get().method_string());
      read.request.body = parser.get().body();
      if (!has_its_host(parser)) read.refused = 400;
    }
    more = read.whole && read.refused == 0;
    all.push_back(std::move(read));
  }
  return all;
}

// Checks what the server does with a request before its body is read, and the head of an answer.
void expect_sound_answer(HttpRequest request) {
  static const Access access({"127.0.0.1"}, {"https://chat.example"});
  read_traceparent(request.header("traceparent"), /*begins=*/false, request.record);
  (void)access.check(request).has_value();
  (void)access.check_key(request).has_value();
  if (Access::is_preflight(request)) (void)Access::preflight_answer(request);
  HttpAnswer answer;
  answer.request = std::move(request);
  answer.chunked = true;
  HttpResponse response;
  response.body = "{}";
  answer.respond(response);
  const std::size_t end = answer.out.find("\r\n\r\n");
  fuzz_expect(end + 6 == answer.out.size(), "a header that ends early");
  for (std::size_t line = 0; line < end;) {
    const std::size_t next = std::min(answer.out.find("\r\n", line), end);
    fuzz_expect(answer.out.substr(line, next - line).find_first_of("\r\n") == std::string::npos, "a line in a line");
    line = next + 2;
  }
}

// The requests that are answered. One that is refused may be so earlier or later, as some faults are seen only when the
// header's end has come; and a header of about the limit may be within it in some pieces and not in others.
bool same(const std::vector<Read>& a, const std::vector<Read>& b) {
  const auto answered = [](const std::vector<Read>& reads) {
    return std::ranges::count_if(reads, [](const Read& read) { return read.whole && read.refused == 0; });
  };
  const auto at_limit = [](const Read& read) { return read.refused == 431; };
  const auto both = std::min(answered(a), answered(b));
  const bool limited = std::ranges::any_of(a, at_limit) || std::ranges::any_of(b, at_limit);
  return (limited || answered(a) == answered(b)) && std::equal(a.begin(), a.begin() + both, b.begin());
}

void check(std::string_view input) {
  const std::vector<Read> whole = read_all(input, [&] { return input.size(); });
  std::minstd_rand random(static_cast<unsigned>(hash_of(input)));
  fuzz_expect(same(read_all(input, [] { return std::size_t{1}; }), whole), "byte by byte it is something else");
  fuzz_expect(same(read_all(input, [&] { return 1 + random() % 40; }), whole), "in other pieces it is something else");
  for (const Read& read : whole) {
    if (read.whole) expect_sound_answer(read.request);
  }
}

}  // namespace

FuzzTarget fuzz_target() {
  return {.name = "http",
          .words = {"GET ",
                    "POST ",
                    "OPTIONS ",
                    " HTTP/1.1\r\n",
                    " HTTP/1.0\r\n",
                    "\r\n",
                    "\r\n\r\n",
                    "Host: a\r\n",
                    "Content-Length: ",
                    "Transfer-Encoding: chunked\r\n",
                    "Transfer-Encoding: ",
                    "chunked",
                    "gzip",
                    "Connection: close\r\n",
                    "Expect: 100-continue\r\n",
                    "0\r\n\r\n",
                    "5\r\nabcde\r\n",
                    ";ext=\"1\"",
                    "http://",
                    "/v1/chat/completions",
                    "X-Request-Id: ",
                    "Origin: ",
                    "https://chat.example",
                    "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n",
                    "Access-Control-Request-Method: POST\r\n",
                    "Authorization: Bearer ",
                    "x-api-key: ",
                    "\r\n ",
                    "\n\n"},
          .max_bytes = 8192,
          .check = check};
}

}  // namespace sluice
