// Used by http_exchange.h and http_server.cc.
#define BOOST_ASIO_SEPARATE_COMPILATION
#define BOOST_BEAST_SEPARATE_COMPILATION

// g++ 12 takes Asio's allocator of coroutine frames for a mismatch where it inlines half of it.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

#include "serve/http/http_session.h"

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>

#include "serve/http/http_exchange.h"
#include "serve/http/http_parse.h"

// Calls with an error_code to fill return it too.
// NOLINTBEGIN(bugprone-unused-return-value)

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;
namespace asio = boost::asio;
namespace http = boost::beast::http;

constexpr std::size_t kMaxPipelinedBytes = 1 << 20;  // bytes read ahead while an answer is under way
constexpr auto kLingerTimeout = std::chrono::seconds(5);
constexpr std::size_t kMaxLingerBytes = 64 << 20;
constexpr std::size_t kLeastSendBuffer = 256 << 10;  // with less than some segments it waits for late acknowledgements
constexpr int kClientLeft = 499;                     // status in summaries only, as other servers log it
constexpr std::size_t kMostUnread =
    16;  // times max_unread_bytes: cut at once, if the handler does not pause the answer

}  // namespace

HttpSession::HttpSession(std::shared_ptr<HttpLoop> loop, HttpSocket::Stream stream, std::string peer)
    : loop_(std::move(loop)), socket_(std::move(stream), loop_->shared->tls), wake_(loop_->io), peer_(std::move(peer)) {
  loop_->sessions.insert(this);
  ++loop_->shared->connections;
  Failure ignored;  // local sockets have none of these
  socket_.stream().set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.stream().set_option(asio::socket_base::keep_alive(true), ignored);  // finds clients whose machine is gone
  socket_.limit_send_buffer(std::max(kLeastSendBuffer, options().max_unread_bytes / 2));
}

HttpSession::~HttpSession() {
  --loop_->shared->connections;
  loop_->sessions.erase(this);
}

void HttpSession::abort() {
  aborted_ = true;
  socket_.close();
  wake();
}

asio::awaitable<void> HttpSession::run(std::shared_ptr<HttpSession> self) {
  while (!self->aborted_ && co_await self->serve_one()) {
  }
  Failure ignored;
  self->socket_.end_sending();
  self->socket_.stream().shutdown(HttpSocket::Stream::shutdown_both, ignored);
}

// One request and its answer; false when the connection ends.
asio::awaitable<bool> HttpSession::serve_one() {
  HttpShared& shared = *loop_->shared;
  Parser parser;
  set_limits(parser, options());
  if (!co_await read_header(parser)) co_return false;

  shared.exchange_begins();
  reading_body_ = true;
  const std::size_t reserved = parser.content_length().value_or(parser.is_done() ? 0 : options().max_body_bytes);
  const bool again = co_await read_body_and_answer(parser, reserved);
  reading_body_ = false;
  answer_.reset();
  shared.exchange_ends();
  co_return again && !shared.draining;
}

HttpSession::Failure HttpSession::parse(Parser& parser) {
  return parse_some(parser, buffer_);
}

asio::awaitable<bool> HttpSession::read_header(Parser& parser) {
  if (buffer_.size() == 0) {
    const bool handshake = socket_.is_tls() && !began_;
    const auto until = Clock::now() + (handshake ? options().header_timeout : options().idle_timeout);
    const Failure failure = co_await socket_.read(buffer_, until);
    if (failure) co_return false;
    began_ = true;
  }
  started_ = options().now();
  const auto until = Clock::now() + options().header_timeout;
  for (;;) {
    if (const Failure failure = parse(parser); failure) {
      co_await refuse(failure, parser);
      co_return false;
    }
    if (parser.is_header_done()) co_return true;
    const Failure failure = co_await socket_.read(buffer_, until);
    if (failure) co_return false;
  }
}

asio::awaitable<bool> HttpSession::read_body_and_answer(Parser& parser, std::size_t reserved) {
  HttpShared& shared = *loop_->shared;
  if (!has_known_coding(parser)) {
    const ApiError unknown{400, "malformed HTTP request: expected Transfer-Encoding: chunked, or none", "", ""};
    co_await refuse_with(unknown, parser);
    co_return false;
  }
  if (reserved > options().max_body_bytes) {
    co_await refuse(make_error_code(http::error::body_limit), parser);
    co_return false;
  }
  if (shared.bodies_bytes.fetch_add(reserved) + reserved > options().max_bodies_bytes) {
    shared.bodies_bytes -= reserved;
    ++shared.refused_bodies;
    const ApiError busy{503, "the server holds too many request bodies; try again", "", "unavailable"};
    co_await refuse_with(busy, parser);
    co_return false;
  }
  const bool whole = co_await read_body(parser);
  shared.bodies_bytes -= reserved;
  if (!whole) co_return false;
  if (!has_its_host(parser)) {
    const ApiError no_host{400, "malformed HTTP request: expected one header Host", "", ""};
    co_await refuse_with(no_host, parser);
    co_return false;
  }
  const std::size_t held = parser.get().body().size();
  shared.bodies_bytes += held;
  const bool again = co_await answer(parser);
  shared.bodies_bytes -= held;
  co_return again;
}

asio::awaitable<bool> HttpSession::read_body(Parser& parser) {
  if (const auto expect = parser.get().find(http::field::expect); expect != parser.get().end() && !parser.is_done()) {
    if (!boost::beast::iequals(expect->value(), "100-continue")) {
      const ApiError unknown{417, "the header Expect is understood as 100-continue only", "", ""};
      co_await refuse_with(unknown, parser);
      co_return false;
    }
    HttpRequest request;
    if (const std::optional<ApiError> refusal = check_header(parser, request)) {
      co_await refuse_with(*refusal, parser);
      co_return false;
    }
    socket_.add(kContinue);
    const Failure failure = co_await socket_.write(options().write_timeout);
    if (failure) co_return false;
  }
  const auto until = Clock::now() + options().body_timeout;
  while (!parser.is_done()) {
    if (const Failure failure = parse(parser); failure) {
      co_await refuse(failure, parser);
      co_return false;
    }
    if (parser.is_done()) break;
    const Failure failure = co_await socket_.read(buffer_, until);
    if (failure) co_return false;
  }
  co_return true;
}

// RFC 9110 10.1.1: what the header decides is answered before a client sends the body for nothing.
std::optional<ApiError> HttpSession::check_header(Parser& parser, HttpRequest& request) const {
  request.method = std::string(parser.get().method_string());
  read_target_and_header(parser.get(), request);
  return options().check_header ? options().check_header(request) : std::nullopt;
}

// Answers a request that could not be read, where an answer makes sense, and ends the connection.
asio::awaitable<void> HttpSession::refuse(Failure failure, Parser& parser) {
  const ApiError error = protocol_error(failure, options());
  if (error.status != 0) co_await refuse_with(error, parser);
}

asio::awaitable<void> HttpSession::refuse_with(const ApiError& error, Parser& parser) {
  const HttpResponse response = error_response(error);
  HttpRequest request;
  // A body that says it is too long ends the parser before the header counts as done.
  const bool has_header = !parser.get().target().empty();
  if (has_header) check_header(parser, request);
  if (request.record.id.empty()) request.record.id = random_id("req-");
  const HttpFraming framing{.keep_alive = false,
                            .content_length = response.body.size(),
                            .allow_origin = request.allow_origin,
                            .request_id = request.record.id};
  socket_.take_bytes_sent();
  socket_.add(response_head(response, framing) + response.body);
  const Failure failure = co_await socket_.write(options().write_timeout);
  HttpSummary summary;
  if (has_header) {
    summary.method = std::string(parser.get().method_string());
    summary.path = request.path;
  }
  summary.record = std::move(request.record);
  report(std::move(summary), error.status, static_cast<bool>(failure));
  if (!failure) co_await linger();
}

// Closing while the client still sends would reset the connection, and the client might never read the answer.
asio::awaitable<void> HttpSession::linger() {
  socket_.end_sending();
  const auto until = Clock::now() + kLingerTimeout;
  for (std::size_t total = 0; total < kMaxLingerBytes && !loop_->shared->draining;) {
    buffer_.consume(buffer_.size());
    const Failure failure = co_await socket_.read(buffer_, until);
    if (failure) co_return;
    total += buffer_.size();
  }
}

asio::awaitable<bool> HttpSession::answer(Parser& parser) {
  auto& message = parser.get();
  answer_ = std::make_shared<HttpLiveAnswer>();
  HttpLiveAnswer& answer = *answer_;
  answer.session = weak_from_this();
  answer.keep_alive = message.keep_alive() && !loop_->shared->draining;
  answer.chunked = message.version() >= 11;
  answer.head_only = message.method() == http::verb::head;
  answer.request.method = std::string(message.method_string());
  read_target_and_header(message, answer.request);
  answer.request.received = started_;
  answer.request.body = std::move(message.body());
  answer.request.record.received = started_;

  HttpSummary summary;
  summary.method = answer.request.method;
  summary.path = answer.request.path;
  summary.request_bytes = answer.request.body.size();
  socket_.take_bytes_sent();
  peer_gone_ = false;
  watch_peer();
  loop_->shared->handler(make_http_exchange(loop_, answer_));
  const bool complete = co_await write_answer(answer);

  watching_ = false;
  unread_since_ = {};
  socket_.cancel();
  answer.session.reset();
  answer.timer.reset();
  // All closures may hold the exchange, which holds this answer.
  answer.backlog = nullptr;
  const auto gone = std::exchange(answer.gone, nullptr);
  if (!complete && gone) gone();  // `gone` records how the request ended
  summary.record = answer.request.record;
  report(std::move(summary), answer.status, !complete);
  co_return complete&& answer.keep_alive;
}

void HttpSession::changed() {
  HttpLiveAnswer& answer = *answer_;
  if (!answer.out.empty()) {
    socket_.add(answer.out);
    answer.out.clear();
    if (!blocked_ && socket_.write_now()) peer_gone_ = true;
    watch_unread();
  }
  if (peer_gone_ || answer.finished || answer.broken || socket_.unsent() > 0) wake();
}

// A client has caught up once half of the allowed bytes are free, so that a stream does not stop and go with every
// piece.
void HttpSession::watch_unread() {
  const bool was_full = unread_since_ != Clock::time_point();
  const std::size_t behind = socket_.behind();
  if (!was_full && behind > options().max_unread_bytes) {
    unread_since_ = Clock::now();
    if (answer_->backlog) answer_->backlog(true);
  } else if (was_full && (socket_.unsent() == 0 || behind <= options().max_unread_bytes / 2)) {
    unread_since_ = {};
    if (answer_->backlog) answer_->backlog(false);
  }
  if (answer_->finished || answer_->backlog || socket_.unsent() <= kMostUnread * options().max_unread_bytes) return;
  if (answer_->status != 0 && !answer_->filler.empty()) lose_peer();
}

// True when the answer was written to its end.
asio::awaitable<bool> HttpSession::write_answer(HttpLiveAnswer& answer) {
  for (;;) {
    changed();
    if (peer_gone_ || aborted_) co_return false;
    if (socket_.unsent() > 0) {
      const bool is_slow = unread_since_ != Clock::time_point();
      const auto until = (is_slow ? unread_since_ : Clock::now()) + options().write_timeout;
      blocked_ = true;
      const Failure failure = co_await socket_.write_more(until);
      blocked_ = false;
      if (failure == asio::error::timed_out) ++loop_->shared->cut_unread;
      if (failure) co_return false;
      watch_unread();
    } else if (answer.finished) {
      co_return true;
    } else if (answer.broken) {
      co_return false;
    } else {
      wake_.expires_at(asio::steady_timer::time_point::max());
      co_await wake_.async_wait(HttpSocket::kAwait);
    }
  }
}

// While an answer is under way nothing reads the connection; this notices that the client closed it or its half of it,
// and keeps what it sent ahead for later.
void HttpSession::watch_peer() {
  watching_ = true;
  socket_.stream().async_wait(HttpSocket::Stream::wait_read, [self = shared_from_this()](Failure failure) {
    if (!failure && self->watching_) self->peer_is_readable();
  });
}

void HttpSession::peer_is_readable() {
  const Failure failure = socket_.read_now(buffer_);
  if (failure == asio::error::eof) {
    watch_for_reset();
    answer_->knock();
    changed();
  } else if ((failure && failure != asio::error::would_block) || buffer_.size() > kMaxPipelinedBytes) {
    lose_peer();
  } else {
    watch_peer();
  }
}

// Watches a connection whose other half is closed: everything is readable then, and nothing but a reset is news.
void HttpSession::watch_for_reset() {
  socket_.stream().async_wait(HttpSocket::Stream::wait_error, [self = shared_from_this()](Failure failure) {
    if (!failure && self->watching_) self->lose_peer();
  });
}

void HttpSession::lose_peer() {
  peer_gone_ = true;
  socket_.cancel();  // ends a write that waits for the client
  wake();
}

void HttpSession::report(HttpSummary summary, int status, bool disconnected) {
  summary.peer = peer_;
  summary.status = status != 0 ? status : kClientLeft;
  summary.response_bytes = socket_.take_bytes_sent();
  summary.seconds = std::chrono::duration<double>(options().now() - started_).count();
  summary.disconnected = disconnected;
  if (loop_->shared->observer) loop_->shared->observer(summary);
}

}  // namespace sluice

// NOLINTEND(bugprone-unused-return-value)
