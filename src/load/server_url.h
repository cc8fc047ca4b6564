// ServerUrl: where a server is, as a user types it: "http://127.0.0.1:8000", "http://host:8000/v1", "host:8000".
// Thread safety: plain values.
#pragma once

#include <string>
#include <string_view>

#include "sluice/status.h"

namespace sluice {

struct ServerUrl {
  std::string host;    // a name or an address, without the brackets of IPv6
  std::string port;    // a number; by default 80
  std::string prefix;  // before /v1 in every path: "" or "/proxy"

  std::string authority() const;  // of the header Host: "host:8000", "[::1]:8000"
};

// A path may end in /v1, as the base URL of OpenAI's clients does. Fails for other schemes (https: this client speaks
// no TLS), user names, queries and ports that are none.
Result<ServerUrl> parse_server_url(std::string_view text);

}  // namespace sluice
