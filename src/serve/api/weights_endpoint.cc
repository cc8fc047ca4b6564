// POST /v1/weights/reload: {"folder": "...", "mode": "drain" or "abort"}.
#include <boost/json/object.hpp>
#include <utility>

#include "files/json.h"
#include "serve/api/endpoints.h"
#include "serve/api/request_fields.h"

namespace sluice {
namespace {

bool may_reload(const ApiContext& context, const HttpExchangePtr& exchange) {
  if (exchange->request().is_admin || (context.is_loopback && !exchange->request().is_forwarded)) return true;
  exchange->respond(error_response({403,
                                    "weights are reloaded by requests of this machine, to a server that listens on a "
                                    "loopback address, or by those with an admin's key",
                                    "", "forbidden"}));
  return false;
}

struct Reload {
  std::string folder;
  Engine::ReloadMode mode = Engine::ReloadMode::kDrain;
};

ApiResult<Reload> parse_reload(std::string_view body) {
  auto parsed = parse_request_object(body);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  Reload reload;
  for (const auto& [key, value] : std::get<boost::json::object>(parsed)) {
    const std::string name(key.data(), key.size());
    const std::string text(value.is_string() ? std::string_view(value.get_string()) : std::string_view());
    if (name == "folder" && !text.empty()) {
      reload.folder = text;
    } else if (name == "mode" && (text == "drain" || text == "abort")) {
      if (text == "abort") reload.mode = Engine::ReloadMode::kAbort;
    } else {
      return ApiError{400,
                      "expected \"folder\", a string, and \"mode\", \"drain\" or \"abort\"; found \"" + name +
                          "\": " + describe_json(&value),
                      name, "invalid_value"};
    }
  }
  if (reload.folder.empty()) return ApiError{400, "folder: expected a string, found nothing", "folder", "missing"};
  return reload;
}

}  // namespace

void reload_weights(ApiContext& context, const HttpExchangePtr& exchange) {
  if (!may_reload(context, exchange)) return;
  auto parsed = parse_reload(exchange->request().body);
  if (auto* error = std::get_if<ApiError>(&parsed)) return exchange->respond(error_response(*error));
  context.large_workers.run([&context, exchange, reload = std::move(std::get<Reload>(parsed))] {
    const Result<std::string> version = context.engine.reload_weights(reload.folder, reload.mode);
    if (!version.ok()) return exchange->respond(error_response(to_api_error(version.status())));
    HttpResponse response;
    response.body = R"({"status":"ok","weights_version":)";
    append_json_string(response.body, *version);
    response.body += '}';
    exchange->respond(std::move(response));
  });
}

}  // namespace sluice
