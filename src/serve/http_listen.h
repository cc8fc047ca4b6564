// What a server listens on, for http_server.cc alone: the one file that sees the network library.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <string>
#include <utility>
#include <vector>

#include "serve/http_server.h"
#include "sluice/status.h"

// Calls with an error_code to fill return it too.
// NOLINTBEGIN(bugprone-unused-return-value)

namespace sluice {

inline boost::system::error_code listen(boost::asio::ip::tcp::acceptor& acceptor,
                                        const boost::asio::ip::tcp::endpoint& endpoint, bool only_v6) {
  boost::system::error_code failure;
  acceptor.open(endpoint.protocol(), failure);
  if (!failure) acceptor.set_option(boost::asio::ip::tcp::acceptor::reuse_address(true), failure);
  if (!failure && only_v6 && endpoint.address().is_v6()) acceptor.set_option(boost::asio::ip::v6_only(true), failure);
  if (!failure) acceptor.bind(endpoint, failure);
  if (!failure) acceptor.listen(boost::asio::socket_base::max_listen_connections, failure);
  return failure;
}

// Listens on every address of the host, all with the same port; skips address families that this machine lacks.
inline Status listen(boost::asio::io_context& io, const HttpServerOptions& options,
                     std::vector<boost::asio::ip::tcp::acceptor>& acceptors) {
  const auto fail = [&](const boost::system::error_code& failure) {
    const std::string where = fmt::format("cannot listen on {}:{}", options.host, options.port);
    if (failure == boost::asio::error::address_in_use) {
      return unavailable(where + ": the address is in use; stop the other program or choose another --port (0: any)");
    }
    return invalid_argument(fmt::format("{}: {}", where, failure.message()));
  };
  boost::system::error_code failure;
  boost::asio::ip::tcp::resolver resolver(io);
  const auto found =
      resolver.resolve(options.host, std::to_string(options.port), boost::asio::ip::tcp::resolver::passive, failure);
  if (failure) return fail(failure);
  std::vector<boost::asio::ip::tcp::endpoint> endpoints;
  for (const auto& entry : found) {
    if (std::ranges::find(endpoints, entry.endpoint()) == endpoints.end()) endpoints.push_back(entry.endpoint());
  }
  boost::system::error_code last;
  for (boost::asio::ip::tcp::endpoint endpoint : endpoints) {
    if (!acceptors.empty()) endpoint.port(acceptors.front().local_endpoint().port());
    boost::asio::ip::tcp::acceptor acceptor(io);
    const boost::system::error_code not_there = listen(acceptor, endpoint, endpoints.size() > 1);
    if (not_there == boost::asio::error::address_in_use) return fail(not_there);
    if (not_there) {
      last = not_there;
    } else {
      acceptors.push_back(std::move(acceptor));
    }
  }
  return acceptors.empty() ? fail(last) : Status();
}

}  // namespace sluice

// NOLINTEND(bugprone-unused-return-value)
