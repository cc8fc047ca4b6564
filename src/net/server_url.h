// ServerUrl: where a server is, as a user types it: "http://127.0.0.1:8000", "https://host/v1", "host:8000".
// Thread safety: plain values.
// Used by http_client.h, hub/hub_name.h and hub/hub_settings.h.
#pragma once

#include <string>
#include <string_view>

#include "sluice/status.h"

namespace sluice {

struct ServerUrl {
  std::string host;    // a name or an address, without the brackets of IPv6
  std::string port;    // a number; by default 80, with TLS 443
  std::string prefix;  // before /v1 in every path: "" or "/proxy"
  bool tls = false;    // https

  std::string authority() const;  // the header Host: "host:8000", "[::1]:8000"
};

// A path may end in /v1, as the base URL of OpenAI's clients does. Fails for other schemes, user names, queries
// and ports that are none.
Result<ServerUrl> parse_server_url(std::string_view text);

}  // namespace sluice
