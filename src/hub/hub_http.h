// HubHttp: one GET at a time, redirects followed. The token goes to the endpoint alone, never along a redirect to
// another host. Connections are kept and used again. Nothing that a server answers can do more than make it fail.
// Thread safety: one thread.
// Used by download.h, hub_answers.cc, pull.cc and repository.h.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "hub/hub_name.h"
#include "hub/hub_settings.h"
#include "net/http_client.h"
#include "sluice/status.h"

namespace sluice {

struct HubGet {
  WebAddress from = {};
  std::string range = {};             // "bytes=0-99"; "": the whole
  std::size_t most_bytes = 64 << 10;  // the longest body that is kept
  // Both for answers with 200 and 206, whose body is then not kept. A failure ends the request.
  std::function<Status(const HttpHead& head)> on_head = {};
  std::function<Status(std::string_view bytes)> on_body = {};
};

struct HubAnswer {
  Status failure = {};   // why there is no whole answer; it may be a failure of on_head or on_body
  bool passing = false;  // another try may succeed
  HttpHead head = {};    // the last answer's; status 0: none
  std::string body = {};
  WebAddress place = {};  // where redirects led to
};

class HubHttp {
 public:
  explicit HubHttp(const HubSettings& settings) : settings_(settings) {}

  HubAnswer get(const HubGet& request);

 private:
  HubAnswer get_once(const HubGet& request, const WebAddress& place);
  Result<HttpClient*> client_of(const ServerUrl& server);

  const HubSettings& settings_;
  std::map<std::string, std::unique_ptr<HttpClient>> clients_;  // by scheme, host and port
};

// Returns the seconds to wait after this number of failures in a row.
double back_off_seconds(int failures);

// Tries a request again while its failures may pass.
class HubRetries {
 public:
  // After a failure that may pass: waits, as long as the server asks for or longer after each failure, and returns ok.
  // Else, or after too many, returns the failure. `progress`: bytes came, which makes it the first failure again.
  Status wait(const HubAnswer& answer, const Status& failure, bool progress);

 private:
  int failures_ = 0, all_ = 0;
};

// Says in words for the user why an answer has no file of this model; ok for 200 and 206.
Status explain_answer(const HubAnswer& answer, const HubName& name, const HubSettings& settings);

}  // namespace sluice
