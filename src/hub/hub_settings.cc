// Used by hub_http.h and pull.h.
#include "hub/hub_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

#include "base/storage/mapped_file.h"
#include "files/hub_cache.h"

namespace sluice {
namespace {

constexpr std::size_t kMostTokenBytes = 4096;

std::string variable(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return value;
  }
  return "";
}

bool is_set(const char* name) {
  const std::string value = variable({name});
  return value == "1" || value == "true" || value == "TRUE" || value == "True" || value == "yes" || value == "YES" ||
         value == "on" || value == "ON";
}

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// The file to which `hf auth login` writes the token.
std::string token_file() {
  if (std::string path = variable({"HF_TOKEN_PATH"}); !path.empty()) return path;
  if (const std::string home = variable({"HF_HOME"}); !home.empty()) return home + "/token";
  if (const std::string cache = variable({"XDG_CACHE_HOME"}); !cache.empty()) return cache + "/huggingface/token";
  const std::string home = variable({"HOME"});
  return home.empty() ? "" : home + "/.cache/huggingface/token";
}

Result<std::string> read_token() {
  std::string token = trimmed(variable({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}));
  if (token.empty() && !is_set("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
    const Result<std::string> text = read_text_file(token_file(), kMostTokenBytes);
    if (text.ok()) token = trimmed(*text);
  }
  if (std::ranges::all_of(token, [](char c) { return c > ' ' && c < '\x7f'; })) return token;
  return invalid_argument("HF_TOKEN, or the token file: expected a token of printable ASCII without spaces");
}

Result<std::optional<ServerUrl>> read_proxy(const char* upper, const char* lower) {
  const std::string text = variable({lower, upper});
  if (text.empty()) return std::optional<ServerUrl>();
  const Result<ServerUrl> proxy = parse_server_url(text);
  if (proxy.ok() && !proxy->tls) return std::optional<ServerUrl>(*proxy);
  return invalid_argument(
      fmt::format("{}: expected a proxy such as http://proxy.example:3128; names with a password, and proxies that "
                  "are reached by https or SOCKS, are not supported",
                  upper));
}

Result<double> read_idle_seconds(double otherwise) {
  const std::string text = variable({"HF_HUB_DOWNLOAD_TIMEOUT"});
  if (text.empty()) return otherwise;
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error == std::errc() && end == text.data() + text.size() && seconds > 0 && seconds <= 86400) return seconds;
  return invalid_argument(
      fmt::format("HF_HUB_DOWNLOAD_TIMEOUT: expected a number of seconds above 0, found '{}'", text));
}

// Returns whether an entry of NO_PROXY has this host: "*", the host, or a domain that it lies in.
bool spares(std::string_view entry, std::string_view host) {
  if (entry == "*") return true;
  if (entry.starts_with('.')) entry.remove_prefix(1);
  if (entry.empty() || !host.ends_with(entry)) return false;
  return host.size() == entry.size() || host[host.size() - entry.size() - 1] == '.';
}

}  // namespace

std::optional<ServerUrl> HubSettings::proxy_for(const ServerUrl& server) const {
  const std::optional<ServerUrl>& proxy = server.tls ? https_proxy : http_proxy;
  if (!proxy) return std::nullopt;
  for (std::size_t at = 0; at < no_proxy.size();) {
    const std::size_t end = std::min(no_proxy.find(',', at), no_proxy.size());
    const std::string entry = trimmed(no_proxy.substr(at, end - at));
    if (spares(entry, server.host) || entry == server.authority()) return std::nullopt;
    at = end + 1;
  }
  return proxy;
}

bool HubSettings::is_endpoint(const ServerUrl& server) const {
  return server.tls == endpoint_server.tls && server.host == endpoint_server.host &&
         server.port == endpoint_server.port;
}

Result<HubSettings> read_hub_settings() {
  HubSettings settings;
  if (const std::string given = trimmed(variable({"HF_ENDPOINT"})); !given.empty()) settings.endpoint = given;
  while (settings.endpoint.ends_with('/')) settings.endpoint.pop_back();
  const Result<ServerUrl> server = parse_server_url(settings.endpoint);
  if (!server.ok()) return server.status().with_context("HF_ENDPOINT");
  settings.endpoint_server = *server;
  if (settings.endpoint.find("://") == std::string::npos) settings.endpoint.insert(0, "http://");
  SLUICE_ASSIGN_OR_RETURN(settings.token, read_token());
  settings.folder = hub_cache_folder();
  if (settings.folder.empty()) {
    return invalid_argument("the Hugging Face cache: expected HF_HUB_CACHE, HF_HOME or HOME to name a folder");
  }
  settings.authorities = variable({"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"});
  settings.offline = is_set("HF_HUB_OFFLINE") || is_set("TRANSFORMERS_OFFLINE");
  SLUICE_ASSIGN_OR_RETURN(settings.idle_seconds, read_idle_seconds(settings.idle_seconds));
  SLUICE_ASSIGN_OR_RETURN(settings.http_proxy, read_proxy("HTTP_PROXY", "http_proxy"));
  SLUICE_ASSIGN_OR_RETURN(settings.https_proxy, read_proxy("HTTPS_PROXY", "https_proxy"));
  settings.no_proxy = variable({"no_proxy", "NO_PROXY"});
  return settings;
}

}  // namespace sluice
