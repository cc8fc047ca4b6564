// Router: from method and path to an endpoint. Unknown paths are 404, known ones with another method 405.
// Thread safety: const after it is made.
// Used by serve/server.cc.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http/http.h"

namespace sluice {

class Router {
 public:
  // A path that ends in "/*" stands for everything below it. HEAD is answered as GET.
  void add(std::string method, std::string path, HttpHandler handler);

  void route(const HttpExchangePtr& exchange) const;
  // The path of the route that a request's path belongs to, "other" if none: a label with few values.
  std::string_view route_of(std::string_view path) const;
  // The path that was probably meant: "/v1/v1/models" and "/models" are "/v1/models". "" without a likely one.
  std::string_view meant_by(std::string_view path) const;

 private:
  struct Route {
    std::string method, path;
    HttpHandler handler;
    bool matches(std::string_view request_path) const;
  };
  std::vector<Route> routes_;
};

}  // namespace sluice
