// HttpSocket: one connection's bytes, of TCP or a local socket, plain or in TLS, for http_server.cc alone, which sees
// the network library.
//
// Reads and writes are tried at once and wait only if the system has nothing, or no room. So most of a stream's pieces
// go out without a timer or a wait. Thread safety: its loop's thread.
// Used by http_session.h.
#pragma once

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/socket_base.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "net/tls.h"

// Calls with an error_code to fill return it too.
// NOLINTBEGIN(bugprone-unused-return-value)

namespace sluice {

class HttpSocket {
 public:
  using Stream = boost::asio::generic::stream_protocol::socket;
  using Failure = boost::system::error_code;
  using Time = std::chrono::steady_clock::time_point;
  static constexpr auto kAwait = boost::asio::as_tuple(boost::asio::use_awaitable);
  static constexpr std::size_t kReadBytes = 16 << 10;

  // `tls`: null for plain connections.
  HttpSocket(Stream stream, const std::shared_ptr<const TlsConfig>& tls)
      : stream_(std::move(stream)), timer_(stream_.get_executor()), config_(tls) {
    Failure ignored;
    stream_.non_blocking(true, ignored);
    if (tls != nullptr) tls_ = std::make_unique<TlsStream>(*tls);
  }

  bool is_tls() const { return tls_ != nullptr; }
  Stream& stream() { return stream_; }
  std::size_t unsent() const { return out_.size() - sent_; }

  // The system takes at most about this many bytes that the client has not read; by itself it would take some MiB.
  void limit_send_buffer(std::size_t bytes) {
    Failure ignored;
    // It doubles this, for what it needs itself.
    stream_.set_option(boost::asio::socket_base::send_buffer_size(static_cast<int>(bytes / 2)), ignored);
  }
  // Returns the bytes that the client has not taken, where that is more than the system takes; else 0.
  std::size_t behind() {
    int taken = 0;
    if (unsent() == 0 || ::ioctl(stream_.native_handle(), SIOCOUTQ, &taken) != 0) taken = 0;
    return unsent() + static_cast<std::size_t>(taken);
  }

  // Appends to `into` the bytes that have come; would_block if there are none, eof at the end.
  Failure read_now(boost::beast::flat_buffer& into) {
    Failure failure;
    std::array<char, kReadBytes> bytes;
    const std::size_t got = stream_.read_some(boost::asio::buffer(bytes), failure);
    if (failure == boost::asio::error::try_again) failure = boost::asio::error::would_block;
    if (failure) return failure;
    if (!tls_) return append(into, {bytes.data(), got});
    plain_.clear();
    const bool sound = tls_->receive({bytes.data(), got}, plain_);
    tls_->take(out_);
    if (write_now(); !sound) return boost::asio::error::connection_aborted;
    if (!plain_.empty()) return append(into, plain_);
    return tls_->ended() ? Failure(boost::asio::error::eof) : Failure(boost::asio::error::would_block);
  }

  // The same, waiting until something has come, or until `until`: timed_out.
  boost::asio::awaitable<Failure> read(boost::beast::flat_buffer& into, Time until) {
    constexpr int kReadsInARow = 16;  // reads in a row before others have their turn
    if (++reads_ % kReadsInARow == 0) co_await boost::asio::post(stream_.get_executor(), boost::asio::use_awaitable);
    for (;;) {
      const Failure failure = read_now(into);
      if (failure != boost::asio::error::would_block) co_return failure;
      const Failure waited = co_await wait(Stream::wait_read, until);
      if (waited) co_return waited;
    }
  }

  // To be sent; write_now() or write() does it.
  void add(std::string_view bytes) {
    if (tls_) {
      broken_ = !tls_->send(bytes) || broken_;
      tls_->take(out_);
    } else {
      out_ += bytes;
    }
  }

  // Sends what the system takes. An error: the connection is broken.
  Failure write_now() {
    Failure failure;
    while (sent_ < out_.size() && !failure) {
      const std::size_t sent =
          stream_.write_some(boost::asio::buffer(out_.data() + sent_, out_.size() - sent_), failure);
      sent_ += sent;
      bytes_sent_ += sent;
    }
    if (sent_ == out_.size()) {
      out_.clear();
      sent_ = 0;
      if (out_.capacity() > kKeptBytes) out_.shrink_to_fit();
    } else if (sent_ > out_.size() / 2) {
      out_.erase(0, std::exchange(sent_, 0));
    }
    if (failure == boost::asio::error::would_block || failure == boost::asio::error::try_again) failure = {};
    if (!failure && broken_) failure = boost::asio::error::connection_aborted;
    return failure;
  }

  // Sends everything; timed_out if the client takes nothing for `patience`.
  boost::asio::awaitable<Failure> write(std::chrono::milliseconds patience) {
    for (;;) {
      const Failure failure = write_now();
      if (failure || unsent() == 0) co_return failure;
      const Failure waited = co_await wait(Stream::wait_write, std::chrono::steady_clock::now() + patience);
      if (waited) co_return waited;
    }
  }

  // Sends some of it, as soon as that is possible; timed_out if it is not until then.
  boost::asio::awaitable<Failure> write_more(Time until) {
    const Failure waited = co_await wait(Stream::wait_write, until);
    if (waited) co_return waited;
    co_return write_now();
  }

  std::size_t take_bytes_sent() { return std::exchange(bytes_sent_, 0); }

  // No more comes from here; the other direction stays open.
  void end_sending() {
    if (tls_) {
      tls_->end();
      tls_->take(out_);
      write_now();
    }
    Failure ignored;
    stream_.shutdown(Stream::shutdown_send, ignored);
  }
  // Ends every wait.
  void cancel() {
    timer_.cancel();
    Failure ignored;
    if (stream_.is_open()) stream_.cancel(ignored);
  }
  void close() {
    cancel();
    Failure ignored;
    stream_.close(ignored);
  }

 private:
  static constexpr std::size_t kKeptBytes = 64 << 10;

  static Failure append(boost::beast::flat_buffer& into, std::string_view bytes) {
    std::memcpy(into.prepare(bytes.size()).data(), bytes.data(), bytes.size());
    into.commit(bytes.size());
    return {};
  }

  boost::asio::awaitable<Failure> wait(Stream::wait_type what, Time until) {
    auto state = std::make_shared<bool>(false);  // whether the time ran out; null once no caller waits
    timer_.expires_at(until);
    timer_.async_wait([this, weak = std::weak_ptr(state)](Failure failure) {
      const auto waiting = weak.lock();
      if (failure || waiting == nullptr) return;
      *waiting = true;
      Failure ignored;
      if (stream_.is_open()) stream_.cancel(ignored);
    });
    const auto [failure] = co_await stream_.async_wait(what, kAwait);
    const bool late = *state;
    state.reset();
    timer_.cancel();
    if (late) co_return boost::asio::error::timed_out;
    co_return failure;
  }

  Stream stream_;
  boost::asio::steady_timer timer_;
  std::shared_ptr<const TlsConfig> config_;
  std::unique_ptr<TlsStream> tls_;
  std::string out_, plain_;  // to be sent, in TLS if there is any; just received
  std::size_t sent_ = 0, bytes_sent_ = 0;
  int reads_ = 0;
  bool broken_ = false;
};

}  // namespace sluice

// NOLINTEND(bugprone-unused-return-value)
