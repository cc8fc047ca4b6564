// The page, for browsers.
#include <fmt/format.h>

#include <string>

#include "serve/api/endpoints.h"
#include "web_ui/web_ui.h"

namespace sluice {
namespace {

constexpr std::string_view kPagePath = "/page/";

void respond_with(const PageFile& file, const HttpExchangePtr& exchange) {
  const HttpRequest& request = exchange->request();
  HttpResponse response;
  const std::string tag = fmt::format("\"{}\"", file.tag);
  response.headers = fmt::format(
      "ETag: {}\r\nCache-Control: no-cache\r\nVary: Accept, Accept-Encoding\r\nContent-Security-Policy: {}\r\n"
      "X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n"
      "Cross-Origin-Opener-Policy: same-origin\r\nCross-Origin-Resource-Policy: same-origin\r\n",
      tag, kPagePolicy);
  response.content_type = content_type_of(file);
  if (request.header("if-none-match").find(tag) != std::string_view::npos) {
    response.status = 304;
  } else if (request.header("accept-encoding").find("gzip") != std::string_view::npos) {
    response.headers += "Content-Encoding: gzip\r\n";
    response.body = file.gzip;
  } else {
    response.body = file.plain;
  }
  exchange->respond(std::move(response));
}

}  // namespace

bool wants_page(const HttpRequest& request) {
  return request.header("accept").find("text/html") != std::string_view::npos;
}

void show_page(ApiContext& /*context*/, const HttpExchangePtr& exchange) {
  const std::string_view path = exchange->request().path;
  const PageFile* file = find_page_file(path == "/" ? "index.html" : path.substr(kPagePath.size()));
  if (file == nullptr) return exchange->respond(error_response({404, "no such file of the page", "", "not_found"}));
  respond_with(*file, exchange);
}

}  // namespace sluice
