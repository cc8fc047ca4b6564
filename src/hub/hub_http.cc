// Used by download.h, hub_answers.cc, pull.cc and repository.h.
#include "hub/hub_http.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

constexpr int kMostRedirects = 5;

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool is_passing(int status) {
  return status == 408 || status == 425 || status == 429 || status >= 500;
}

}  // namespace

Result<HttpClient*> HubHttp::client_of(const ServerUrl& server) {
  std::unique_ptr<HttpClient>& client = clients_[(server.tls ? "https://" : "http://") + server.authority()];
  if (client != nullptr) return client.get();
  auto opened = std::make_unique<HttpClient>(
      server, HttpClientOptions{.authorities = settings_.authorities,
                                .trust_advice = "REQUESTS_CA_BUNDLE can name a file with the certificates to trust",
                                .idle_seconds = settings_.idle_seconds,
                                .agent = "sluice",
                                .proxy = settings_.proxy_for(server)});
  SLUICE_RETURN_IF_ERROR(opened->resolve());
  client = std::move(opened);
  return client.get();
}

HubAnswer HubHttp::get_once(const HubGet& request, const WebAddress& place) {
  HubAnswer answer{.place = place};
  const Result<HttpClient*> client = client_of(place.server);
  if (!client.ok()) {
    answer.failure = client.status();
    answer.passing = client.status().code() == StatusCode::kUnavailable;
    return answer;
  }
  HttpCall call{.path = place.target};
  if (!settings_.token.empty() && settings_.is_endpoint(place.server)) call.authorization = "Bearer " + settings_.token;
  if (!request.range.empty()) call.headers.emplace_back("Range", request.range);
  bool streams = false;
  // Ends the request because of what came.
  const auto end_if = [&](const Status& status) {
    if (status.ok()) return;
    answer.failure = status;
    (*client)->stop();
  };
  HttpEvents events;
  events.on_fields = [&](const HttpHead& head) {
    answer.head = head;
    streams = request.on_body && (head.status == 200 || head.status == 206);
    if (streams && request.on_head) end_if(request.on_head(head));
  };
  events.on_body = [&](std::string_view bytes) {
    if (!answer.failure.ok()) return;
    if (streams) return end_if(request.on_body(bytes));
    if (answer.body.size() + bytes.size() > request.most_bytes) {
      return end_if(invalid_argument(fmt::format("{}{}: the answer is longer than {} bytes", place.server.authority(),
                                                 place.target, request.most_bytes)));
    }
    answer.body += bytes;
  };
  events.on_end = [&](CallEnd end, const std::string& reason) {
    if (end == CallEnd::kWhole || !answer.failure.ok()) return;
    answer.failure = unavailable(fmt::format("{}: {}", place.server.authority(), reason));
    answer.passing = !reason.starts_with("TLS:");
  };
  (*client)->send(std::move(call), std::move(events));
  (*client)->run();
  if (answer.failure.ok()) answer.passing = is_passing(answer.head.status);
  return answer;
}

HubAnswer HubHttp::get(const HubGet& request) {
  WebAddress place = request.from;
  for (int redirects = 0;; ++redirects) {
    HubAnswer answer = get_once(request, place);
    if (!answer.failure.ok() || !is_redirect(answer.head.status)) return answer;
    const Result<WebAddress> next = follow_location(place, answer.head.field("Location"));
    if (!next.ok() || redirects == kMostRedirects) {
      answer.failure =
          next.ok() ? unavailable(fmt::format("{}: more than {} redirects", place.server.authority(), kMostRedirects))
                    : next.status().with_context(place.server.authority());
      return answer;
    }
    place = *next;
  }
}

}  // namespace sluice
