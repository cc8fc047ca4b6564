// The only file of this layer that includes Beast, which takes long to compile, except for asio_compiled.cc.
// Used by hub/hub_http.h, loadgen/answer_reader.h and loadgen/load_run.h.
#define BOOST_ASIO_SEPARATE_COMPILATION
#define BOOST_BEAST_SEPARATE_COMPILATION

#include "net/http_client.h"

#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "net/tls.h"

// Calls with an error_code to fill return it too.
// NOLINTBEGIN(bugprone-unused-return-value)

namespace sluice {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);  // failures come as values, not as exceptions
constexpr std::size_t kReadBytes = 64 << 10;
constexpr std::uint32_t kMostHeaderBytes = 64 << 10;

using Parser = http::response_parser<http::buffer_body>;

struct Connection {
  explicit Connection(asio::io_context& io) : stream(io) {}

  asio::awaitable<error_code> write(std::string_view bytes) {
    if (tls && !tls->send(bytes)) co_return asio::error::connection_aborted;
    if (tls) tls->take(out);
    const asio::const_buffer sending = tls ? asio::buffer(std::as_const(out)) : asio::buffer(bytes);
    if (sending.size() == 0) co_return error_code();
    const auto [error, sent] = co_await asio::async_write(stream, sending, kAwait);
    out.clear();
    co_return error;
  }

  // Something more in the buffer.
  asio::awaitable<error_code> read() {
    for (;;) {
      if (most_silence.count() > 0) stream.expires_after(most_silence);
      const auto space = buffer.prepare(kReadBytes);
      const auto [error, got] = co_await stream.async_read_some(space, kAwait);
      if (error) co_return error;
      if (!tls) {
        buffer.commit(got);
        co_return error;
      }
      plain.clear();
      const bool sound = tls->receive({static_cast<const char*>(space.data()), got}, plain);
      if (const error_code answered = co_await write({}); answered || !sound)
        co_return answered ? answered : asio::error::connection_aborted;
      std::memcpy(buffer.prepare(plain.size()).data(), plain.data(), plain.size());
      buffer.commit(plain.size());
      if (!plain.empty()) co_return error_code();
      if (tls->ended()) co_return asio::error::eof;
      if (shaking_hands && tls->ready()) co_return error_code();
    }
  }

  asio::awaitable<error_code> shake_hands(const TlsConfig& config, const std::string& host) {
    tls = std::make_unique<TlsStream>(config, host);
    shaking_hands = true;
    error_code error = co_await write({});
    if (!error) error = co_await read();
    shaking_hands = false;
    co_return error;
  }

  beast::tcp_stream stream;
  beast::flat_buffer buffer;
  std::unique_ptr<TlsStream> tls;
  std::string out, plain;  // for TLS: bytes to send; plain bytes just received
  std::chrono::milliseconds most_silence{0};
  bool shaking_hands = false;
  bool used = false;  // an answer came over this connection
};

// The end of one attempt.
struct Outcome {
  CallEnd end = CallEnd::kWhole;
  std::string reason;
  bool began = false;  // a byte of the answer has come
  bool keep = false;   // the connection may be used again
};

HttpHead head_of(const Parser& parser) {
  HttpHead head{.status = static_cast<int>(parser.get().result_int()), .fields = {}};
  for (const auto& field : parser.get()) head.fields.emplace_back(field.name_string(), field.value());
  return head;
}

Outcome failed(error_code error, CallEnd otherwise, bool began) {
  if (error == beast::error::timeout) return {CallEnd::kTimeout, "no end of the answer in time", began, false};
  if (error == asio::error::operation_aborted) return {CallEnd::kGivenUp, "given up", began, false};
  if (error == asio::error::eof || error == http::error::partial_message)
    return {CallEnd::kBroken, "the connection was closed before the answer's end", began, false};
  if (error.category() == http::make_error_code(http::error::bad_version).category())
    return {CallEnd::kMalformed, error.message(), began, false};
  return {otherwise, error.message(), began, false};
}

Outcome untrusted(const Connection& connection, error_code error, const std::string& advice) {
  if (connection.tls->failure().empty()) return failed(error, CallEnd::kConnect, false);
  return {CallEnd::kConnect, fmt::format("TLS: {} ({})", connection.tls->failure(), advice), false, false};
}

}  // namespace

struct HttpClient::Impl : std::enable_shared_from_this<HttpClient::Impl> {
  Impl(ServerUrl url, HttpClientOptions options) : url(std::move(url)), options(std::move(options)) {}

  std::string request_text(const HttpCall& call) const {
    const std::string origin = options.proxy && !url.tls ? "http://" + url.authority() : "";
    std::string text = fmt::format("{} {}{}{} HTTP/1.1\r\nHost: {}\r\nUser-Agent: {}\r\nAccept: */*\r\n", call.method,
                                   origin, url.prefix, call.path, url.authority(), options.agent);
    for (const auto& [name, value] : call.headers) text += fmt::format("{}: {}\r\n", name, value);
    if (!call.authorization.empty()) text += fmt::format("Authorization: {}\r\n", call.authorization);
    if (!call.body.empty())
      text += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", call.body.size());
    return text + "\r\n" + call.body;
  }

  asio::awaitable<void> exchange(HttpCall call, HttpEvents events) {
    const auto self = shared_from_this();
    const std::string text = request_text(call);
    const auto deadline = LoadClock::now() + std::chrono::duration_cast<LoadClock::duration>(
                                                 std::chrono::duration<double>(options.timeout_seconds));
    for (;;) {
      std::shared_ptr<Connection> connection;
      if (idle.empty()) {
        connection = std::make_shared<Connection>(io);
      } else {
        connection = std::move(idle.back());
        idle.pop_back();
      }
      connection->most_silence = std::chrono::milliseconds(static_cast<std::int64_t>(options.idle_seconds * 1000));
      if (options.idle_seconds > 0) {
        connection->stream.expires_after(connection->most_silence);
      } else {
        connection->stream.expires_at(deadline);
      }
      busy.push_back(connection);
      const bool reused = connection->used;
      const Outcome outcome = co_await attempt(*connection, text, events);
      std::erase(busy, connection);
      if (outcome.keep && !stopped) idle.push_back(connection);
      if (reused && !outcome.began && outcome.end == CallEnd::kBroken && !stopped) continue;
      events.on_end(stopped && outcome.end != CallEnd::kWhole ? CallEnd::kGivenUp : outcome.end, outcome.reason);
      co_return;
    }
  }

  asio::awaitable<Outcome> attempt(Connection& connection, const std::string& text, HttpEvents& events) {
    if (!connection.used) {
      const auto [error, endpoint] = co_await connection.stream.async_connect(addresses, kAwait);
      if (error) co_return failed(error, CallEnd::kConnect, false);
      if (config != nullptr) {
        if (options.proxy) {
          Outcome outcome = co_await open_tunnel(connection);
          if (outcome.end != CallEnd::kWhole) co_return outcome;
        }
        const error_code refused = co_await connection.shake_hands(*config, url.host);
        if (refused) co_return untrusted(connection, refused, options.trust_advice);
      }
      error_code ignored;
      connection.stream.socket().set_option(tcp::no_delay(true), ignored);
    }
    const error_code error = co_await connection.write(text);
    if (error) co_return failed(error, CallEnd::kBroken, false);
    co_return co_await read_answer(connection, events);
  }

  // Asks the proxy for a connection to the server.
  asio::awaitable<Outcome> open_tunnel(Connection& connection) {
    const std::string text = fmt::format("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n\r\n", url.authority());
    if (const error_code error = co_await connection.write(text)) co_return failed(error, CallEnd::kConnect, false);
    http::response_parser<http::empty_body> parser;
    parser.header_limit(kMostHeaderBytes);
    parser.skip(true);
    while (!parser.is_header_done()) {
      error_code error = co_await connection.read();
      if (error) co_return failed(error, CallEnd::kConnect, false);
      connection.buffer.consume(parser.put(connection.buffer.data(), error));
      if (error && error != http::error::need_more) co_return failed(error, CallEnd::kConnect, false);
    }
    const int status = parser.get().result_int();
    if (status / 100 == 2) co_return Outcome{};
    co_return Outcome{CallEnd::kConnect, fmt::format("the proxy {} answers {}", options.proxy->authority(), status)};
  }

  // Parses what the buffer has, or if that is not enough, reads more.
  static asio::awaitable<error_code> advance(Connection& connection, Parser& parser) {
    error_code error = http::error::need_more;
    if (connection.buffer.size() > 0) {
      const std::size_t used = parser.put(connection.buffer.data(), error);
      connection.buffer.consume(used);
      if (used > 0 && error == http::error::need_more) co_return error_code();
      if (error == http::error::need_buffer) co_return error_code();
    }
    if (error != http::error::need_more) co_return error;
    error = co_await connection.read();
    if (error != asio::error::eof || !parser.got_some()) co_return error;
    error = {};
    parser.put_eof(error);
    co_return error;
  }

  asio::awaitable<Outcome> read_answer(Connection& connection, HttpEvents& events) const {
    Parser parser;
    parser.header_limit(kMostHeaderBytes);
    parser.body_limit(boost::none);
    while (!parser.is_header_done()) {
      const error_code error = co_await advance(connection, parser);
      if (error) co_return failed(error, CallEnd::kBroken, parser.got_some());
    }
    const auto type = parser.get()[http::field::content_type];
    if (events.on_head) events.on_head(parser.get().result_int(), type.starts_with("text/event-stream"));
    if (events.on_fields) events.on_fields(head_of(parser));
    std::vector<char> bytes(kReadBytes);
    while (!parser.is_done()) {
      if (stopped) co_return Outcome{CallEnd::kGivenUp, "given up", true, false};
      auto& body = parser.get().body();
      body.data = bytes.data();
      body.size = bytes.size();
      const error_code error = co_await advance(connection, parser);
      if (const std::size_t got = bytes.size() - body.size; got > 0 && events.on_body)
        events.on_body({bytes.data(), got});
      if (error) co_return failed(error, CallEnd::kBroken, true);
    }
    connection.used = true;
    co_return Outcome{CallEnd::kWhole, "", true, parser.keep_alive()};
  }

  const ServerUrl url;
  const HttpClientOptions options;
  asio::io_context io{1};
  tcp::resolver::results_type addresses;
  std::shared_ptr<const TlsConfig> config;  // null: no TLS
  std::vector<std::shared_ptr<Connection>> idle, busy;
  std::vector<std::weak_ptr<asio::steady_timer>> timers;
  bool stopped = false;
};

std::string_view HttpHead::field(std::string_view name) const {
  for (const auto& [key, value] : fields) {
    if (beast::iequals(key, name)) return value;
  }
  return "";
}

HttpClient::HttpClient(ServerUrl url, HttpClientOptions options)
    : impl_(std::make_shared<Impl>(std::move(url), std::move(options))) {}
HttpClient::~HttpClient() = default;

Status HttpClient::resolve() {
  if (impl_->url.tls) {
    SLUICE_ASSIGN_OR_RETURN(impl_->config, TlsConfig::client(impl_->options.authorities, impl_->options.trust_all));
  }
  error_code error;
  tcp::resolver resolver(impl_->io);
  const ServerUrl& place = impl_->options.proxy ? *impl_->options.proxy : impl_->url;
  impl_->addresses = resolver.resolve(place.host, place.port, error);
  if (!error) return {};
  return unavailable(fmt::format("{}: no such host ({})", place.host, error.message()));
}

void HttpClient::send(HttpCall call, HttpEvents events) {
  asio::co_spawn(impl_->io, impl_->exchange(std::move(call), std::move(events)), asio::detached);
}

void HttpClient::at(LoadClock::time_point time, std::function<void()> task) {
  const auto timer = std::make_shared<asio::steady_timer>(impl_->io, time);
  std::erase_if(impl_->timers, [](const auto& old) { return old.expired(); });
  impl_->timers.push_back(timer);
  timer->async_wait([timer, task = std::move(task)](error_code error) {
    if (!error) task();
  });
}

void HttpClient::run() {
  impl_->io.restart();
  impl_->stopped = false;
  impl_->io.run();
}

void HttpClient::stop() {
  impl_->stopped = true;
  for (const auto& connection : impl_->busy) connection->stream.cancel();
  impl_->idle.clear();
  for (const auto& timer : impl_->timers) {
    if (const auto alive = timer.lock()) alive->cancel();
  }
}

}  // namespace sluice

// NOLINTEND(bugprone-unused-return-value)
