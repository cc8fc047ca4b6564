// Used by serve/server.cc.
#include "serve/http/http_router.h"

#include <fmt/format.h>

#include <utility>

#include "base/utf8.h"
#include "serve/api/api_error.h"

namespace sluice {
namespace {

// A request's own text, short and printable enough for a message.
std::string in_quotes(std::string_view text) {
  std::string out = "'";
  append_lossy_utf8(text.substr(0, 200), out);
  return out + "'";
}

}  // namespace

bool Router::Route::matches(std::string_view request_path) const {
  if (!path.ends_with("/*")) return path == request_path;
  const std::string_view prefix = std::string_view(path).substr(0, path.size() - 1);
  return request_path.starts_with(prefix) && request_path.size() > prefix.size();
}

void Router::add(std::string method, std::string path, HttpHandler handler) {
  routes_.push_back({std::move(method), std::move(path), std::move(handler)});
}

void Router::route(const HttpExchangePtr& exchange) const {
  const HttpRequest& request = exchange->request();
  const std::string_view method = request.method == "HEAD" ? "GET" : std::string_view(request.method);
  std::string allowed;
  for (const Route& route : routes_) {
    if (!route.matches(request.path)) continue;
    if (route.method == method) return route.handler(exchange);
    allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", route.method);
  }
  if (allowed.empty()) {
    const std::string_view meant = meant_by(request.path);
    const std::string hint = meant.empty() ? "" : fmt::format("; did you mean {}?", meant);
    return exchange->respond(
        error_response({404, fmt::format("no such path: {}{}", in_quotes(request.path), hint), "", "not_found"}));
  }
  HttpResponse response = error_response(
      {405,
       fmt::format("{}: expected method {}, found {}", in_quotes(request.path), allowed, in_quotes(request.method)), "",
       "method_not_allowed"});
  response.allow = allowed;
  exchange->respond(std::move(response));
}

std::string_view Router::meant_by(std::string_view path) const {
  std::string_view longest, shortest;  // at the end of `path`; that end with it
  for (const Route& route : routes_) {
    if (route.path.size() <= 1 || route.path.ends_with('*')) continue;
    if (path.ends_with(route.path) && route.path.size() > longest.size()) longest = route.path;
    const bool is_shorter = shortest.empty() || route.path.size() < shortest.size();
    if (path.size() > 1 && is_shorter && route.path.ends_with(path)) shortest = route.path;
  }
  return longest.empty() ? shortest : longest;
}

std::string_view Router::route_of(std::string_view path) const {
  for (const Route& route : routes_) {
    if (route.matches(path)) return route.path;
  }
  return "other";
}

}  // namespace sluice
