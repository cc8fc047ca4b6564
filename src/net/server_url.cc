// Used by http_client.h, hub/hub_name.h and hub/hub_settings.h.
#include "net/server_url.h"

#include <fmt/format.h>

#include <charconv>

namespace sluice {
namespace {

constexpr std::string_view kExample = "expected a server such as http://127.0.0.1:8000";

bool is_port(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 1 && number <= 65535;
}

// "host", "host:port", "[::1]:port"
Status split_authority(std::string_view authority, ServerUrl& url) {
  std::string_view rest;
  if (authority.starts_with('[')) {
    const std::size_t end = authority.find(']');
    if (end == std::string_view::npos) return invalid_argument("'[' without ']'");
    url.host = authority.substr(1, end - 1);
    rest = authority.substr(end + 1);
  } else {
    const std::size_t colon = authority.find(':');
    url.host = authority.substr(0, colon);
    rest = colon == std::string_view::npos ? "" : authority.substr(colon);
  }
  url.port = !rest.empty() ? rest.substr(1) : url.tls ? "443" : "80";
  if (url.host.empty() || (!rest.empty() && rest[0] != ':')) return invalid_argument("it has no host");
  if (!is_port(url.port)) return invalid_argument(fmt::format("'{}' is not a port", url.port));
  return {};
}

}  // namespace

std::string ServerUrl::authority() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

Result<ServerUrl> parse_server_url(std::string_view text) {
  const std::string what = fmt::format("{}, found '{}'", kExample, text);
  std::string_view rest = text;
  ServerUrl url;
  if (const std::size_t scheme = rest.find("://"); scheme != std::string_view::npos) {
    url.tls = rest.substr(0, scheme) == "https";
    if (!url.tls && rest.substr(0, scheme) != "http") return invalid_argument(what);
    rest.remove_prefix(scheme + 3);
  }
  const std::size_t slash = rest.find('/');
  const std::string_view authority = rest.substr(0, slash);
  std::string_view path = slash == std::string_view::npos ? "" : rest.substr(slash);
  if (rest.find_first_of("?#@ ") != std::string_view::npos) return invalid_argument(what);
  SLUICE_RETURN_IF_ERROR(split_authority(authority, url).with_context(what));
  while (path.ends_with('/')) path.remove_suffix(1);
  if (path.ends_with("/v1")) path.remove_suffix(3);
  url.prefix = path;
  return url;
}

}  // namespace sluice
