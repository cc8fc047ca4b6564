// The addresses and sockets that a server listens on, for http_server.cc alone, which sees the network library.
// Used by http_server.cc.
#pragma once

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/http/http_server.h"
#include "sluice/status.h"

// Calls with an error_code to fill return it too.
// NOLINTBEGIN(bugprone-unused-return-value)

namespace sluice {

// The addresses of one server. Local sockets are removed at the end.
struct HttpListeners {
  std::vector<boost::asio::ip::tcp::acceptor> tcp;
  std::vector<boost::asio::local::stream_protocol::acceptor> local;
  std::vector<std::string> paths;  // the paths of `local`

  void close() {
    boost::system::error_code ignored;
    for (auto& acceptor : tcp) acceptor.close(ignored);
    for (auto& acceptor : local) acceptor.close(ignored);
    for (const std::string& path : std::exchange(paths, {})) ::unlink(path.c_str());
  }
  int port() const { return tcp.empty() ? 0 : tcp.front().local_endpoint().port(); }
  bool is_loopback() const {
    return std::ranges::all_of(tcp, [](const auto& a) { return a.local_endpoint().address().is_loopback(); });
  }
};

inline constexpr std::string_view kUnixPrefix = "unix:";

inline Status listen_failure(const std::string& where, const boost::system::error_code& failure) {
  if (failure == boost::asio::error::address_in_use) {
    return unavailable(fmt::format(
        "cannot listen on {}: the address is in use; stop the other program or choose another --port (0: any)", where));
  }
  return invalid_argument(fmt::format("cannot listen on {}: {}; --host takes an address or a name of this machine",
                                      where, failure.message()));
}

// A socket that an ended server has left is replaced; one that a server answers is not.
inline Status listen_local(boost::asio::io_context& io, const std::string& path, bool only_bind,
                           HttpListeners& listeners) {
  using Local = boost::asio::local::stream_protocol;
  constexpr std::size_t kMaxPathBytes = 107;
  if (path.empty() || path.size() > kMaxPathBytes) {
    return invalid_argument(fmt::format("--host unix:PATH: expected a path of 1 to {} bytes, found {}", kMaxPathBytes,
                                        path.empty() ? "none" : path));
  }
  boost::system::error_code failure;
  struct stat found{};
  if (::lstat(path.c_str(), &found) == 0 && S_ISSOCK(found.st_mode)) {
    Local::socket probe(io);
    probe.connect(Local::endpoint(path), failure);
    if (!failure) return listen_failure("unix:" + path, boost::asio::error::address_in_use);
    ::unlink(path.c_str());
    failure = {};
  }
  Local::acceptor acceptor(io);
  acceptor.open(Local(), failure);
  if (!failure) acceptor.bind(Local::endpoint(path), failure);
  if (!failure && !only_bind) acceptor.listen(boost::asio::socket_base::max_listen_connections, failure);
  if (failure) return listen_failure("unix:" + path, failure);
  listeners.local.push_back(std::move(acceptor));
  listeners.paths.push_back(path);
  return {};
}

inline boost::system::error_code listen(boost::asio::ip::tcp::acceptor& acceptor,
                                        const boost::asio::ip::tcp::endpoint& endpoint, bool only_v6, bool only_bind) {
  boost::system::error_code failure;
  acceptor.open(endpoint.protocol(), failure);
  if (!failure) acceptor.set_option(boost::asio::ip::tcp::acceptor::reuse_address(true), failure);
  if (!failure && only_v6 && endpoint.address().is_v6()) acceptor.set_option(boost::asio::ip::v6_only(true), failure);
  if (!failure) acceptor.bind(endpoint, failure);
  if (!failure && !only_bind) acceptor.listen(boost::asio::socket_base::max_listen_connections, failure);
  return failure;
}

// Listens on every address of every host, all with the same port; skips the address families of a host that this
// machine lacks. An address of version 6 takes those of version 4 too (::) unless it shares the port with one.
// only_bind: takes the addresses only, so that no client can connect.
inline Status listen(boost::asio::io_context& io, const HttpServerOptions& options, bool only_bind,
                     HttpListeners& listeners) {
  using Endpoint = boost::asio::ip::tcp::endpoint;
  std::vector<std::pair<std::string, std::vector<Endpoint>>> hosts;
  std::vector<Endpoint> all;
  boost::asio::ip::tcp::resolver resolver(io);
  for (const std::string& host : options.hosts) {
    if (host.starts_with(kUnixPrefix)) {
      SLUICE_RETURN_IF_ERROR(listen_local(io, host.substr(kUnixPrefix.size()), only_bind, listeners));
      continue;
    }
    auto& endpoints = hosts.emplace_back(host, std::vector<Endpoint>()).second;
    const auto add = [&](const Endpoint& endpoint) {
      if (std::ranges::find(all, endpoint) != all.end()) return;
      endpoints.push_back(endpoint);
      all.push_back(endpoint);
    };
    // Both, whatever the machine's table of names says: clients differ in which one they try.
    if (host == "localhost") {
      add({boost::asio::ip::address_v4::loopback(), static_cast<unsigned short>(options.port)});
      add({boost::asio::ip::address_v6::loopback(), static_cast<unsigned short>(options.port)});
      continue;
    }
    boost::system::error_code failure;
    const auto found =
        resolver.resolve(host, std::to_string(options.port), boost::asio::ip::tcp::resolver::passive, failure);
    if (failure) return listen_failure(fmt::format("{}:{}", host, options.port), failure);
    for (const auto& entry : found) add(entry.endpoint());
  }
  for (const auto& [host, endpoints] : hosts) {
    boost::system::error_code last;
    bool any = endpoints.empty();
    for (Endpoint endpoint : endpoints) {
      if (!listeners.tcp.empty()) endpoint.port(listeners.tcp.front().local_endpoint().port());
      boost::asio::ip::tcp::acceptor acceptor(io);
      const boost::system::error_code failure = listen(acceptor, endpoint, all.size() > 1, only_bind);
      if (failure == boost::asio::error::address_in_use) {
        return listen_failure(fmt::format("{}:{}", host, options.port), failure);
      }
      if (failure) {
        last = failure;
      } else {
        any = true;
        listeners.tcp.push_back(std::move(acceptor));
      }
    }
    if (!any) return listen_failure(fmt::format("{}:{}", host, options.port), last);
  }
  return {};
}

}  // namespace sluice

// NOLINTEND(bugprone-unused-return-value)
