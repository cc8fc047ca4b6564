// Used by serve/server.cc.
#include "serve/guard/access.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace sluice {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// "localhost:8000" -> "localhost", "[::1]:8000" -> "::1"
std::string host_name(std::string_view host) {
  if (host.starts_with('[')) return lower(host.substr(1, std::min(host.find(']'), host.size()) - 1));
  return lower(host.substr(0, host.find(':')));
}

std::string_view after_scheme(std::string_view origin) {
  const std::size_t scheme = origin.find("://");
  return scheme == std::string_view::npos ? std::string_view() : origin.substr(scheme + 3);
}

bool is_address(const std::string& name) {
  in6_addr address{};
  return inet_pton(AF_INET, name.c_str(), &address) == 1 || inet_pton(AF_INET6, name.c_str(), &address) == 1;
}

bool is_loopback_name(const std::string& name) {
  return name == "localhost" || name.ends_with(".localhost") || name == "::1" ||
         (name.starts_with("127.") && is_address(name));
}

enum class Needs { kNothing, kKey, kAdmin };

Needs needs_of(std::string_view path) {
  // The page asks for the key itself, so it has to be there without one.
  if (path == "/" || path.starts_with("/page/") || path == "/health" || path.starts_with("/health/")) {
    return Needs::kNothing;
  }
  return path.starts_with("/debug/") || path.starts_with("/v1/weights/") ? Needs::kAdmin : Needs::kKey;
}

// Returns the secret that is presented as a key; "" for nothing.
std::string_view secret_of(const HttpRequest& request) {
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view authorization = request.header("authorization");
  if (lower(authorization.substr(0, kScheme.size())) == kScheme) return authorization.substr(kScheme.size());
  return request.header("x-api-key");
}

ApiError refusal(std::string message, std::string code) {
  return {403, std::move(message), "", std::move(code)};
}

}  // namespace

bool Access::allows_origin(std::string_view origin) const {
  return std::ranges::any_of(
      origins_, [&](const std::string& allowed) { return allowed == "*" || lower(allowed) == lower(origin); });
}

bool Access::is_own_host(std::string_view host) const {
  const std::string name = host_name(host);
  return is_loopback_name(name) || (!is_loopback_ && is_address(name)) ||
         std::ranges::any_of(hosts_, [&](const std::string& own) { return name == lower(own); });
}

std::optional<ApiError> Access::check(HttpRequest& request) const {
  const bool is_own = is_own_host(request.host);
  const bool is_allowed_host = std::ranges::any_of(origins_, [&](const std::string& origin) {
    return origin == "*" || host_name(after_scheme(origin)) == host_name(request.host);
  });
  if (is_loopback_ && !request.host.empty() && !is_own && !is_allowed_host) {
    return refusal(fmt::format("the header Host names another server, {}; a page's address there is allowed by "
                               "--cors-origin",
                               host_name(request.host).substr(0, 100)),
                   "host_not_allowed");
  }
  if (request.origin.empty()) return std::nullopt;
  if (allows_origin(request.origin)) {
    request.allow_origin = request.origin;
    return std::nullopt;
  }
  if (is_own && lower(after_scheme(request.origin)) == lower(request.host)) return std::nullopt;
  return refusal(
      fmt::format("pages of the origin {} may not use this server; start it with --cors-origin ORIGIN to allow it",
                  request.origin.substr(0, 100)),
      "origin_not_allowed");
}

std::optional<ApiError> Access::check_key(HttpRequest& request) const {
  const std::shared_ptr<const ApiKeys> keys = keys_;
  const Needs needs = needs_of(request.path);
  if (!keys->any() || needs == Needs::kNothing) return std::nullopt;
  const std::string_view secret = secret_of(request);
  const ApiKey* key = secret.empty() ? nullptr : keys->find(secret);
  if (key != nullptr) {
    request.record.key = key->name;
    request.is_admin = key->is_admin;
  }
  if (needs == Needs::kKey && !keys->any_for_users()) return std::nullopt;
  if (secret.empty()) {
    return ApiError{401, "an API key is needed: send it as Authorization: Bearer KEY, or as x-api-key: KEY", "",
                    "missing_api_key"};
  }
  if (key == nullptr) return ApiError{401, "this API key is not one of the server's", "", "invalid_api_key"};
  if (needs == Needs::kAdmin && keys->any_for_admins() && !key->is_admin) {
    return refusal("this path is for keys of administrators", "admin_key_needed");
  }
  return std::nullopt;
}

bool Access::is_preflight(const HttpRequest& request) {
  return request.method == "OPTIONS" && !request.allow_origin.empty() && request.is_preflight;
}

HttpResponse Access::preflight_answer(const HttpRequest& request) {
  HttpResponse response;
  response.content_type = "text/plain";
  response.allow_methods = "GET, POST, OPTIONS";
  response.allow_headers = request.requested_headers;
  return response;
}

}  // namespace sluice
