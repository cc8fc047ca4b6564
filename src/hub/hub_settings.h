// HubSettings: where models are fetched from, by which name, and where they are kept. The environment says it, in the
// variables of huggingface_hub, so that a machine that is set up for other tools needs nothing more.
//
//   HF_ENDPOINT                              https://huggingface.co
//   HF_TOKEN, or the token file              sent to the endpoint alone
//   HF_HUB_OFFLINE=1                         no request at all
//   HF_HUB_DOWNLOAD_TIMEOUT                  seconds of silence after which a connection is given up
//   HTTP_PROXY, HTTPS_PROXY, NO_PROXY        also in lower case
// Thread safety: plain values.
// Used by hub_http.h and pull.h.
#pragma once

#include <optional>
#include <string>

#include "net/server_url.h"
#include "sluice/status.h"

namespace sluice {

struct HubSettings {
  std::string endpoint = "https://huggingface.co";  // without a slash at its end
  ServerUrl endpoint_server = {};                   // the same, parsed
  std::string token = {};                           // "": none
  std::string folder = {};                          // the cache's
  std::string authorities = {};                     // certificates to trust in PEM; "": those of the system
  bool offline = false;
  double idle_seconds = 30;
  std::optional<ServerUrl> http_proxy = {}, https_proxy = {};
  std::string no_proxy = {};  // hosts and ends of hosts, split by commas; * for all

  // The proxy that requests to this server go through, if any.
  std::optional<ServerUrl> proxy_for(const ServerUrl& server) const;
  // Returns whether the server is the endpoint: the same scheme, host and port.
  bool is_endpoint(const ServerUrl& server) const;
};

// Reads the environment. Fails where a variable does not say what it should, by its name.
Result<HubSettings> read_hub_settings();

}  // namespace sluice
