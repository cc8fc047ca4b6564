// Access: which requests a server answers, by the Host that they name, the Origin that they come from, and their API
// key.
//
// A page of any origin can make a browser send requests to this machine. If the owner of its name later points that
// name here (DNS rebinding), they look like requests to the page's own server. So:
// - On a loopback address the Host must be a loopback address, localhost, what --host says, or the host of an allowed
//   origin. On other addresses any Host is accepted, except in requests with an Origin.
// - A request with an Origin is answered if that is allowed, or if it is the server's own: the request's Host, which
//   must be an address, localhost or what --host says, because no page can give another machine one of these names.
// - Allowed origins get the headers that let their pages read the answers, and answers to preflights.
// - Where there are keys, every request has one, `Authorization: Bearer KEY` or `x-api-key: KEY`, but for health checks
//   and for the page; /debug and /v1/weights want an admin's key where there are any of these.
// Thread safety: const after it is made, but for set_keys(), which may be called at any time.
// Used by serve/server.cc.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api/api_error.h"
#include "serve/guard/api_keys.h"
#include "serve/http/http.h"

namespace sluice {

class Access {
 public:
  // `hosts`: what --host says. `origins`: "https://chat.example", or "*" for all.
  Access(std::vector<std::string> hosts, std::vector<std::string> origins)
      : hosts_(std::move(hosts)), origins_(std::move(origins)), keys_(std::make_shared<const ApiKeys>()) {}

  void set_loopback(bool listens_on_loopback) { is_loopback_ = listens_on_loopback; }

  void set_keys(ApiKeys keys) { keys_ = std::make_shared<const ApiKeys>(std::move(keys)); }
  std::shared_ptr<const ApiKeys> keys() const { return keys_; }

  // Why the request is refused, if it is. Sets request.allow_origin for the answer.
  std::optional<ApiError> check(HttpRequest& request) const;
  // The same by its key. Sets request.record.key and is_admin.
  std::optional<ApiError> check_key(HttpRequest& request) const;
  // Returns whether it asks what a request of another origin may do.
  static bool is_preflight(const HttpRequest& request);
  static HttpResponse preflight_answer(const HttpRequest& request);

 private:
  bool allows_origin(std::string_view origin) const;
  bool is_own_host(std::string_view host) const;

  std::vector<std::string> hosts_;
  std::vector<std::string> origins_;
  bool is_loopback_ = true;
  std::atomic<std::shared_ptr<const ApiKeys>> keys_;
};

}  // namespace sluice
